cmake_minimum_required(VERSION 3.25)
# Writes build_info.cc with "<version> (<commit>[+])"; "+" when the tree had changes. Without git: "unknown".
set(commit "unknown")
execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE failed)
if(NOT failed)
  execute_process(COMMAND git -C "${SOURCE}" status --porcelain --untracked-files=no OUTPUT_VARIABLE changes ERROR_QUIET)
  set(commit "${head}")
  if(NOT changes STREQUAL "")
    set(commit "${head}+")
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#include \"proto/base/build_info.h\"

namespace iclsweep {

std::string BuildVersion() { return \"@commit@\"; }
std::string ProgramVersion() { return \"@VERSION@\"; }

}  // namespace iclsweep
" @ONLY)
