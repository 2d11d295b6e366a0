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
// What runs next: the first sweep's first ready job, and with it, in one
// bundle, as many of its family (same stage, same parent) as make up bundle_us
// of expected work; a worker goes on with the family whose checkpoint it has
// loaded. Costs are learned from the durations that workers tell.
//
// Not thread-safe: the loop's thread owns it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/events.h"
#include "coordinator/core/ready_queue.h"
#include "coordinator/core/retry.h"
#include "proto/base/domain.h"

namespace iclsweep {

struct CoreOptions {
  int64_t lease_us = 30'000'000;
  int64_t bundle_us = 2'000'000;  // expected work of one bundle
};

// A worker as the scheduler sees it.
struct WorkerView {
  WorkerId id;
  bool connected = false;
  bool draining = false;
  int64_t heard_us = 0;
  uint32_t stages = 0;  // that it may be given, bits StageBit
  std::optional<LeaseProgress> running;
  uint32_t waiting = 0;  // leased in its bundle and not begun
};

// Jobs of one stage and state, by the first of them.
struct JobGroup {
  Stage stage = Stage::kTrain;
  JobState state = JobState::kBlocked;
  uint64_t jobs = 0;
  JobId first;
};

// Of the jobs that a sweep wants, how many of each stage are in each state.
using JobCounts = std::array<std::array<uint64_t, kJobStates>, kStageNumbers>;

// Neither done nor failed, for whatever reason.
uint64_t OpenJobs(const JobCounts& counts);

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
  Stage StageOf(JobId job) const;
  bool Knows(JobId job) const;
  bool IsActive(SweepId sweep) const;
  const JobCounts& CountsOf(SweepId sweep) const;
  // The sweeps whose counts changed since this was last asked, in order.
  std::set<SweepId> TakeChangedSweeps();
  // Workers heard of within the last lease's time that have not said goodbye.
  uint32_t connected_workers() const;
  uint64_t ready_jobs() const;
  // Of the leased jobs, as last told: steps done, and in all.
  std::pair<uint64_t, uint64_t> LeasedSteps() const;
  // Mean duration of the stage's jobs, recent ones counting more; 0 = none has
  // ended since the core was made.
  double MeanCostUs(Stage stage) const;

  // ---- for people (explain.cc)
  // Why the job is where it is, in words.
  std::string Explain(JobId job) const;
  // Why the worker does what it does, or does nothing.
  std::string ExplainWorker(WorkerId worker) const;
  // Those connected, and those gone that still hold leases; in order of ids.
  std::vector<WorkerView> Workers() const;
  // Of the jobs that the sweep wants, in order of stage and state.
  std::vector<JobGroup> GroupsOf(SweepId sweep) const;

  // OK, or the first broken invariant.
  absl::Status CheckInvariants() const;

 private:
  // Kept small: a coordinator knows millions of them.
  struct Job {
    bool known = false;
    Stage stage = Stage::kTrain;
    JobState state = JobState::kBlocked;
    uint16_t max_attempts = 3;
    uint32_t last_attempt = 0;
    uint32_t missing = 0;  // dependencies that are not done
    uint32_t broken = 0;   // of these, failed or upstream_failed ones
    SweepId sweep;         // the first that wants it
    JobId parent;          // the first it depends on
    std::vector<JobId> dependents;
  };
  struct Lease {
    WorkerId holder;
    int64_t deadline_us = 0;
    bool confirmed = false;  // a Sync has named it
    bool waiting = true;     // not begun, as last told
    bool checkpointed = false;
    uint64_t steps_run = 0;  // these three as last told
    uint64_t steps_done = 0;
    uint64_t steps_total = 0;
  };
  struct Sweep {
    bool active = true;
    uint64_t ready_jobs = 0;
    ReadyQueue ready;
    JobCounts counts{};
  };
  struct Worker {
    std::string slot;
    bool restored = false;  // known from before a restart; must register again
    bool connected = false;
    bool draining = false;
    bool drain_now = false;
    int64_t heard_us = 0;
    uint32_t stages = 0;
    JobId parent;  // of the jobs it was given last: its checkpoint is loaded
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
  void On(const SweepActivated& event, int64_t now_us, Effects* out);
  void On(const SweepCancelled& event, int64_t now_us, Effects* out);
  void On(const Retried& event, int64_t now_us, Effects* out);
  void On(const WorkerRegistered& event, int64_t now_us, Effects* out);
  void On(const LeaseRequested& event, int64_t now_us, Effects* out);
  void On(const LeaseAbandoned& event, int64_t now_us, Effects* out);
  void On(const Synced& event, int64_t now_us, Effects* out);
  void On(const Completed& event, int64_t now_us, Effects* out);
  void On(const Released& event, int64_t now_us, Effects* out);
  void On(const Departed& event, int64_t now_us, Effects* out);
  void On(const DrainRequested& event, int64_t now_us, Effects* out);
  void On(const Tick& event, int64_t now_us, Effects* out);

  struct OpenDependencies {
    uint32_t missing = 0;
    uint32_t broken = 0;
  };
  absl::Status CheckJob(JobId id, const Job& job,
                        const OpenDependencies& open) const;
  absl::Status CheckLeases() const;
  absl::Status CheckCounts() const;
  std::string ExplainReady(JobId id, const Job& job) const;
  // "train job 3 (leased)", of the first job that keeps this one waiting.
  std::string Describe(JobId id) const;
  Job* Find(JobId id);
  const Job* Find(JobId id) const;
  void AddJob(const NewJob& added, Effects* out);
  // The sweep wants the job from now on.
  void Join(SweepId sweep, JobId id, const Job& job);
  template <typename Visit>  // void(SweepId)
  void ForEachSweepOf(JobId id, const Job& job, Visit visit) const {
    visit(job.sweep);
    if (more_sweeps_.empty()) return;
    const auto more = more_sweeps_.find(id);
    if (more == more_sweeps_.end()) return;
    for (const SweepId sweep : more->second) visit(sweep);
  }
  bool IsWanted(JobId id, const Job& job) const;
  void Count(JobId id, const Job& job, int64_t change);
  void CountIn(SweepId sweep, const Job& job, int64_t change);
  void SetState(JobId id, Job* job, JobState state, Effects* out);
  // The job's lease, which ends.
  Lease TakeLease(JobId id);
  // Ends the running attempt of a leased job without a result, and decides what
  // becomes of the job.
  void EndWithoutResult(JobId id, Job* job, AttemptFinished end, Effects* out);
  void CommitDone(JobId id, Job* job, Effects* out);
  void Fail(JobId id, Job* job, Effects* out);
  void Reopen(JobId id, Job* job, Effects* out);
  void Grant(const Poll& poll, int64_t now_us, Effects* out);
  void ServePolls(int64_t now_us, Effects* out);
  // The worker, which has just been heard; null when it is not known.
  Worker* Hear(WorkerId worker, int64_t now_us);
  bool IsReady(JobId id) const;
  // Where a worker's next jobs come from; no sweep = nowhere.
  struct Source {
    Sweep* sweep = nullptr;
    ReadyQueue::Family family;
  };
  Source NextSource(const Worker& worker);
  // How many jobs of a source make up a bundle.
  uint64_t BundleSize(const Source& source, uint32_t max_jobs) const;
  LeaseRef StartAttempt(WorkerId worker, JobId id, int64_t now_us,
                        Effects* out);
  void LearnCost(const Job& job, int64_t duration_us);
  void Retire(WorkerId worker, const WorkerRegistered& event, Effects* out);
  bool Renew(WorkerId worker, const LeaseProgress& progress, int64_t now_us);
  void NoteCheckpoint(JobId id);
  void DropPolls(WorkerId worker, bool unknown_worker, Effects* out);
  void AnswerEmpty(const Poll& poll, bool unknown_worker, Effects* out);

  CoreOptions options_;
  std::vector<Job> jobs_;  // by id
  std::map<JobId, Lease> leases_;
  std::map<JobId, RetryBudgets> spent_;  // of those that failed and go on
  std::map<SweepId, Sweep> sweeps_;      // in order of submission
  std::set<SweepId> offering_;           // of these, those with ready jobs
  std::map<JobId, std::vector<SweepId>> more_sweeps_;  // that want it as well
  std::set<SweepId> changed_sweeps_;
  // Mean duration of a family's jobs, recent ones counting more; with parent 0
  // that of all jobs of the stage.
  std::map<std::pair<Stage, JobId>, double> cost_us_;
  std::map<WorkerId, Worker> workers_;
  std::map<std::string, WorkerId> worker_of_slot_;
  std::vector<Poll> polls_;  // in order of arrival
  std::set<std::pair<int64_t, JobId>> deadlines_;
};

}  // namespace iclsweep
