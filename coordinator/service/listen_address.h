// Whether a coordinator may and can listen somewhere, before anything is made.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace iclsweep {

// InvalidArgument: the form, or an address that other machines reach without
// `insecure`. Unavailable with the system's reason: the address is in use or
// cannot be had. A socket file that nobody listens on is no obstacle.
absl::Status CheckListenAddress(const std::string& listen, bool insecure);

}  // namespace iclsweep
