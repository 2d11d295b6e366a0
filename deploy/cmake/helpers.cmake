# Small helpers; every target names its sources and what it may use.

# Warnings (and sanitizers) for our own code only; generated code does not link this.
add_library(iclsweep_warnings INTERFACE)
target_compile_options(iclsweep_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                       -Werror -ffp-contract=off)
if(ICLSWEEP_SANITIZE)
  # GCC 12 reports std::variant's storage as uninitialized once it is instrumented.
  target_compile_options(iclsweep_warnings INTERFACE -fsanitize=${ICLSWEEP_SANITIZE} -fno-omit-frame-pointer
                         -Wno-maybe-uninitialized)
  target_link_options(iclsweep_warnings INTERFACE -fsanitize=${ICLSWEEP_SANITIZE})
endif()

# iclsweep_library(NAME SOURCES a.cc ... DEPS target ...): static library iclsweep_NAME, alias iclsweep::NAME.
function(iclsweep_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(iclsweep_${name} STATIC ${ARG_SOURCES})
  add_library(iclsweep::${name} ALIAS iclsweep_${name})
  target_include_directories(iclsweep_${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(iclsweep_${name} PUBLIC ${ARG_DEPS} PRIVATE iclsweep_warnings)
endfunction()

# iclsweep_test(NAME LABEL unit|grpc|torch|golden|e2e|cuda SOURCES a_test.cc ... DEPS target ...)
# All tests run in the source's tests/ folder.
function(iclsweep_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} iclsweep_warnings GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  gtest_discover_tests(${name} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/tests" DISCOVERY_MODE PRE_TEST
                       DISCOVERY_TIMEOUT 120 PROPERTIES LABELS ${ARG_LABEL})
endfunction()
