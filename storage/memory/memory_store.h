// The storage fake: the store's contract in memory, for tests of what stands
// on it. Nothing outlives the object, there are no views, and no error of a
// disk; it passes the same suite as the real store
// (tests/storage/store_contract_test.cc).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/store.h"

namespace iclsweep {

// Internal: a row that refers to one that is not there, as a foreign key does,
// or one that is there already. FailedPrecondition: a write outside a
// transaction, Begin inside one, Commit outside.
class MemoryStore final : public Store {
 public:
  // Everything it holds.
  struct Job {
    NewJobRow row;
    JobState state = JobState::kBlocked;
    uint32_t last_attempt = 0;
    uint32_t retried_attempt = 0;  // failures up to this attempt are forgiven
    std::set<SweepId> sweeps;
    std::optional<Completion> result;
  };
  struct Attempt {
    AttemptStart start;
    std::optional<AttemptEnd> end;  // none = running
  };
  struct Event {
    EventRow row;
    int64_t at_us = 0;
  };
  struct Tables {
    uint64_t epochs = 0;
    std::map<SweepId, SweepRow> sweeps;
    std::map<std::tuple<SweepId, Stage, std::string>, ForecastRow> forecasts;
    std::map<std::pair<SweepId, std::string>, CellRow> cells;
    std::map<JobId, Job> jobs;
    std::map<JobKey, JobId> job_by_key;
    std::map<WorkerId, WorkerRow> workers;
    std::map<LeaseRef, Attempt> attempts;
    std::map<std::tuple<SweepId, Stage, JobState>, uint64_t> progress;
    std::vector<Event> events;
  };

  explicit MemoryStore(std::string uuid) : uuid_(std::move(uuid)) {}
  // What is committed, and what the open transaction wrote.
  const Tables& tables() const { return tables_; }

  absl::Status Begin() override;
  absl::Status Commit() override;
  void Rollback() override;
  absl::StatusOr<std::string> DatabaseUuid() override;
  absl::StatusOr<uint64_t> NewEpoch(absl::string_view owner,
                                    int64_t now_us) override;
  absl::StatusOr<std::optional<SweepRow>> FindSweep(
      absl::string_view name) override;
  absl::StatusOr<std::vector<SweepRow>> UnexpandedSweeps() override;
  absl::StatusOr<std::vector<SweepId>> CancelledSweeps() override;
  absl::Status SetCancelled(SweepId sweep, int64_t cancelled_us) override;
  absl::StatusOr<SweepId> InsertSweep(const SweepRow& row,
                                      absl::Span<const AxisRow> axes) override;
  absl::Status InsertForecast(SweepId sweep,
                              absl::Span<const ForecastRow> forecast) override;
  absl::Status SetCellsExpanded(SweepId sweep, uint64_t cells) override;
  absl::StatusOr<JobRow> UpsertJob(const NewJobRow& job, int64_t now_us,
                                   bool* inserted) override;
  absl::Status InsertCell(SweepId sweep, int revision,
                          const CellRow& cell) override;
  absl::Status SetProgress(SweepId sweep, Stage stage, JobState state,
                           uint64_t jobs) override;
  absl::Status ClearProgress() override;
  absl::StatusOr<WorkerId> InsertWorker(const WorkerRow& worker,
                                        int64_t now_us) override;
  absl::Status SetJobState(JobId job, JobState state) override;
  absl::Status StartAttempt(const AttemptStart& attempt) override;
  absl::Status EndAttempt(const AttemptEnd& attempt) override;
  absl::Status InsertResult(const Completion& completion,
                            int64_t now_us) override;
  absl::Status InsertEvent(const EventRow& event, int64_t now_us) override;
  absl::StatusOr<std::optional<JobPayload>> Payload(JobId job) override;
  absl::StatusOr<std::optional<JobIdentity>> Identity(JobId job) override;
  absl::StatusOr<std::vector<JobId>> FailedJobs(SweepId sweep,
                                                Cause cause) override;
  absl::Status ForgiveFailures(JobId job) override;
  absl::Status ForEachJob(
      const std::function<void(const JobRow&)>& visit) override;
  absl::StatusOr<std::vector<OpenAttempt>> OpenAttempts() override;
  absl::StatusOr<std::vector<SpentBudget>> SpentBudgets() override;

 private:
  absl::Status Writable() const;
  static JobRow RowOf(JobId id, const Job& job);
  bool CountsAgainstItsJob(const LeaseRef& lease, const Attempt& attempt,
                           const Job& job) const;

  std::string uuid_;
  Tables tables_;
  std::optional<Tables> before_;  // of the open transaction
};

}  // namespace iclsweep
