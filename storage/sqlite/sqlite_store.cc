#include "storage/sqlite/sqlite_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "storage/errors.h"
#include "storage/sqlite/views.h"
#include "storage_schema.h"

namespace iclsweep {
namespace {

// "icls": marks the file as ours (PRAGMA application_id).
constexpr int64_t kApplicationId = 0x69636c73;

std::string NewUuid() {
  std::random_device source;
  std::string bytes(16, '\0');
  for (char& byte : bytes) byte = static_cast<char>(source());
  return absl::BytesToHexString(bytes);
}

absl::string_view BytesOf(const JobKey& key) {
  return absl::string_view(reinterpret_cast<const char*>(key.bytes.data()),
                           key.bytes.size());
}

JobState StateFromName(absl::string_view name) {
  for (const JobState state :
       {JobState::kBlocked, JobState::kReady, JobState::kLeased,
        JobState::kDone, JobState::kFailed, JobState::kUpstreamFailed}) {
    if (JobStateName(state) == name) return state;
  }
  return JobState::kBlocked;
}

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(std::unique_ptr<Database> database)
      : db_(std::move(database)) {}

  absl::Status Begin() override {
    RETURN_IF_ERROR(db_->Execute("BEGIN IMMEDIATE"));
    open_ = true;
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    RETURN_IF_ERROR(db_->Execute("COMMIT"));
    open_ = false;
    return absl::OkStatus();
  }

  void Rollback() override {
    if (!open_) return;
    db_->Execute("ROLLBACK")
        .IgnoreError();  // SQLite may have rolled back by itself
    open_ = false;
  }

  absl::StatusOr<std::string> DatabaseUuid() override {
    Statement query =
        db_->Prepare("SELECT value FROM meta WHERE name = 'database_uuid'");
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return DatabaseCorrupt(db_->file(), "no database_uuid");
    return query.Text(0);
  }

  absl::StatusOr<uint64_t> NewEpoch(absl::string_view owner,
                                    int64_t now_us) override {
    RETURN_IF_ERROR(
        db_->Prepare(
               "INSERT INTO coordinator (owner, started_us) VALUES (?, ?)")
            .Bind(owner)
            .Bind(now_us)
            .Run());
    return static_cast<uint64_t>(db_->LastInsertId());
  }

  absl::StatusOr<std::optional<SweepRow>> FindSweep(
      absl::string_view name) override {
    Statement query =
        db_->Prepare(absl::StrCat(kSelectSweep, " WHERE sweep.name = ?"));
    query.Bind(name);
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return std::optional<SweepRow>();
    return std::optional<SweepRow>(ReadSweep(query));
  }

  absl::StatusOr<std::vector<SweepRow>> UnexpandedSweeps() override {
    Statement query = db_->Prepare(absl::StrCat(
        kSelectSweep,
        " WHERE r.cells_expanded < r.cells_total ORDER BY sweep.sweep_id"));
    std::vector<SweepRow> rows;
    while (true) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return rows;
      rows.push_back(ReadSweep(query));
    }
  }

  absl::StatusOr<SweepId> InsertSweep(const SweepRow& row,
                                      absl::Span<const AxisRow> axes) override {
    RETURN_IF_ERROR(db_->Prepare("INSERT INTO sweep (name, revision, "
                                 "submitted_us) VALUES (?, ?, ?)")
                        .Bind(row.name)
                        .Bind(row.revision)
                        .Bind(row.submitted_us)
                        .Run());
    const SweepId id{db_->LastInsertId()};
    const std::string list = absl::StrCat(
        "[",
        absl::StrJoin(axes, ",",
                      [](std::string* out, const AxisRow& axis) {
                        absl::StrAppend(out, "\"", axis.path, "\"");
                      }),
        "]");
    RETURN_IF_ERROR(
        db_->Prepare(
               "INSERT INTO sweep_revision VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
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

  absl::Status SetCellsExpanded(SweepId sweep, uint64_t cells) override {
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

  absl::StatusOr<JobRow> UpsertJob(const NewJobRow& job, int64_t now_us,
                                   bool* inserted) override {
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
        row.state = StateFromName(query.Text(1));
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

  absl::Status InsertCell(SweepId sweep, int revision,
                          const CellRow& cell) override {
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

  absl::StatusOr<WorkerId> InsertWorker(const WorkerRow& worker,
                                        int64_t now_us) override {
    RETURN_IF_ERROR(
        db_->Prepare("INSERT INTO worker (slot_uuid, slot_name, pid, epoch, "
                     "build, torch_version, device_kind, "
                     "threads, host, registered_us) VALUES (?, ?, ?, ?, ?, ?, "
                     "?, ?, ?, ?)")
            .Bind(worker.slot_uuid)
            .Bind(worker.slot_name)
            .Bind(int64_t{worker.pid})
            .Bind(static_cast<int64_t>(worker.epoch))
            .Bind(worker.provenance.build)
            .Bind(worker.provenance.torch_version)
            .Bind(worker.provenance.device_kind)
            .Bind(int64_t{worker.provenance.threads})
            .Bind(worker.provenance.host)
            .Bind(now_us)
            .Run());
    return WorkerId{db_->LastInsertId()};
  }

  absl::Status SetJobState(JobId job, JobState state) override {
    return db_->Prepare("UPDATE job SET state = ? WHERE job_id = ?")
        .Bind(JobStateName(state))
        .Bind(job.value)
        .Run();
  }

  absl::Status StartAttempt(const AttemptStart& attempt) override {
    RETURN_IF_ERROR(
        db_->Prepare("INSERT INTO attempt (job_id, number, worker_id, outcome, "
                     "started_us) VALUES (?, ?, ?, 'running', ?)")
            .Bind(attempt.lease.job.value)
            .Bind(int64_t{attempt.lease.attempt})
            .Bind(attempt.worker.value)
            .Bind(attempt.started_us)
            .Run());
    return db_->Prepare("UPDATE job SET last_attempt = ? WHERE job_id = ?")
        .Bind(int64_t{attempt.lease.attempt})
        .Bind(attempt.lease.job.value)
        .Run();
  }

  absl::Status EndAttempt(const AttemptEnd& attempt) override {
    return db_
        ->Prepare(
            "UPDATE attempt SET outcome = ?, cause = ?, message = ?, log_tail "
            "= ?, steps_run = max(steps_run, ?), "
            "checkpointed = max(checkpointed, ?), duration_us = ?, ended_us = "
            "? WHERE job_id = ? AND number = ?")
        .Bind(AttemptOutcomeName(attempt.outcome))
        .Bind(CauseName(attempt.cause))
        .Bind(attempt.message)
        .Bind(attempt.log_tail)
        .Bind(static_cast<int64_t>(attempt.steps_run))
        .Bind(int64_t{attempt.checkpointed})
        .Bind(attempt.duration_us)
        .Bind(attempt.ended_us)
        .Bind(attempt.lease.job.value)
        .Bind(int64_t{attempt.lease.attempt})
        .Run();
  }

  absl::Status InsertResult(const Completion& completion,
                            int64_t now_us) override {
    const int64_t job = completion.lease.job.value;
    ASSIGN_OR_RETURN(const bool exists, HasResult(job));
    if (exists) return ResultExists(job);
    const Provenance& origin = completion.provenance;
    RETURN_IF_ERROR(
        db_->Prepare("INSERT INTO result VALUES (?, ?, ?, ?, ?, "
                     "coalesce((SELECT group_concat(sha256, ' ') FROM "
                     "job_dependency AS d JOIN artifact AS a ON a.job_id = "
                     "d.depends_on_job_id WHERE d.job_id = ?), ''), "
                     "?, ?, ?, ?, ?, ?)")
            .Bind(job)
            .Bind(int64_t{completion.lease.attempt})
            .Bind(completion.duration_us)
            .Bind(int64_t{completion.result.non_finite})
            .Bind(int64_t{completion.result.extrapolated})
            .Bind(job)
            .Bind(origin.build)
            .Bind(origin.torch_version)
            .Bind(origin.device_kind)
            .Bind(int64_t{origin.threads})
            .Bind(origin.host)
            .Bind(now_us)
            .Run());
    for (const Measurement& m : completion.result.measurements)
      RETURN_IF_ERROR(InsertMeasurement(job, m));
    for (const CurvePoint& point : completion.result.curve) {
      RETURN_IF_ERROR(db_->Prepare("INSERT INTO curve VALUES (?, ?, ?, ?, ?)")
                          .Bind(job)
                          .Bind(point.name)
                          .Bind(point.step)
                          .BindReal(point.value)
                          .Bind(KindOf(point.value))
                          .Run());
    }
    if (!completion.result.artifact.has_value()) return absl::OkStatus();
    const Artifact& artifact = *completion.result.artifact;
    return db_->Prepare("INSERT INTO artifact VALUES (?, ?, ?, ?)")
        .Bind(job)
        .Bind(artifact.path)
        .Bind(artifact.sha256)
        .Bind(artifact.bytes)
        .Run();
  }

  absl::Status InsertEvent(absl::string_view kind, JobId job, uint32_t attempt,
                           WorkerId worker, absl::string_view text,
                           int64_t now_us) override {
    return db_
        ->Prepare(
            "INSERT INTO event (at_us, kind, job_id, attempt_number, "
            "worker_id, text) VALUES (?, ?, ?, ?, ?, ?)")
        .Bind(now_us)
        .Bind(kind)
        .Bind(job.value)
        .Bind(int64_t{attempt})
        .Bind(worker.value)
        .Bind(text)
        .Run();
  }

  absl::StatusOr<std::optional<JobPayload>> Payload(JobId job) override {
    JobPayload payload;
    {
      Statement query =
          db_->Prepare("SELECT stage, key, inputs FROM job WHERE job_id = ?");
      query.Bind(job.value);
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return std::optional<JobPayload>();
      payload.stage = StageFromName(query.Text(0)).value_or(Stage::kNoop);
      payload.key = JobKeyFromBytes(query.Text(1)).value_or(JobKey{});
      payload.inputs = query.Text(2);
    }
    Statement query = db_->Prepare(
        "SELECT job.key, job.stage, artifact.path, artifact.sha256, "
        "artifact.bytes FROM job_dependency AS d "
        "JOIN job ON job.job_id = d.depends_on_job_id LEFT JOIN artifact ON "
        "artifact.job_id = job.job_id "
        "WHERE d.job_id = ? ORDER BY job.job_id");
    query.Bind(job.value);
    while (true) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return std::optional<JobPayload>(std::move(payload));
      JobPayload::Input input;
      input.key = JobKeyFromBytes(query.Text(0)).value_or(JobKey{});
      input.stage = StageFromName(query.Text(1)).value_or(Stage::kNoop);
      if (!query.IsNull(2))
        input.artifact =
            Artifact{query.Text(2), query.Text(3), query.Integer(4)};
      payload.dependencies.push_back(std::move(input));
    }
  }

  absl::Status ForEachJob(
      const std::function<void(const JobRow&)>& visit) override {
    Statement query = db_->Prepare(
        "SELECT job_id, key, stage, state, last_attempt, max_attempts FROM job "
        "ORDER BY job_id");
    Statement parents = db_->Prepare(
        "SELECT job_id, depends_on_job_id FROM job_dependency ORDER BY job_id, "
        "depends_on_job_id");
    ASSIGN_OR_RETURN(bool parent, parents.Step());
    while (true) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return absl::OkStatus();
      JobRow job;
      job.id = JobId{query.Integer(0)};
      job.key = JobKeyFromBytes(query.Text(1)).value_or(JobKey{});
      job.stage = StageFromName(query.Text(2)).value_or(Stage::kNoop);
      job.state = StateFromName(query.Text(3));
      job.last_attempt = static_cast<uint32_t>(query.Integer(4));
      job.max_attempts = static_cast<uint32_t>(query.Integer(5));
      while (parent && parents.Integer(0) == job.id.value) {
        job.depends_on.push_back(JobId{parents.Integer(1)});
        ASSIGN_OR_RETURN(parent, parents.Step());
      }
      visit(job);
    }
  }

  absl::StatusOr<std::vector<OpenAttempt>> OpenAttempts() override {
    Statement query = db_->Prepare(
        "SELECT job_id, number, worker_id, slot_uuid FROM attempt JOIN worker "
        "USING (worker_id) "
        "WHERE outcome = 'running' ORDER BY job_id");
    std::vector<OpenAttempt> attempts;
    while (true) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return attempts;
      attempts.push_back(
          {{JobId{query.Integer(0)}, static_cast<uint32_t>(query.Integer(1))},
           WorkerId{query.Integer(2)},
           query.Text(3)});
    }
  }

  absl::StatusOr<std::vector<SpentBudget>> SpentBudgets() override {
    Statement query = db_->Prepare(
        "SELECT job_id, cause, count(*) FROM attempt JOIN job USING (job_id) "
        "WHERE job.state NOT IN "
        "('done', 'failed', 'upstream_failed') AND outcome = 'failed' AND "
        "(cause NOT IN ('crashed', 'lost') OR number >= "
        "(SELECT coalesce(max(number), 0) FROM attempt AS saved WHERE "
        "saved.job_id = attempt.job_id AND "
        "saved.checkpointed)) GROUP BY job_id, cause ORDER BY job_id, cause");
    std::vector<SpentBudget> budgets;
    while (true) {
      ASSIGN_OR_RETURN(const bool row, query.Step());
      if (!row) return budgets;
      budgets.push_back({JobId{query.Integer(0)},
                         CauseFromName(query.Text(1)).value_or(Cause::kFailed),
                         static_cast<uint32_t>(query.Integer(2))});
    }
  }

  absl::Status RemakeViews() {
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

 private:
  static constexpr absl::string_view kSelectSweep =
      "SELECT sweep.sweep_id, sweep.name, r.revision, r.spec_yaml, "
      "r.spec_hash, r.cells_total, r.cells_expanded, "
      "r.submitted_us FROM sweep JOIN sweep_revision AS r USING (sweep_id, "
      "revision)";

  static SweepRow ReadSweep(const Statement& query) {
    return {SweepId{query.Integer(0)},
            query.Text(1),
            static_cast<int>(query.Integer(2)),
            query.Text(3),
            query.Text(4),
            static_cast<uint64_t>(query.Integer(5)),
            static_cast<uint64_t>(query.Integer(6)),
            query.Integer(7)};
  }

  absl::StatusOr<bool> HasResult(int64_t job) {
    Statement query = db_->Prepare("SELECT 1 FROM result WHERE job_id = ?");
    query.Bind(job);
    return query.Step();
  }

  absl::Status InsertMeasurement(int64_t job, const Measurement& m) {
    return db_
        ->Prepare(
            "INSERT INTO measurement VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .Bind(job)
        .Bind(m.predictor)
        .Bind(m.name)
        .Bind(m.task)
        .Bind(m.position)
        .Bind(m.layer)
        .Bind(m.head)
        .BindReal(m.value)
        .Bind(KindOf(m.value))
        .BindReal(m.standard_error)
        .Bind(m.n)
        .Run();
  }

  std::unique_ptr<Database> db_;
  bool open_ = false;
};

// 0 = an empty (new) database.
absl::StatusOr<int64_t> CheckedSchemaVersion(Database* database) {
  ASSIGN_OR_RETURN(
      const int64_t tables,
      database->QueryInteger("SELECT count(*) FROM sqlite_schema"));
  ASSIGN_OR_RETURN(const int64_t version,
                   database->QueryInteger("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t application,
                   database->QueryInteger("PRAGMA application_id"));
  if (tables == 0 && version == 0 && application == 0) return 0;
  if (application != kApplicationId) return NotOurDatabase(database->file());
  if (version > kSchemaVersion)
    return NewerSchema(database->file(), static_cast<int>(version),
                       kSchemaVersion);
  return version;
}

absl::Status Migrate(Database* database, int64_t version) {
  if (version == kSchemaVersion) return absl::OkStatus();
  if (version > 0)
    RETURN_IF_ERROR(database->BackupTo(
        absl::StrCat(database->file(), ".before-schema-", kSchemaVersion)));
  RETURN_IF_ERROR(database->Execute("BEGIN IMMEDIATE"));
  for (int64_t next = version + 1; next <= kSchemaVersion; ++next) {
    RETURN_IF_ERROR(database->Execute(kMigrations[next - 1]));
  }
  if (version == 0) {
    RETURN_IF_ERROR(
        database->Prepare("INSERT INTO meta VALUES ('database_uuid', ?)")
            .Bind(absl::string_view(NewUuid()))
            .Run());
    RETURN_IF_ERROR(database->Execute(ViewsSql({})));
  }
  RETURN_IF_ERROR(database->Execute(
      absl::StrCat("PRAGMA application_id = ", kApplicationId,
                   "; PRAGMA user_version = ", kSchemaVersion)));
  return database->Execute("COMMIT");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(
    const std::string& file) {
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(file, Database::Mode::kReadWrite));
  ASSIGN_OR_RETURN(const int64_t version, CheckedSchemaVersion(database.get()));
  RETURN_IF_ERROR(
      database->Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                        "PRAGMA foreign_keys = ON"));
  RETURN_IF_ERROR(Migrate(database.get(), version));
  return std::make_unique<SqliteStore>(std::move(database));
}

absl::StatusOr<std::unique_ptr<Database>> OpenForReading(
    const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) {
    if (errno == ENOENT) return DatabaseMissing(file);
    return DatabaseUnavailable(file, "opening", std::strerror(errno));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(file, Database::Mode::kReadOnly));
  ASSIGN_OR_RETURN(const int64_t version, CheckedSchemaVersion(database.get()));
  if (version == 0) return NotOurDatabase(file);
  return database;
}

}  // namespace iclsweep
