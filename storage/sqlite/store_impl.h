// The SQLite store's class; its methods lie in store_sweeps.cc, store_jobs.cc
// and store_results.cc, opening and migration in sqlite_store.cc.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sqlite/database.h"
#include "storage/store.h"

namespace iclsweep {

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(std::unique_ptr<Database> database)
      : db_(std::move(database)) {}
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
  // In the transaction that is open.
  absl::Status RemakeViews();

 private:
  static constexpr absl::string_view kSelectSweep =
      "SELECT sweep.sweep_id, sweep.name, r.revision, r.spec_yaml, "
      "r.spec_hash, r.cells_total, r.cells_expanded, "
      "r.submitted_us, sweep.cancelled_us FROM sweep JOIN sweep_revision AS r "
      "USING (sweep_id, "
      "revision)";
  static SweepRow ReadSweep(const Statement& query);
  absl::StatusOr<bool> HasResult(int64_t job);
  absl::Status InsertMeasurement(int64_t job, const Measurement& m);
  std::unique_ptr<Database> db_;
  bool open_ = false;
};

// The key's 32 bytes; valid as long as `key` is.
absl::string_view BytesOf(const JobKey& key);
// The state with that name in the database.
JobState JobStateFromName(absl::string_view name);

}  // namespace iclsweep
