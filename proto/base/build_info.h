// What this program was built from.
#pragma once

#include <string>

namespace iclsweep {

// Git commit, with "+" when the tree had changes; "unknown" outside a
// repository.
std::string BuildVersion();
std::string ProgramVersion();  // 0.1.0

}  // namespace iclsweep
