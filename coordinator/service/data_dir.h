// The lock of a data directory.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace iclsweep {

// Makes the directory and its folders, and takes its lock for this process; the
// descriptor closes on exec and holds the lock until it is closed.
// FailedPrecondition names the live owner (host, pid, since). Unavailable:
// cannot make or open.
absl::StatusOr<int> LockDataDir(const std::string& data_dir);

// "host pid" of this process.
std::string ThisProcess();

}  // namespace iclsweep
