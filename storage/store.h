// What the coordinator keeps: sweeps, cells, jobs, attempts, results. An
// interface, so that the loop can be driven in tests by a store that fails on
// purpose; sqlite/ holds the real one. It knows rows, not policy.
//
// Contract
//  - Calls that write must be between Begin and Commit; Commit makes them
//  durable together (or none of them), and a failed
//    Commit leaves the transaction open for Rollback. Reads may be made at any
//    time and see the writes of the open transaction.
//  - A row that is not there is an empty optional, never an error. Errors are
//  Unavailable (disk full, I/O, locked) or
//    DataLoss (corrupt file), with the file and SQLite's own text.
//  - Not thread-safe: one thread owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/domain.h"

namespace iclsweep {

struct SweepRow {
  SweepId id;
  std::string name;
  int revision = 1;
  std::string spec_yaml;  // the frozen text
  std::string spec_hash;  // of its meaning (coordinator/spec)
  uint64_t cells_total = 0;
  uint64_t cells_expanded =
      0;  // cursor: so many cells have their rows, in the sweep's order
  int64_t submitted_us = 0;
  int64_t cancelled_us = 0;  // 0 = its jobs may run
};

// One axis of a sweep, for the column it gets in the views.
struct AxisRow {
  std::string path;  // prompt.angle_degrees
};

// What the jobs of one stage were expected to take on one kind of device when
// their sweep was submitted: device seconds of all of them together, and a 90 %
// interval.
struct ForecastRow {
  Stage stage = Stage::kTrain;
  std::string device_kind;
  uint64_t jobs = 0;
  double seconds = 0;
  double low_seconds = 0;
  double high_seconds = 0;
};

struct NewJobRow {
  JobKey key;
  Stage stage = Stage::kTrain;
  std::string inputs;  // serialized stage message, opaque here
  std::vector<JobId> depends_on;
  uint32_t max_attempts = 3;  // per cause
};

struct JobRow {
  JobId id;
  JobKey key;
  Stage stage = Stage::kTrain;
  JobState state = JobState::kBlocked;
  uint32_t last_attempt = 0;
  std::vector<JobId> depends_on;
  uint32_t max_attempts = 3;
  std::vector<SweepId> sweeps;  // that want it
};

// What tells a job apart from another one of the same id.
struct JobIdentity {
  JobKey key;
  Stage stage = Stage::kTrain;
};

struct CellRow {
  std::string key;  // hexadecimal
  uint64_t index = 0;
  std::string axes_json;
  std::vector<JobId> jobs;
};

struct WorkerRow {
  WorkerId id;
  std::string slot_uuid;
  std::string slot_name;
  uint32_t pid = 0;
  uint64_t epoch = 0;
  Provenance provenance;
};

struct AttemptStart {
  LeaseRef lease;
  WorkerId worker;
  int64_t started_us = 0;
};

struct AttemptEnd {
  LeaseRef lease;
  AttemptOutcome outcome = AttemptOutcome::kDone;
  Cause cause = Cause::kNone;
  std::string message;
  std::string log_tail;
  uint64_t steps_run = 0;
  bool checkpointed = false;
  int64_t duration_us = 0;  // measured by the worker; 0 = unknown
  int64_t ended_us = 0;
};

// Something worth telling people; what does not apply is 0.
struct EventRow {
  std::string kind;  // names are API (README.md)
  SweepId sweep;
  LeaseRef lease;
  WorkerId worker;
  std::string text;
};

// An attempt without an end, as found after a restart.
struct OpenAttempt {
  LeaseRef lease;
  WorkerId worker;
  std::string slot_uuid;
};

// Budgets already spent, for a restart: failed attempts per cause of a job that
// is not terminal. Of crashed and lost ones only those since the job's last
// partial checkpoint.
struct SpentBudget {
  JobId job;
  Cause cause = Cause::kNone;
  uint32_t count = 0;
};

// What a worker needs to run a job.
struct JobPayload {
  Stage stage = Stage::kTrain;
  JobKey key;
  std::string inputs;
  struct Input {
    JobKey key;
    Stage stage = Stage::kTrain;
    std::optional<Artifact> artifact;
  };
  std::vector<Input> dependencies;
};

class Store {
 public:
  virtual ~Store() = default;

  virtual absl::Status Begin() = 0;
  virtual absl::Status Commit() = 0;
  virtual void Rollback() = 0;  // without an open transaction: does nothing

  // Identity of the database, made when it was created.
  virtual absl::StatusOr<std::string> DatabaseUuid() = 0;
  // Opens a new epoch (one per coordinator start): 1, 2, ...
  virtual absl::StatusOr<uint64_t> NewEpoch(absl::string_view owner,
                                            int64_t now_us) = 0;

  virtual absl::StatusOr<std::optional<SweepRow>> FindSweep(
      absl::string_view name) = 0;
  // Of those that are not cancelled.
  virtual absl::StatusOr<std::vector<SweepRow>> UnexpandedSweeps() = 0;
  virtual absl::StatusOr<std::vector<SweepId>> CancelledSweeps() = 0;
  // cancelled_us = 0: it may run (again). One row, however large the sweep.
  virtual absl::Status SetCancelled(SweepId sweep, int64_t cancelled_us) = 0;
  // Writes the sweep and its axes, and makes the views anew. `row.id` is
  // ignored.
  virtual absl::StatusOr<SweepId> InsertSweep(
      const SweepRow& row, absl::Span<const AxisRow> axes) = 0;
  virtual absl::Status InsertForecast(
      SweepId sweep, absl::Span<const ForecastRow> forecast) = 0;
  virtual absl::Status SetCellsExpanded(SweepId sweep, uint64_t cells) = 0;

  // The job with that key, inserted as blocked if it was not there. `*inserted`
  // tells. Of two limits on attempts the larger one is kept.
  virtual absl::StatusOr<JobRow> UpsertJob(const NewJobRow& job, int64_t now_us,
                                           bool* inserted) = 0;
  virtual absl::Status InsertCell(SweepId sweep, int revision,
                                  const CellRow& cell) = 0;

  // How many of the jobs that the sweep wants are in a state; a count that is
  // not set is 0.
  virtual absl::Status SetProgress(SweepId sweep, Stage stage, JobState state,
                                   uint64_t jobs) = 0;
  virtual absl::Status ClearProgress() = 0;

  virtual absl::StatusOr<WorkerId> InsertWorker(const WorkerRow& worker,
                                                int64_t now_us) = 0;

  virtual absl::Status SetJobState(JobId job, JobState state) = 0;
  // Inserts the attempt; the job is leased and its last_attempt raised.
  virtual absl::Status StartAttempt(const AttemptStart& attempt) = 0;
  virtual absl::Status EndAttempt(const AttemptEnd& attempt) = 0;
  // Result, measurements, curve and artifact of a done job. AlreadyExists if
  // the job has a result.
  virtual absl::Status InsertResult(const Completion& completion,
                                    int64_t now_us) = 0;
  virtual absl::Status InsertEvent(const EventRow& event, int64_t now_us) = 0;

  virtual absl::StatusOr<std::optional<JobPayload>> Payload(JobId job) = 0;
  virtual absl::StatusOr<std::optional<JobIdentity>> Identity(JobId job) = 0;

  // The sweep's failed jobs whose last attempt that cause ended; kNone = any.
  virtual absl::StatusOr<std::vector<JobId>> FailedJobs(SweepId sweep,
                                                        Cause cause) = 0;
  // The job's failures so far count no more: SpentBudgets leaves them out.
  virtual absl::Status ForgiveFailures(JobId job) = 0;

  // For a restart. Jobs come in order of their ids.
  virtual absl::Status ForEachJob(
      const std::function<void(const JobRow&)>& visit) = 0;
  virtual absl::StatusOr<std::vector<OpenAttempt>> OpenAttempts() = 0;
  virtual absl::StatusOr<std::vector<SpentBudget>> SpentBudgets() = 0;
};

}  // namespace iclsweep
