// What can happen to the core, and what it wants done in answer. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "proto/base/domain.h"

namespace iclsweep {

// ---- events
// -------------------------------------------------------------------------------------------------------

struct NewJob {
  JobId id;
  Stage stage = Stage::kTrain;
  std::vector<JobId>
      depends_on;  // known to the core already, or earlier in the same event
  JobState stored_state =
      JobState::kBlocked;  // a terminal state is taken over, any other worked
                           // out anew
  uint32_t last_attempt = 0;
  uint32_t max_attempts = 3;
  SweepId sweep;  // that wants it
};

// Jobs that sweeps want. A job known already keeps its state and is wanted by
// one sweep more; its retry limit becomes the larger one.
struct JobsAdded {
  std::vector<NewJob> jobs;
};

// Jobs run while an active sweep wants them. Cancelling touches no job but the
// running ones that nobody else wants: they are taken back, free of charge.
struct SweepActivated {
  SweepId sweep;
};
struct SweepCancelled {
  SweepId sweep;
};

// Failed jobs get their budgets anew, attempt numbers go on; what failed for
// want of them waits again. Jobs in any other state are left alone.
struct Retried {
  std::vector<JobId> jobs;
};

struct WorkerRegistered {
  WorkerId worker;      // new with every registration
  std::string slot;     // ends what an earlier worker of this slot held
  uint32_t stages = 0;  // bit StageBit(s): same numerics version, may be leased
  std::vector<LeaseProgress> held;  // what this process still runs
  // How the slot's previous process ended; lease.job = 0: it was running
  // nothing.
  LeaseProgress predecessor;
  Cause predecessor_cause = Cause::kPreempted;
  std::string predecessor_message;
  std::string predecessor_log;
};

struct LeaseRequested {
  WorkerId worker;
  std::string request;        // id: the same one gets the same jobs
  uint32_t max_jobs = 1;      // of a bundle
  int64_t wait_until_us = 0;  // answered empty then
};

// The poll's caller is gone.
struct LeaseAbandoned {
  WorkerId worker;
  std::string request;
};

struct Synced {
  WorkerId worker;
  std::vector<LeaseProgress> held;
};

struct Completed {
  WorkerId worker;
  LeaseRef lease;
  AttemptOutcome outcome = AttemptOutcome::kDone;
  Cause cause = Cause::kNone;
  std::string message;
  uint64_t steps_run = 0;
  int64_t duration_us = 0;
};

struct Released {
  WorkerId worker;
  LeaseRef lease;
  Cause cause = Cause::kDrained;
  uint64_t steps_run = 0;
};

// A worker is about to exit. What it still holds waits for its slot's next
// process, or for the lease to run out.
struct Departed {
  WorkerId worker;
};

// These workers get no new jobs and leave when what they run is done; `now`:
// as soon as they have saved it.
struct DrainRequested {
  std::vector<WorkerId> workers;
  bool now = false;
};

// Time has passed: leases and polls run out, silent workers are gone.
struct Tick {};

using Event =
    std::variant<JobsAdded, SweepActivated, SweepCancelled, Retried,
                 WorkerRegistered, LeaseRequested, LeaseAbandoned, Synced,
                 Completed, Released, Departed, DrainRequested, Tick>;

// ---- effects
// ------------------------------------------------------------------------------------------------------

struct JobStateChanged {
  JobId job;
  JobState state = JobState::kReady;
};

struct AttemptStarted {
  LeaseRef lease;
  WorkerId worker;
};

struct AttemptFinished {
  LeaseRef lease;
  AttemptOutcome outcome = AttemptOutcome::kFailed;
  Cause cause = Cause::kNone;
  std::string message;
  std::string log;
  uint64_t steps_run = 0;
  bool checkpointed = false;
  int64_t duration_us = 0;
};

// Answers a LeaseRequested; no leases = nothing to do.
struct LeaseAnswered {
  WorkerId worker;
  std::string request;
  std::vector<LeaseRef> leases;
  bool unknown_worker = false;  // it must register (again)
  bool drain = false;           // it is to leave
};

enum class Verdict { kCommitted, kAlreadyCommitted, kStale };

struct Effects {
  std::vector<JobStateChanged>
      job_states;  // rows, in order: the last one of a job counts
  std::vector<AttemptStarted> attempts_started;
  std::vector<AttemptFinished> attempts_finished;
  std::vector<LeaseAnswered> answers;
  std::vector<LeaseRef>
      revoked;  // answers Synced and WorkerRegistered: drop these
  bool unknown_worker = false;        // answers Synced, Completed, Released
  bool drain = false;                 // answers Synced: leave after this job
  bool drain_now = false;             // answers Synced: save it and leave
  std::vector<WorkerId> silent;       // not heard of for a lease's time
  Verdict verdict = Verdict::kStale;  // answers Completed
};

inline uint32_t StageBit(Stage stage) {
  return 1U << static_cast<uint32_t>(stage);
}

}  // namespace iclsweep
