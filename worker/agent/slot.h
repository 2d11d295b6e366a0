// The slot directory: what survives a worker process. One process holds it at a
// time (flock).
//
//   slot.uuid       identity
//   lock            flock of the running process
//   running         the lease being run and its step count, rewritten in place
//                   at every step
//   exit            how the last process ended, written by the node agent
//   spool/*.result  finished results not acknowledged yet, each with its
//                   checksum
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/domain.h"
#include "worker/agent/worker_link.h"

namespace iclsweep {

class Slot {
 public:
  // Makes the directory if need be and takes its lock. FailedPrecondition:
  // another process holds it.
  static absl::StatusOr<std::unique_ptr<Slot>> Open(
      const std::string& directory);
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  const std::string& uuid() const { return uuid_; }
  const std::string& directory() const { return directory_; }

  // How the previous process of this slot ended; forgotten by
  // ForgetPredecessor.
  Predecessor ReadPredecessor() const;
  void ForgetPredecessor();

  // Running mark; not synced to disk: it must survive the process, not the
  // machine. Thread-safe against itself only.
  void MarkRunning(const LeaseProgress& progress);
  void ClearRunning();

  // Durable when it returns. Unavailable when the disk refuses.
  absl::Status Spool(const LeaseRef& lease, const std::string& encoded);
  struct Spooled {
    std::string file;
    std::string encoded;
  };
  // Whole entries, oldest first; a torn one is set aside as *.damaged and
  // reported.
  absl::StatusOr<std::vector<Spooled>> ReadSpool();
  absl::Status Forget(const std::string& file);
  // The leases whose results lie in the spool. Thread-safe.
  std::vector<LeaseRef> SpooledLeases() const;

 private:
  Slot() = default;
  std::string directory_;
  std::string uuid_;
  int lock_fd_ = -1;
  int running_fd_ = -1;
};

// The node agent's note on how a child ended, for its successor.
void WriteExit(const std::string& slot_directory, const std::string& cause,
               const std::string& description, const std::string& log_tail);

}  // namespace iclsweep
