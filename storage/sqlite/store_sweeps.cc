// Transactions, sweeps, cells, and the jobs they bring.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "storage/errors.h"
#include "storage/sqlite/store_impl.h"
#include "storage/sqlite/views.h"

namespace iclsweep {

absl::Status SqliteStore::Begin() {
  RETURN_IF_ERROR(db_->Execute("BEGIN IMMEDIATE"));
  open_ = true;
  return absl::OkStatus();
}

absl::Status SqliteStore::Commit() {
  RETURN_IF_ERROR(db_->Execute("COMMIT"));
  open_ = false;
  return absl::OkStatus();
}

void SqliteStore::Rollback() {
  if (!open_) return;
  db_->Execute("ROLLBACK")
      .IgnoreError();  // SQLite may have rolled back by itself
  open_ = false;
}

absl::StatusOr<std::string> SqliteStore::DatabaseUuid() {
  Statement query =
      db_->Prepare("SELECT value FROM meta WHERE name = 'database_uuid'");
  ASSIGN_OR_RETURN(const bool row, query.Step());
  if (!row) return DatabaseCorrupt(db_->file(), "no database_uuid");
  return query.Text(0);
}

absl::StatusOr<uint64_t> SqliteStore::NewEpoch(absl::string_view owner,
                                               int64_t now_us) {
  RETURN_IF_ERROR(
      db_->Prepare("INSERT INTO coordinator (owner, started_us) VALUES (?, ?)")
          .Bind(owner)
          .Bind(now_us)
          .Run());
  return static_cast<uint64_t>(db_->LastInsertId());
}

absl::StatusOr<std::optional<SweepRow>> SqliteStore::FindSweep(
    absl::string_view name) {
  Statement query =
      db_->Prepare(absl::StrCat(kSelectSweep, " WHERE sweep.name = ?"));
  query.Bind(name);
  ASSIGN_OR_RETURN(const bool row, query.Step());
  if (!row) return std::optional<SweepRow>();
  return std::optional<SweepRow>(ReadSweep(query));
}

absl::StatusOr<std::vector<SweepRow>> SqliteStore::UnexpandedSweeps() {
  Statement query = db_->Prepare(absl::StrCat(
      kSelectSweep,
      " WHERE r.cells_expanded < r.cells_total AND sweep.cancelled_us = 0 "
      "ORDER BY sweep.sweep_id"));
  std::vector<SweepRow> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return rows;
    rows.push_back(ReadSweep(query));
  }
}

absl::StatusOr<std::vector<SweepId>> SqliteStore::CancelledSweeps() {
  Statement query =
      db_->Prepare("SELECT sweep_id FROM sweep WHERE cancelled_us != 0");
  std::vector<SweepId> sweeps;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return sweeps;
    sweeps.push_back(SweepId{query.Integer(0)});
  }
}

absl::Status SqliteStore::SetCancelled(SweepId sweep, int64_t cancelled_us) {
  return db_->Prepare("UPDATE sweep SET cancelled_us = ? WHERE sweep_id = ?")
      .Bind(cancelled_us)
      .Bind(sweep.value)
      .Run();
}

absl::Status SqliteStore::SetProgress(SweepId sweep, Stage stage,
                                      JobState state, uint64_t jobs) {
  return db_
      ->Prepare("INSERT OR REPLACE INTO sweep_progress VALUES (?, ?, ?, ?)")
      .Bind(sweep.value)
      .Bind(StageName(stage))
      .Bind(JobStateName(state))
      .Bind(static_cast<int64_t>(jobs))
      .Run();
}

absl::Status SqliteStore::ClearProgress() {
  return db_->Prepare("DELETE FROM sweep_progress").Run();
}

absl::StatusOr<SweepId> SqliteStore::InsertSweep(
    const SweepRow& row, absl::Span<const AxisRow> axes) {
  RETURN_IF_ERROR(db_->Prepare("INSERT INTO sweep (name, revision, "
                               "submitted_us) VALUES (?, ?, ?)")
                      .Bind(row.name)
                      .Bind(row.revision)
                      .Bind(row.submitted_us)
                      .Run());
  const SweepId id{db_->LastInsertId()};
  const std::string list =
      absl::StrCat("[",
                   absl::StrJoin(axes, ",",
                                 [](std::string* out, const AxisRow& axis) {
                                   absl::StrAppend(out, "\"", axis.path, "\"");
                                 }),
                   "]");
  RETURN_IF_ERROR(
      db_->Prepare("INSERT INTO sweep_revision VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
          .Bind(id.value)
          .Bind(row.revision)
          .Bind(row.spec_yaml)
          .Bind(row.spec_hash)
          .Bind(list)
          .Bind(static_cast<int64_t>(row.cells_total))
          .Bind(static_cast<int64_t>(row.cells_expanded))
          .Bind(row.submitted_us)
          .Run());
  RETURN_IF_ERROR(RemakeViews());
  return id;
}

absl::Status SqliteStore::InsertForecast(
    SweepId sweep, absl::Span<const ForecastRow> forecast) {
  for (const ForecastRow& row : forecast) {
    RETURN_IF_ERROR(
        db_->Prepare("INSERT INTO forecast VALUES (?, ?, ?, ?, ?, ?, ?)")
            .Bind(sweep.value)
            .Bind(StageName(row.stage))
            .Bind(row.device_kind)
            .Bind(static_cast<int64_t>(row.jobs))
            .BindReal(row.seconds)
            .BindReal(row.low_seconds)
            .BindReal(row.high_seconds)
            .Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::SetCellsExpanded(SweepId sweep, uint64_t cells) {
  return db_
      ->Prepare(
          "UPDATE sweep_revision SET cells_expanded = ? WHERE sweep_id = ? "
          "AND revision = "
          "(SELECT revision FROM sweep WHERE sweep_id = ?)")
      .Bind(static_cast<int64_t>(cells))
      .Bind(sweep.value)
      .Bind(sweep.value)
      .Run();
}

absl::StatusOr<JobRow> SqliteStore::UpsertJob(const NewJobRow& job,
                                              int64_t now_us, bool* inserted) {
  JobRow row;
  row.key = job.key;
  row.stage = job.stage;
  row.depends_on = job.depends_on;
  row.max_attempts = job.max_attempts;
  {
    Statement query = db_->Prepare(
        "SELECT job_id, state, last_attempt, max_attempts FROM job WHERE key "
        "= ?");
    query.BindBlob(BytesOf(job.key));
    ASSIGN_OR_RETURN(const bool found, query.Step());
    *inserted = !found;
    if (found) {
      row.id = JobId{query.Integer(0)};
      row.state = JobStateFromName(query.Text(1));
      row.last_attempt = static_cast<uint32_t>(query.Integer(2));
      row.max_attempts =
          std::max(job.max_attempts, static_cast<uint32_t>(query.Integer(3)));
    }
  }
  if (!*inserted) {
    RETURN_IF_ERROR(db_->Prepare("UPDATE job SET max_attempts = ? WHERE "
                                 "job_id = ? AND max_attempts < ?")
                        .Bind(int64_t{row.max_attempts})
                        .Bind(row.id.value)
                        .Bind(int64_t{row.max_attempts})
                        .Run());
    return row;
  }
  RETURN_IF_ERROR(
      db_->Prepare("INSERT INTO job (key, stage, state, numerics_version, "
                   "inputs, created_us, max_attempts) VALUES (?, ?, "
                   "'blocked', ?, ?, ?, ?)")
          .BindBlob(BytesOf(job.key))
          .Bind(StageName(job.stage))
          .Bind(static_cast<int64_t>(NumericsVersion(job.stage)))
          .BindBlob(job.inputs)
          .Bind(now_us)
          .Bind(int64_t{job.max_attempts})
          .Run());
  row.id = JobId{db_->LastInsertId()};
  for (const JobId parent : job.depends_on) {
    RETURN_IF_ERROR(db_->Prepare("INSERT INTO job_dependency VALUES (?, ?)")
                        .Bind(row.id.value)
                        .Bind(parent.value)
                        .Run());
  }
  return row;
}

absl::Status SqliteStore::InsertCell(SweepId sweep, int revision,
                                     const CellRow& cell) {
  RETURN_IF_ERROR(
      db_->Prepare("INSERT OR IGNORE INTO cell VALUES (?, ?, ?, ?, ?)")
          .Bind(sweep.value)
          .Bind(cell.key)
          .Bind(static_cast<int64_t>(cell.index))
          .Bind(revision)
          .Bind(cell.axes_json)
          .Run());
  for (const JobId job : cell.jobs) {
    RETURN_IF_ERROR(
        db_->Prepare("INSERT OR IGNORE INTO cell_job VALUES (?, ?, ?)")
            .Bind(sweep.value)
            .Bind(cell.key)
            .Bind(job.value)
            .Run());
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::RemakeViews() {
  std::vector<std::string> paths;
  {
    Statement query = db_->Prepare(
        "SELECT DISTINCT a.value FROM sweep_revision, "
        "json_each(sweep_revision.axes) AS a");
    while (true) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) break;
      paths.push_back(query.Text(0));
    }
  }
  return db_->Execute(ViewsSql(paths));
}

SweepRow SqliteStore::ReadSweep(const Statement& query) {
  return {SweepId{query.Integer(0)},
          query.Text(1),
          static_cast<int>(query.Integer(2)),
          query.Text(3),
          query.Text(4),
          static_cast<uint64_t>(query.Integer(5)),
          static_cast<uint64_t>(query.Integer(6)),
          query.Integer(7),
          query.Integer(8)};
}

}  // namespace iclsweep
