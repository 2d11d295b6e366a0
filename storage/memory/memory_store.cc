#include "storage/memory/memory_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "storage/errors.h"

namespace iclsweep {
namespace {

// Ids begin at 1 and are given in order; no row is ever taken away.
template <typename Key, typename Value>
Key NextId(const std::map<Key, Value>& rows) {
  return Key{static_cast<int64_t>(rows.size()) + 1};
}

absl::Status Dangling(absl::string_view what, int64_t id) {
  return absl::InternalError(absl::StrCat("there is no ", what, " ", id));
}

}  // namespace

absl::Status MemoryStore::Writable() const {
  if (before_.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError("no transaction is open");
}

absl::Status MemoryStore::Begin() {
  if (before_.has_value())
    return absl::FailedPreconditionError("a transaction is open already");
  before_ = tables_;
  return absl::OkStatus();
}

absl::Status MemoryStore::Commit() {
  RETURN_IF_ERROR(Writable());
  before_.reset();
  return absl::OkStatus();
}

void MemoryStore::Rollback() {
  if (!before_.has_value()) return;
  tables_ = *std::move(before_);
  before_.reset();
}

absl::StatusOr<std::string> MemoryStore::DatabaseUuid() { return uuid_; }

absl::StatusOr<uint64_t> MemoryStore::NewEpoch(absl::string_view /*owner*/,
                                               int64_t /*now_us*/) {
  RETURN_IF_ERROR(Writable());
  return ++tables_.epochs;
}

// ---- sweeps, cells, jobs

absl::StatusOr<std::optional<SweepRow>> MemoryStore::FindSweep(
    absl::string_view name) {
  for (const auto& [id, row] : tables_.sweeps) {
    if (row.name == name) return std::optional<SweepRow>(row);
  }
  return std::optional<SweepRow>();
}

absl::StatusOr<std::vector<SweepRow>> MemoryStore::UnexpandedSweeps() {
  std::vector<SweepRow> rows;
  for (const auto& [id, row] : tables_.sweeps) {
    if (row.cells_expanded < row.cells_total && row.cancelled_us == 0)
      rows.push_back(row);
  }
  return rows;
}

absl::StatusOr<std::vector<SweepId>> MemoryStore::CancelledSweeps() {
  std::vector<SweepId> cancelled;
  for (const auto& [id, row] : tables_.sweeps) {
    if (row.cancelled_us != 0) cancelled.push_back(id);
  }
  return cancelled;
}

absl::Status MemoryStore::SetCancelled(SweepId sweep, int64_t cancelled_us) {
  RETURN_IF_ERROR(Writable());
  const auto row = tables_.sweeps.find(sweep);
  if (row != tables_.sweeps.end()) row->second.cancelled_us = cancelled_us;
  return absl::OkStatus();
}

absl::StatusOr<SweepId> MemoryStore::InsertSweep(
    const SweepRow& row, absl::Span<const AxisRow> /*axes*/) {
  RETURN_IF_ERROR(Writable());
  ASSIGN_OR_RETURN(const std::optional<SweepRow> known, FindSweep(row.name));
  if (known.has_value())
    return absl::InternalError(
        absl::StrCat("there is a sweep '", row.name, "' already"));
  SweepRow stored = row;
  stored.id = NextId(tables_.sweeps);
  stored.cancelled_us = 0;
  return tables_.sweeps.emplace(stored.id, stored).first->first;
}

absl::Status MemoryStore::InsertForecast(
    SweepId sweep, absl::Span<const ForecastRow> forecast) {
  RETURN_IF_ERROR(Writable());
  if (!tables_.sweeps.contains(sweep))
    return absl::InternalError("a forecast of a sweep that is not there");
  for (const ForecastRow& row : forecast) {
    if (!tables_.forecasts
             .emplace(std::tuple(sweep, row.stage, row.device_kind), row)
             .second)
      return absl::InternalError("there is a forecast of that stage already");
  }
  return absl::OkStatus();
}

absl::Status MemoryStore::SetCellsExpanded(SweepId sweep, uint64_t cells) {
  RETURN_IF_ERROR(Writable());
  const auto row = tables_.sweeps.find(sweep);
  if (row != tables_.sweeps.end()) row->second.cells_expanded = cells;
  return absl::OkStatus();
}

JobRow MemoryStore::RowOf(JobId id, const Job& job) {
  return {id,
          job.row.key,
          job.row.stage,
          job.state,
          job.last_attempt,
          job.row.depends_on,
          job.row.max_attempts,
          {job.sweeps.begin(), job.sweeps.end()}};
}

absl::StatusOr<JobRow> MemoryStore::UpsertJob(const NewJobRow& job,
                                              int64_t /*now_us*/,
                                              bool* inserted) {
  RETURN_IF_ERROR(Writable());
  const auto known = tables_.job_by_key.find(job.key);
  *inserted = known == tables_.job_by_key.end();
  if (!*inserted) {
    Job& stored = tables_.jobs.at(known->second);
    stored.row.max_attempts =
        std::max(stored.row.max_attempts, job.max_attempts);
    return RowOf(known->second, stored);
  }
  for (const JobId parent : job.depends_on) {
    if (!tables_.jobs.contains(parent)) return Dangling("job", parent.value);
  }
  const JobId id = NextId(tables_.jobs);
  Job stored;
  stored.row = job;
  std::sort(stored.row.depends_on.begin(), stored.row.depends_on.end());
  tables_.job_by_key.emplace(job.key, id);
  return RowOf(id, tables_.jobs.emplace(id, std::move(stored)).first->second);
}

absl::Status MemoryStore::InsertCell(SweepId sweep, int /*revision*/,
                                     const CellRow& cell) {
  RETURN_IF_ERROR(Writable());
  if (!tables_.sweeps.contains(sweep)) return Dangling("sweep", sweep.value);
  for (const JobId job : cell.jobs) {
    if (!tables_.jobs.contains(job)) return Dangling("job", job.value);
  }
  tables_.cells.emplace(std::pair(sweep, cell.key), cell);
  for (const JobId job : cell.jobs) tables_.jobs.at(job).sweeps.insert(sweep);
  return absl::OkStatus();
}

absl::Status MemoryStore::SetProgress(SweepId sweep, Stage stage,
                                      JobState state, uint64_t jobs) {
  RETURN_IF_ERROR(Writable());
  if (!tables_.sweeps.contains(sweep)) return Dangling("sweep", sweep.value);
  tables_.progress[{sweep, stage, state}] = jobs;
  return absl::OkStatus();
}

absl::Status MemoryStore::ClearProgress() {
  RETURN_IF_ERROR(Writable());
  tables_.progress.clear();
  return absl::OkStatus();
}

// ---- workers, attempts, results

absl::StatusOr<WorkerId> MemoryStore::InsertWorker(const WorkerRow& worker,
                                                   int64_t /*now_us*/) {
  RETURN_IF_ERROR(Writable());
  WorkerRow stored = worker;
  stored.id = NextId(tables_.workers);
  return tables_.workers.emplace(stored.id, stored).first->first;
}

absl::Status MemoryStore::SetJobState(JobId job, JobState state) {
  RETURN_IF_ERROR(Writable());
  const auto stored = tables_.jobs.find(job);
  if (stored != tables_.jobs.end()) stored->second.state = state;
  return absl::OkStatus();
}

absl::Status MemoryStore::StartAttempt(const AttemptStart& attempt) {
  RETURN_IF_ERROR(Writable());
  const auto job = tables_.jobs.find(attempt.lease.job);
  if (job == tables_.jobs.end())
    return Dangling("job", attempt.lease.job.value);
  if (!tables_.workers.contains(attempt.worker))
    return Dangling("worker", attempt.worker.value);
  if (!tables_.attempts.emplace(attempt.lease, Attempt{attempt, {}}).second)
    return absl::InternalError(absl::StrCat("attempt ", attempt.lease.attempt,
                                            " of job ", job->first.value,
                                            " is there already"));
  job->second.last_attempt = attempt.lease.attempt;
  job->second.state = JobState::kLeased;
  return absl::OkStatus();
}

absl::Status MemoryStore::EndAttempt(const AttemptEnd& attempt) {
  RETURN_IF_ERROR(Writable());
  const auto stored = tables_.attempts.find(attempt.lease);
  if (stored == tables_.attempts.end()) return absl::OkStatus();
  std::optional<AttemptEnd>& before = stored->second.end;
  AttemptEnd end = attempt;
  if (before.has_value()) {
    end.steps_run = std::max(end.steps_run, before->steps_run);
    end.checkpointed = end.checkpointed || before->checkpointed;
  }
  before = std::move(end);
  return absl::OkStatus();
}

absl::Status MemoryStore::InsertResult(const Completion& completion,
                                       int64_t /*now_us*/) {
  RETURN_IF_ERROR(Writable());
  const auto job = tables_.jobs.find(completion.lease.job);
  if (job == tables_.jobs.end())
    return Dangling("job", completion.lease.job.value);
  if (job->second.result.has_value()) return ResultExists(job->first.value);
  job->second.result = completion;
  return absl::OkStatus();
}

absl::Status MemoryStore::InsertEvent(const EventRow& event, int64_t now_us) {
  RETURN_IF_ERROR(Writable());
  tables_.events.push_back({event, now_us});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<JobPayload>> MemoryStore::Payload(JobId job) {
  const auto stored = tables_.jobs.find(job);
  if (stored == tables_.jobs.end()) return std::optional<JobPayload>();
  const NewJobRow& row = stored->second.row;
  JobPayload payload{row.stage, row.key, row.inputs, {}};
  for (const JobId parent : row.depends_on) {
    const Job& input = tables_.jobs.at(parent);
    payload.dependencies.push_back({input.row.key, input.row.stage,
                                    input.result.has_value()
                                        ? input.result->result.artifact
                                        : std::nullopt});
  }
  return std::optional<JobPayload>(std::move(payload));
}

absl::StatusOr<std::optional<JobIdentity>> MemoryStore::Identity(JobId job) {
  const auto stored = tables_.jobs.find(job);
  if (stored == tables_.jobs.end()) return std::optional<JobIdentity>();
  return std::optional<JobIdentity>(
      {stored->second.row.key, stored->second.row.stage});
}

// ---- failures and restarts

absl::StatusOr<std::vector<JobId>> MemoryStore::FailedJobs(SweepId sweep,
                                                           Cause cause) {
  std::vector<JobId> failed;
  for (const auto& [id, job] : tables_.jobs) {
    if (job.state != JobState::kFailed || !job.sweeps.contains(sweep)) continue;
    const auto last = tables_.attempts.find({id, job.last_attempt});
    const bool fits =
        cause == Cause::kNone ||
        (last != tables_.attempts.end() && last->second.end.has_value() &&
         last->second.end->cause == cause);
    if (fits) failed.push_back(id);
  }
  return failed;
}

absl::Status MemoryStore::ForgiveFailures(JobId job) {
  RETURN_IF_ERROR(Writable());
  const auto stored = tables_.jobs.find(job);
  if (stored != tables_.jobs.end())
    stored->second.retried_attempt = stored->second.last_attempt;
  return absl::OkStatus();
}

absl::Status MemoryStore::ForEachJob(
    const std::function<void(const JobRow&)>& visit) {
  for (const auto& [id, job] : tables_.jobs) visit(RowOf(id, job));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OpenAttempt>> MemoryStore::OpenAttempts() {
  std::vector<OpenAttempt> open;
  for (const auto& [lease, attempt] : tables_.attempts) {
    if (attempt.end.has_value()) continue;
    open.push_back({lease, attempt.start.worker,
                    tables_.workers.at(attempt.start.worker).slot_uuid});
  }
  return open;
}

bool MemoryStore::CountsAgainstItsJob(const LeaseRef& lease,
                                      const Attempt& attempt,
                                      const Job& job) const {
  if (IsTerminal(job.state) || lease.attempt <= job.retried_attempt ||
      !attempt.end.has_value() ||
      attempt.end->outcome != AttemptOutcome::kFailed)
    return false;
  const Cause cause = attempt.end->cause;
  if (cause != Cause::kCrashed && cause != Cause::kLost) return true;
  const auto later = tables_.attempts.upper_bound(lease);
  return std::none_of(later, tables_.attempts.end(), [&](const auto& other) {
    return other.first.job == lease.job && other.second.end.has_value() &&
           other.second.end->checkpointed;
  });
}

absl::StatusOr<std::vector<SpentBudget>> MemoryStore::SpentBudgets() {
  std::map<std::pair<JobId, absl::string_view>, SpentBudget> spent;
  for (const auto& [lease, attempt] : tables_.attempts) {
    if (!CountsAgainstItsJob(lease, attempt, tables_.jobs.at(lease.job)))
      continue;
    const Cause cause = attempt.end->cause;
    SpentBudget& budget = spent[{lease.job, CauseName(cause)}];
    budget = {lease.job, cause, budget.count + 1};
  }
  std::vector<SpentBudget> budgets;
  budgets.reserve(spent.size());
  for (const auto& [of, budget] : spent) budgets.push_back(budget);
  return budgets;
}

}  // namespace iclsweep
