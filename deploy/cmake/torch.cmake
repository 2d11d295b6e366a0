# LibTorch from the `torch` wheel in .deps/torch (deploy/setup.sh puts it there), as the target iclsweep::torch.
# The wheel's own find_package(Torch) asks for an installed CUDA toolkit even for CPU use, so the targets are made here.
# Its headers contain an old google/protobuf: -idirafter lets the system's win.
set(ICLSWEEP_TORCH_ROOT "${PROJECT_SOURCE_DIR}/.deps/torch" CACHE PATH "Folder with the unpacked torch wheel")
set(_torch "${ICLSWEEP_TORCH_ROOT}/torch")
if(NOT EXISTS "${_torch}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch is not in ${ICLSWEEP_TORCH_ROOT}: run deploy/setup.sh, or set ICLSWEEP_TORCH_ROOT")
endif()

foreach(part c10 torch_cpu)
  add_library(iclsweep_${part} SHARED IMPORTED)
  set_target_properties(iclsweep_${part} PROPERTIES IMPORTED_LOCATION "${_torch}/lib/lib${part}.so")
endforeach()

add_library(iclsweep_torch INTERFACE)
add_library(iclsweep::torch ALIAS iclsweep_torch)
target_compile_options(iclsweep_torch INTERFACE
  "SHELL:-idirafter ${_torch}/include" "SHELL:-idirafter ${_torch}/include/torch/csrc/api/include")
target_link_libraries(iclsweep_torch INTERFACE iclsweep_torch_cpu iclsweep_c10)
target_link_options(iclsweep_torch INTERFACE "LINKER:-rpath,${_torch}/lib" "LINKER:--disable-new-dtags"
  "LINKER:-rpath-link,${ICLSWEEP_TORCH_ROOT}/nvidia/cu13/lib")
