// Workers, attempts and the state of jobs; what a restart reads.
#include "proto/base/status_macros.h"
#include "storage/sqlite/store_impl.h"

namespace iclsweep {

absl::string_view BytesOf(const JobKey& key) {
  return absl::string_view(reinterpret_cast<const char*>(key.bytes.data()),
                           key.bytes.size());
}

JobState JobStateFromName(absl::string_view name) {
  for (const JobState state :
       {JobState::kBlocked, JobState::kReady, JobState::kLeased,
        JobState::kDone, JobState::kFailed, JobState::kUpstreamFailed}) {
    if (JobStateName(state) == name) return state;
  }
  return JobState::kBlocked;
}

absl::StatusOr<WorkerId> SqliteStore::InsertWorker(const WorkerRow& worker,
                                                   int64_t now_us) {
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

absl::Status SqliteStore::SetJobState(JobId job, JobState state) {
  return db_->Prepare("UPDATE job SET state = ? WHERE job_id = ?")
      .Bind(JobStateName(state))
      .Bind(job.value)
      .Run();
}

absl::Status SqliteStore::StartAttempt(const AttemptStart& attempt) {
  RETURN_IF_ERROR(
      db_->Prepare("INSERT INTO attempt (job_id, number, worker_id, outcome, "
                   "started_us) VALUES (?, ?, ?, 'running', ?)")
          .Bind(attempt.lease.job.value)
          .Bind(int64_t{attempt.lease.attempt})
          .Bind(attempt.worker.value)
          .Bind(attempt.started_us)
          .Run());
  return db_
      ->Prepare(
          "UPDATE job SET last_attempt = ?, state = 'leased' WHERE job_id = ?")
      .Bind(int64_t{attempt.lease.attempt})
      .Bind(attempt.lease.job.value)
      .Run();
}

absl::Status SqliteStore::EndAttempt(const AttemptEnd& attempt) {
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

absl::Status SqliteStore::InsertEvent(const EventRow& event, int64_t now_us) {
  return db_
      ->Prepare(
          "INSERT INTO event (at_us, kind, sweep_id, job_id, attempt_number, "
          "worker_id, text) VALUES (?, ?, ?, ?, ?, ?, ?)")
      .Bind(now_us)
      .Bind(event.kind)
      .Bind(event.sweep.value)
      .Bind(event.lease.job.value)
      .Bind(int64_t{event.lease.attempt})
      .Bind(event.worker.value)
      .Bind(event.text)
      .Run();
}

absl::StatusOr<std::optional<JobPayload>> SqliteStore::Payload(JobId job) {
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
      input.artifact = Artifact{query.Text(2), query.Text(3), query.Integer(4)};
    payload.dependencies.push_back(std::move(input));
  }
}

absl::StatusOr<std::optional<JobIdentity>> SqliteStore::Identity(JobId job) {
  Statement query = db_->Prepare("SELECT key, stage FROM job WHERE job_id = ?");
  query.Bind(job.value);
  ASSIGN_OR_RETURN(const bool row, query.Step());
  if (!row) return std::optional<JobIdentity>();
  return std::optional<JobIdentity>(
      {JobKeyFromBytes(query.Text(0)).value_or(JobKey{}),
       StageFromName(query.Text(1)).value_or(Stage::kNoop)});
}

absl::StatusOr<std::vector<JobId>> SqliteStore::FailedJobs(SweepId sweep,
                                                           Cause cause) {
  Statement query = db_->Prepare(
      "SELECT job_id FROM job WHERE state = 'failed' AND state IN ('failed', "
      "'upstream_failed') AND EXISTS (SELECT 1 FROM cell_job AS c WHERE "
      "c.job_id = job.job_id AND c.sweep_id = ?1) AND (?2 = '' OR ?2 = (SELECT "
      "cause FROM attempt AS a WHERE a.job_id = job.job_id AND a.number = "
      "job.last_attempt)) ORDER BY job_id");
  query.Bind(sweep.value);
  query.Bind(CauseName(cause));
  std::vector<JobId> jobs;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return jobs;
    jobs.push_back(JobId{query.Integer(0)});
  }
}

absl::Status SqliteStore::ForgiveFailures(JobId job) {
  return db_
      ->Prepare(
          "UPDATE job SET retried_attempt = last_attempt WHERE job_id = ?")
      .Bind(job.value)
      .Run();
}

absl::Status SqliteStore::ForEachJob(
    const std::function<void(const JobRow&)>& visit) {
  Statement query = db_->Prepare(
      "SELECT job_id, key, stage, state, last_attempt, max_attempts FROM job "
      "ORDER BY job_id");
  Statement parents = db_->Prepare(
      "SELECT job_id, depends_on_job_id FROM job_dependency ORDER BY job_id, "
      "depends_on_job_id");
  // In the order of an index: nothing is sorted.
  Statement wanted =
      db_->Prepare("SELECT job_id, sweep_id FROM cell_job ORDER BY job_id");
  ASSIGN_OR_RETURN(bool parent, parents.Step());
  ASSIGN_OR_RETURN(bool want, wanted.Step());
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return absl::OkStatus();
    JobRow job;
    job.id = JobId{query.Integer(0)};
    job.key = JobKeyFromBytes(query.Text(1)).value_or(JobKey{});
    job.stage = StageFromName(query.Text(2)).value_or(Stage::kNoop);
    job.state = JobStateFromName(query.Text(3));
    job.last_attempt = static_cast<uint32_t>(query.Integer(4));
    job.max_attempts = static_cast<uint32_t>(query.Integer(5));
    while (parent && parents.Integer(0) == job.id.value) {
      job.depends_on.push_back(JobId{parents.Integer(1)});
      ASSIGN_OR_RETURN(parent, parents.Step());
    }
    while (want && wanted.Integer(0) == job.id.value) {
      const SweepId sweep{wanted.Integer(1)};
      if (job.sweeps.empty() || job.sweeps.back() != sweep)
        job.sweeps.push_back(sweep);
      ASSIGN_OR_RETURN(want, wanted.Step());
    }
    visit(job);
  }
}

absl::StatusOr<std::vector<OpenAttempt>> SqliteStore::OpenAttempts() {
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

absl::StatusOr<std::vector<SpentBudget>> SqliteStore::SpentBudgets() {
  Statement query = db_->Prepare(
      "SELECT job_id, cause, count(*) FROM attempt JOIN job USING (job_id) "
      "WHERE job.state NOT IN "
      "('done', 'failed', 'upstream_failed') AND outcome = 'failed' AND "
      "number > job.retried_attempt AND "
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

}  // namespace iclsweep
