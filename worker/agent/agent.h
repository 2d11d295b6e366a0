// One worker process's life: register its slot, deliver what an earlier process
// left in the spool, then lease a bundle of jobs, run one after the other,
// spool, hand in, again and again; meanwhile a heartbeat thread renews the
// leases, however long a step takes.
//
// Results of small jobs are synced to disk and handed in together: at the
// latest when a second has passed since the last time, and at a bundle's end.
//
// It knows the coordinator as a WorkerLink and time as a Clock, and leaves what
// a job is to LeasedWork::run.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "proto/base/clock.h"
#include "proto/base/domain.h"
#include "proto/base/mutex.h"
#include "proto/base/stage.h"
#include "worker/agent/attempt_log.h"
#include "worker/agent/slot.h"
#include "worker/agent/worker_link.h"

namespace iclsweep {

struct AgentOptions {
  std::string slot_name;
  Provenance provenance;
  std::string device = "cpu";
  int64_t poll_us = 20'000'000;
  uint32_t bundle = 256;        // most jobs leased at once
  int64_t idle_timeout_us = 0;  // exit after so long without work; 0 = never
  // For tests of crashes: called at "after_lease", "progress.<stage>",
  // "checkpointed", "after_spool", "spool_found" (of an earlier process);
  // "progress" only in the middle of a stage. Empty = none.
  std::function<void(const std::string& point)> fault;
};

class Agent {
 public:
  // All three must outlive the agent.
  Agent(const AgentOptions& options, WorkerLink* link, Slot* slot, Clock* clock)
      : options_(options), link_(link), slot_(slot), clock_(clock) {}

  // Until Stop, drain or idle timeout (OK), or an error nobody can repair by
  // waiting: refused by the coordinator, artifact directory not shared, disk
  // full.
  absl::Status Run();

  // From a signal's thread: the stage saves what it can, the lease is given
  // back, Run returns. Thread-safe.
  void Stop(Cause cause);

 private:
  absl::Status Work();
  // Gives back what has not begun, and leaves when the running job is done.
  void Drain();
  // Drained, or idle for too long.
  bool MayLeave();
  bool MustRegister();
  // Delivers what is spooled, asks for work once, and does it.
  absl::Status TakeTurn();
  absl::StatusOr<LeaseReply> AskForWork();
  absl::Status RegisterUntilAccepted();
  absl::Status Accept(Registration registration);
  absl::Status CheckSharedArtifacts(const Registration& registration) const;
  // Sends the first `count` spooled results until they are answered, or it is
  // stopped (gave_up_).
  absl::Status Send(size_t count);
  // The same, and forgets what was taken or refused.
  absl::Status Deliver(size_t count);
  absl::Status DeliverSpool();
  absl::Status SyncAndDeliver();
  absl::Status RunBundle(const std::vector<LeasedWork>& bundle);
  // False when its lease was revoked before.
  bool Begin(const LeasedWork& work);
  absl::Status RunOne(const LeasedWork& work);
  Completion Describe(const LeasedWork& work,
                      const absl::StatusOr<StageResult>& result,
                      int64_t duration_us);
  absl::Status HandIn(const Completion& completion);
  bool MustLeave();
  // False when the coordinator could not be told.
  bool GiveBack(const std::vector<LeaseProgress>& leases);
  void GiveBackWaiting();
  // The coordinator wants that lease dropped.
  void Drop(const LeaseRef& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  StageContext ContextOf(const LeasedWork& work, AttemptLog* log);
  std::string LogFileOf(const LeasedWork& work);
  void OnProgress(Stage stage, LeaseProgress progress);
  void Heartbeat(const std::stop_token& stop);
  void SyncOnce();
  // Waits; false when stopping.
  bool Pause(int64_t micros);
  std::vector<LeaseProgress> Held();
  WorkerId worker();
  void Fault(const std::string& point) const {
    if (options_.fault) options_.fault(point);
  }

  const AgentOptions options_;
  WorkerLink* const link_;
  Slot* const slot_;
  Clock* const clock_;

  std::atomic<bool> stop_stage_ =
      false;  // read by the stage: stopping, or its lease was revoked
  std::atomic<bool> stopping_ = false;

  Mutex mu_;
  std::condition_variable wake_;
  Registration registration_ ABSL_GUARDED_BY(mu_);
  std::optional<LeaseProgress> running_ ABSL_GUARDED_BY(mu_);
  std::deque<LeaseRef> waiting_ ABSL_GUARDED_BY(mu_);  // of the bundle
  bool revoked_ ABSL_GUARDED_BY(mu_) = false;
  bool must_register_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  Cause stop_cause_ ABSL_GUARDED_BY(mu_) = Cause::kPreempted;
  uint64_t requests_ = 0;
  int64_t last_work_us_ = 0;
  int64_t delivered_us_ = 0;
  bool gave_up_ = false;  // delivering, as it was stopped
};

}  // namespace iclsweep
