// What the agent needs from the coordinator, as an interface: link/ implements
// it over gRPC, tests with a fake. Calls block until answered or the deadline.
// Unavailable and DeadlineExceeded mean: try again; NotFound: register again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"

namespace iclsweep {

struct SlotIdentity {
  std::string uuid;  // of the slot directory
  std::string name;  // for people: host/cpu-0
};

// How the slot's previous process ended. lease.job = 0: it was running nothing.
struct Predecessor {
  LeaseProgress progress;
  Cause cause = Cause::kPreempted;
  std::string description;
  std::string log_tail;
};

struct Registration {
  WorkerId worker;
  std::string database_uuid;
  std::string artifact_dir;
  std::string partial_dir;
  std::string log_dir;  // empty: attempts keep no logs
  int64_t heartbeat_us = 5'000'000;
  int64_t checkpoint_every_steps = 0;
  std::vector<LeaseRef> revoked;
};

// A leased job, ready to run. `run` holds the decoded inputs.
struct LeasedWork {
  LeaseRef lease;
  JobKey key;
  Stage stage = Stage::kTrain;
  std::vector<Artifact> input_artifacts;  // one per dependency that has one
  std::function<absl::StatusOr<StageResult>(const StageContext&)> run;
};

struct LeaseReply {
  std::vector<LeasedWork> jobs;  // empty: nothing to do
  bool drain = false;            // leave
};

struct SyncReply {
  std::vector<LeaseRef> revoked;
  bool register_again = false;
  bool drain = false;      // leave when the running job is done
  bool drain_now = false;  // save the running job, give it back and leave
};

enum class Delivery { kCommitted, kAlreadyCommitted, kStale };

class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual absl::StatusOr<Registration> Register(
      const SlotIdentity& slot, const std::vector<LeaseProgress>& held,
      const Predecessor& predecessor) = 0;
  // Waits up to wait_us for work, at most max_jobs of it. InvalidArgument: the
  // coordinator sent what this worker refuses.
  virtual absl::StatusOr<LeaseReply> Lease(WorkerId worker,
                                           const std::string& request,
                                           uint32_t max_jobs,
                                           int64_t wait_us) = 0;
  virtual absl::StatusOr<SyncReply> Sync(
      WorkerId worker, const std::vector<LeaseProgress>& held) = 0;
  // `encoded`: what Encode made; as many answers. InvalidArgument: one of them
  // is refused, and which of the others were taken is not told.
  virtual absl::StatusOr<std::vector<Delivery>> Complete(
      WorkerId worker, const std::vector<std::string>& encoded) = 0;
  virtual absl::Status Release(WorkerId worker,
                               const std::vector<LeaseProgress>& leases,
                               Cause cause) = 0;
  // This process is about to exit.
  virtual absl::Status Leave(WorkerId worker) = 0;
  // A completion as bytes for the spool.
  virtual std::string Encode(const Completion& completion) = 0;
  // Makes every call but Release and Leave return Cancelled, also those under
  // way, for ever. Thread-safe.
  virtual void Cancel() = 0;
};

}  // namespace iclsweep
