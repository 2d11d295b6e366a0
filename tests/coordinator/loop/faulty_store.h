// A store that passes everything on to a real one, fails its commits on demand
// as a full disk does, and calls hooks on the loop's thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"
#include "storage/store.h"

namespace iclsweep::testing {

class FaultyStore final : public Store {
 public:
  static constexpr int kForEver = 1 << 30;

  explicit FaultyStore(std::unique_ptr<Store> store)
      : store_(std::move(store)) {}

  // The next `count` commits fail (not one under way); their transaction stays
  // open for Rollback.
  void FailCommits(int count) { failures_ = count; }
  bool failing() const { return failures_ > 0; }
  // Called before a commit is tried, and after the cursor of an expansion
  // moved. Set before the loop starts.
  std::function<void()> on_commit;
  std::function<void(uint64_t cells)> on_cells;
  // The next result cannot be written.
  void FailResult() { result_fails_ = true; }
  // Its stored inputs read as garbage.
  JobId damaged_job;

  absl::Status Begin() override { return store_->Begin(); }
  absl::Status Commit() override {
    const bool fails = failures_ > 0;
    if (on_commit) on_commit();
    if (!fails) return store_->Commit();
    --failures_;
    return absl::UnavailableError("commit: database or disk is full");
  }
  void Rollback() override { store_->Rollback(); }
  absl::StatusOr<std::string> DatabaseUuid() override {
    return store_->DatabaseUuid();
  }
  absl::StatusOr<uint64_t> NewEpoch(absl::string_view owner,
                                    int64_t now_us) override {
    return store_->NewEpoch(owner, now_us);
  }
  absl::StatusOr<std::optional<SweepRow>> FindSweep(
      absl::string_view name) override {
    return store_->FindSweep(name);
  }
  absl::StatusOr<std::vector<SweepRow>> UnexpandedSweeps() override {
    return store_->UnexpandedSweeps();
  }
  absl::StatusOr<std::vector<SweepId>> CancelledSweeps() override {
    return store_->CancelledSweeps();
  }
  absl::Status SetCancelled(SweepId sweep, int64_t cancelled_us) override {
    return store_->SetCancelled(sweep, cancelled_us);
  }
  absl::Status SetProgress(SweepId sweep, Stage stage, JobState state,
                           uint64_t jobs) override {
    return store_->SetProgress(sweep, stage, state, jobs);
  }
  absl::Status ClearProgress() override { return store_->ClearProgress(); }
  absl::StatusOr<SweepId> InsertSweep(const SweepRow& row,
                                      absl::Span<const AxisRow> axes) override {
    return store_->InsertSweep(row, axes);
  }
  absl::Status InsertForecast(SweepId sweep,
                              absl::Span<const ForecastRow> forecast) override {
    return store_->InsertForecast(sweep, forecast);
  }
  absl::Status SetCellsExpanded(SweepId sweep, uint64_t cells) override {
    absl::Status status = store_->SetCellsExpanded(sweep, cells);
    if (on_cells) on_cells(cells);
    return status;
  }
  absl::StatusOr<JobRow> UpsertJob(const NewJobRow& job, int64_t now_us,
                                   bool* inserted) override {
    return store_->UpsertJob(job, now_us, inserted);
  }
  absl::Status InsertCell(SweepId sweep, int revision,
                          const CellRow& cell) override {
    return store_->InsertCell(sweep, revision, cell);
  }
  absl::StatusOr<WorkerId> InsertWorker(const WorkerRow& worker,
                                        int64_t now_us) override {
    return store_->InsertWorker(worker, now_us);
  }
  absl::Status SetJobState(JobId job, JobState state) override {
    return store_->SetJobState(job, state);
  }
  absl::Status StartAttempt(const AttemptStart& attempt) override {
    return store_->StartAttempt(attempt);
  }
  absl::Status EndAttempt(const AttemptEnd& attempt) override {
    return store_->EndAttempt(attempt);
  }
  absl::Status InsertResult(const Completion& completion,
                            int64_t now_us) override {
    if (result_fails_.exchange(false))
      return absl::UnavailableError("result: database or disk is full");
    return store_->InsertResult(completion, now_us);
  }
  absl::Status InsertEvent(const EventRow& event, int64_t now_us) override {
    return store_->InsertEvent(event, now_us);
  }
  absl::StatusOr<std::optional<JobPayload>> Payload(JobId job) override {
    ASSIGN_OR_RETURN(std::optional<JobPayload> payload, store_->Payload(job));
    if (job == damaged_job && payload.has_value())
      payload->inputs = "\xff is no message";
    return payload;
  }
  absl::StatusOr<std::optional<JobIdentity>> Identity(JobId job) override {
    return store_->Identity(job);
  }
  absl::StatusOr<std::vector<JobId>> FailedJobs(SweepId sweep,
                                                Cause cause) override {
    return store_->FailedJobs(sweep, cause);
  }
  absl::Status ForgiveFailures(JobId job) override {
    return store_->ForgiveFailures(job);
  }
  absl::Status ForEachJob(
      const std::function<void(const JobRow&)>& visit) override {
    return store_->ForEachJob(visit);
  }
  absl::StatusOr<std::vector<OpenAttempt>> OpenAttempts() override {
    return store_->OpenAttempts();
  }
  absl::StatusOr<std::vector<SpentBudget>> SpentBudgets() override {
    return store_->SpentBudgets();
  }

 private:
  const std::unique_ptr<Store> store_;
  std::atomic<int> failures_ = 0;
  std::atomic<bool> result_fails_ = false;
};

}  // namespace iclsweep::testing
