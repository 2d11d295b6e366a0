// The lock of a data directory, and the address of the coordinator that holds
// it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace iclsweep {

// Makes the directory and its folders, and takes its lock for this process; the
// descriptor closes on exec and holds the lock until it is closed.
// FailedPrecondition names the live owner (host, pid, since). Unavailable:
// cannot make or open.
absl::StatusOr<int> LockDataDir(const std::string& data_dir);

// Writes where the lock's owner listens beside its name. Unavailable: cannot
// write.
absl::Status TellAddress(int lock_fd, const std::string& address);

// Where the coordinator listens that has this data directory now; NotFound when
// none has, or when it is still starting.
absl::StatusOr<std::string> AddressOfOwner(const std::string& data_dir);

// "host pid" of this process.
std::string ThisProcess();

}  // namespace iclsweep
