#include "coordinator/service/explain.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {
namespace {

constexpr size_t kShortestKey = 8;
constexpr size_t kKeyDigits = 64;

bool IsKey(absl::string_view text) {
  return text.size() >= kShortestKey && text.size() <= kKeyDigits &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

// The first or last key that begins so.
std::string KeyWith(absl::string_view prefix, char rest) {
  return absl::HexStringToBytes(
      absl::StrCat(prefix, std::string(kKeyDigits - prefix.size(), rest)));
}

absl::StatusOr<JobId> FindKey(Database* database, const std::string& prefix) {
  Statement query = database->Prepare(
      "SELECT job_id FROM job WHERE key BETWEEN ? AND ? LIMIT 2");
  query.BindBlob(KeyWith(prefix, '0')).BindBlob(KeyWith(prefix, 'f'));
  ASSIGN_OR_RETURN(const bool found, query.Step());
  if (!found)
    return absl::NotFoundError(
        absl::StrCat("no job has a key that begins with ", prefix));
  const JobId job{query.Integer(0)};
  ASSIGN_OR_RETURN(const bool another, query.Step());
  if (another)
    return absl::InvalidArgumentError(
        absl::StrCat("several jobs have a key that begins with ", prefix,
                     "; give more of it"));
  return job;
}

// Rows of `query`: job_id, key, stage, state, attempt, cause, message.
absl::Status AddJobs(Statement query, v1::ExplainResponse* response) {
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return absl::OkStatus();
    v1::ExplainedJob* job = response->add_jobs();
    job->set_job_id(query.Integer(0));
    job->set_key(query.Text(1));
    job->set_stage(query.Text(2));
    job->set_state(query.Text(3));
    job->set_jobs(1);
    if (!query.Text(4).empty())
      job->set_reason(absl::StrCat(query.Text(4), ": ", query.Text(5)));
  }
}

constexpr absl::string_view kJobColumns =
    "SELECT job.job_id, lower(hex(key)), stage, state, "
    "coalesce(attempt.cause, ''), coalesce(attempt.message, '') FROM job LEFT "
    "JOIN attempt ON attempt.job_id = job.job_id AND attempt.number = "
    "job.last_attempt AND attempt.outcome = 'failed' ";

absl::Status AddCell(Database* database, const std::string& sweep,
                     uint64_t cell, v1::ExplainResponse* response) {
  Statement query = database->Prepare(absl::StrCat(
      kJobColumns,
      "WHERE job.job_id IN (SELECT cell_job.job_id FROM cell JOIN sweep USING "
      "(sweep_id) JOIN cell_job USING (sweep_id, cell_key) WHERE sweep.name = "
      "? AND cell.cell_index = ?) ORDER BY job.job_id"));
  query.Bind(sweep).Bind(static_cast<int64_t>(cell));
  RETURN_IF_ERROR(AddJobs(std::move(query), response));
  if (response->jobs_size() > 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "sweep ", sweep, " has no cell ", cell,
      ", or has not made its jobs yet (iclsweep explain ", sweep, ")"));
}

}  // namespace

absl::StatusOr<std::string> SweepNamed(Database* database,
                                       const std::string& name) {
  Statement query = database->Prepare(
      "SELECT name FROM sweep WHERE ?1 = '' OR name = ?1 ORDER BY sweep_id "
      "DESC LIMIT 1");
  query.Bind(name);
  ASSIGN_OR_RETURN(const bool row, query.Step());
  if (row) return query.Text(0);
  return absl::NotFoundError(
      name.empty() ? std::string("there is no sweep yet")
                   : absl::StrCat("there is no sweep '", name, "'"));
}

absl::StatusOr<JobId> FindJob(Database* database, const std::string& job) {
  int64_t id = 0;
  if (absl::SimpleAtoi(job, &id)) {
    Statement query = database->Prepare("SELECT 1 FROM job WHERE job_id = ?");
    query.Bind(id);
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (row) return JobId{id};
    if (!IsKey(job))
      return absl::NotFoundError(absl::StrCat("there is no job ", id));
  }
  if (IsKey(job)) return FindKey(database, job);
  return absl::InvalidArgumentError(
      absl::StrCat("job '", job, "': must be a job's id, or at least ",
                   kShortestKey, " digits of the beginning of its key"));
}

absl::Status FindExplained(const std::string& database_file,
                           const v1::ExplainRequest& request,
                           v1::ExplainResponse* response) {
  if (request.target_case() == v1::ExplainRequest::kWorker)
    return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenForReading(database_file));
  if (request.target_case() == v1::ExplainRequest::kJob) {
    ASSIGN_OR_RETURN(const JobId job, FindJob(database.get(), request.job()));
    Statement query =
        database->Prepare(absl::StrCat(kJobColumns, "WHERE job.job_id = ?"));
    query.Bind(job.value);
    return AddJobs(std::move(query), response);
  }
  ASSIGN_OR_RETURN(const std::string sweep,
                   SweepNamed(database.get(), request.sweep()));
  response->set_sweep(sweep);
  if (request.target_case() != v1::ExplainRequest::kCell)
    return absl::OkStatus();
  return AddCell(database.get(), sweep, request.cell(), response);
}

}  // namespace iclsweep
