// The slot directory: what survives a worker process. One process holds it at a
// time (flock).
//
//   slot.uuid       identity
//   lock            flock of the running process
//   running         the lease being run and its step count, rewritten in place
//                   at every step
//   exit            how the last process ended, written by the node agent
//   spool           finished results not acknowledged yet, one after the other,
//                   each with its length and checksum
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/domain.h"
#include "proto/base/mutex.h"
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

  // The spool. What Open found torn in it was set aside in spool.damaged and
  // reported; the rest is there.
  struct Spooled {
    LeaseRef lease;
    std::string encoded;
  };
  // Survives this process when it returns, and the machine after SyncSpool.
  // Unavailable when the disk refuses; then nothing is spooled.
  absl::Status Spool(const LeaseRef& lease, const std::string& encoded);
  absl::Status SyncSpool();
  // Oldest first.
  const std::vector<Spooled>& spooled() const { return spooled_; }
  // The first `count` were acknowledged.
  absl::Status ForgetSpooled(size_t count);
  // Thread-safe.
  std::vector<LeaseRef> SpooledLeases() const;

 private:
  Slot() = default;
  absl::Status OpenSpool();
  void NoteSpooledLeases();

  std::string directory_;
  std::string uuid_;
  int lock_fd_ = -1;
  int running_fd_ = -1;
  int spool_fd_ = -1;
  int64_t spool_bytes_ = 0;
  std::vector<Spooled> spooled_;
  mutable Mutex mu_;
  std::vector<LeaseRef> spooled_leases_ ABSL_GUARDED_BY(mu_);
};

// The node agent's note on how a child ended, for its successor.
void WriteExit(const std::string& slot_directory, const std::string& cause,
               const std::string& description, const std::string& log_tail);

}  // namespace iclsweep
