// Holds the process at a named moment, so that tests can kill it there. Off
// unless ICLSWEEP_FAULT_DIR is set.
#pragma once

#include <functional>
#include <string>

namespace iclsweep {

// At point P: while the file DIR/hold.P exists, writes DIR/held.P.PID and
// waits. With no such directory set: empty.
std::function<void(const std::string& point)> FaultHookFromEnvironment();

}  // namespace iclsweep
