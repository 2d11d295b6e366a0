// The scheduler's state machine: which jobs exist, who holds which lease, what
// runs next, what a failure costs.
//
// A value without effects: Apply(event, now) changes it and says what must be
// written and answered. It has no clock, no randomness, no I/O; the same events
// at the same times give the same effects. It knows jobs by integer id, stage
// and dependencies, never by parameters.
//
// Invariants (checked by CheckInvariants and by simulation):
//  - a job commits at most one result; attempt numbers only grow; a terminal
//  state is never left;
//  - a worker holds at most one lease per job, and a job has at most one
//  holder;
//  - a job is ready exactly when all it depends on is done and nobody holds it.
//
// Not thread-safe: the loop's thread owns it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/events.h"
#include "coordinator/core/retry.h"
#include "proto/base/domain.h"

namespace iclsweep {

struct CoreOptions {
  int64_t lease_us = 30'000'000;
};

class Core {
 public:
  explicit Core(const CoreOptions& options) : options_(options) {}

  Effects Apply(const Event& event, int64_t now_us);

  // Restart: after the jobs came in by JobsAdded, the attempts that had no end.
  // Each gets a whole lease of grace, and its worker keeps what it holds but is
  // asked to register again, since what it can run is not known.
  void RestoreLease(LeaseRef lease, WorkerId worker, const std::string& slot,
                    int64_t now_us);
  void RestoreBudget(JobId job, Cause cause, uint32_t spent);

  // When Apply(Tick) next has something to do; INT64_MAX = never.
  int64_t NextDeadline() const;

  JobState StateOf(JobId job) const;
  bool Knows(JobId job) const;
  // Workers heard of within the last lease's time that have not said goodbye.
  uint32_t connected_workers() const;
  uint64_t ready_jobs() const;
  // Why the job is not running, in words; empty when it is running or done.
  std::string Explain(JobId job) const;

  // OK, or the first broken invariant.
  absl::Status CheckInvariants() const;

 private:
  struct Job {
    bool known = false;
    Stage stage = Stage::kTrain;
    JobState state = JobState::kBlocked;
    uint32_t last_attempt = 0;
    uint32_t missing = 0;  // dependencies that are not done
    uint32_t max_attempts = 3;
    RetryBudgets spent;
    std::vector<JobId> dependents;
    // While leased:
    WorkerId holder;
    int64_t deadline_us = 0;
    bool confirmed = false;  // a Sync has named it
    uint64_t steps_run = 0;  // as last told
    bool checkpointed = false;
  };
  struct Worker {
    std::string slot;
    bool restored = false;  // known from before a restart; must register again
    bool connected = false;
    int64_t heard_us = 0;
    uint32_t stages = 0;
    std::set<JobId> held;
    std::string last_request;  // answered with last_leases
    std::vector<LeaseRef> last_leases;
  };
  struct Poll {
    WorkerId worker;
    std::string request;
    uint32_t max_jobs = 1;
    int64_t until_us = 0;
  };

  void On(const JobsAdded& event, int64_t now_us, Effects* out);
  void On(const WorkerRegistered& event, int64_t now_us, Effects* out);
  void On(const LeaseRequested& event, int64_t now_us, Effects* out);
  void On(const LeaseAbandoned& event, int64_t now_us, Effects* out);
  void On(const Synced& event, int64_t now_us, Effects* out);
  void On(const Completed& event, int64_t now_us, Effects* out);
  void On(const Released& event, int64_t now_us, Effects* out);
  void On(const Departed& event, int64_t now_us, Effects* out);
  void On(const Tick& event, int64_t now_us, Effects* out);

  absl::Status CheckJob(JobId id, const Job& job, uint32_t missing) const;
  Job* Find(JobId id);
  const Job* Find(JobId id) const;
  void AddJob(const NewJob& added, Effects* out);
  void SetState(JobId id, Job* job, JobState state, Effects* out);
  void TakeFromHolder(JobId id, Job* job);
  // Ends the running attempt of a leased job without a result, and decides what
  // becomes of the job.
  void EndWithoutResult(JobId id, Job* job, AttemptFinished end, Effects* out);
  void CommitDone(JobId id, Job* job, Effects* out);
  void Fail(JobId id, Job* job, Effects* out);
  void Grant(const Poll& poll, int64_t now_us, Effects* out);
  void ServePolls(int64_t now_us, Effects* out);
  // The worker, which has just been heard; null when it is not known.
  Worker* Hear(WorkerId worker, int64_t now_us);
  JobId NextReady(uint32_t stages) const;
  void Retire(WorkerId worker, const WorkerRegistered& event, Effects* out);
  bool Renew(WorkerId worker, const LeaseProgress& progress, int64_t now_us);
  void DropPolls(WorkerId worker, bool unknown_worker, Effects* out);
  void AnswerEmpty(const Poll& poll, bool unknown_worker, Effects* out);

  CoreOptions options_;
  std::vector<Job> jobs_;  // by id
  std::array<std::set<JobId>, 8>
      ready_;  // by stage, in order of id, which is the order of the sweeps
  std::map<WorkerId, Worker> workers_;
  std::map<std::string, WorkerId> worker_of_slot_;
  std::vector<Poll> polls_;  // in order of arrival
  std::set<std::pair<int64_t, JobId>> deadlines_;
};

}  // namespace iclsweep
