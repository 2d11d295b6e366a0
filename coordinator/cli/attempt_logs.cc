#include "coordinator/cli/attempt_logs.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

bool IsTerminal(const std::string& state) {
  return state == "done" || state == "failed" || state == "upstream_failed";
}

}  // namespace

std::string LogNewsText(const LogNews& news) {
  if (!news.ended) return news.line;
  std::string text = absl::StrCat("attempt ", news.attempt);
  if (news.no_log) absl::StrAppend(&text, " on ", news.worker);
  absl::StrAppend(&text, ": ", news.outcome);
  if (!news.cause.empty()) absl::StrAppend(&text, " (", news.cause, ")");
  if (!news.message.empty()) absl::StrAppend(&text, ": ", news.message);
  if (news.steps_run > 0)
    absl::StrAppend(&text, "; steps run: ", news.steps_run);
  if (news.no_log) absl::StrAppend(&text, "; it kept no log");
  if (news.log_tail.empty()) return text;
  absl::StrAppend(&text, "; its worker said last:");
  for (const absl::string_view line :
       absl::StrSplit(news.log_tail, '\n', absl::SkipEmpty()))
    absl::StrAppend(&text, "\n  ", line);
  return text;
}

std::string LogNewsJson(JobId job, const LogNews& news) {
  nlohmann::json document = {{"job_id", job.value}, {"attempt", news.attempt}};
  if (news.ended) {
    document["kind"] = "end";
    document["outcome"] = news.outcome;
    document["cause"] = news.cause;
    document["message"] = news.message;
    document["log_tail"] = news.log_tail;
    document["steps_run"] = news.steps_run;
    document["worker"] = news.worker;
  } else {
    const size_t space = news.line.find(' ');
    document["kind"] = "line";
    document["at"] = news.line.substr(0, space);
    document["text"] =
        space == std::string::npos ? "" : news.line.substr(space + 1);
  }
  return document.dump(-1, ' ', false,
                       nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<AttemptLogs> AttemptLogs::Open(const std::string& data_dir,
                                              Database* database, JobId job,
                                              std::optional<uint32_t> only) {
  Statement query = database->Prepare("SELECT key FROM job WHERE job_id = ?");
  query.Bind(job.value);
  ASSIGN_OR_RETURN(const bool found, query.Step());
  const std::optional<JobKey> key =
      found ? JobKeyFromBytes(query.Text(0)) : std::nullopt;
  if (!key.has_value())
    return absl::NotFoundError(absl::StrCat("there is no job ", job.value));
  AttemptLogs logs(absl::StrCat(data_dir, "/logs"), database, job, *key, only);
  ASSIGN_OR_RETURN(const std::vector<Attempt> attempts, logs.Attempts());
  if (only.has_value() && attempts.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "job ", job.value, " has no attempt ", *only, " (iclsweep logs ",
        job.value, " shows those that there are)"));
  }
  return logs;
}

absl::StatusOr<std::vector<AttemptLogs::Attempt>> AttemptLogs::Attempts() {
  Statement job = database_->Prepare("SELECT state FROM job WHERE job_id = ?");
  job.Bind(job_.value);
  ASSIGN_OR_RETURN(const bool found, job.Step());
  if (found) state_ = job.Text(0);
  Statement query = database_->Prepare(
      "SELECT number, outcome, cause, message, log_tail, steps_run, slot_name "
      "FROM attempt JOIN worker USING (worker_id) WHERE job_id = ?1 AND (?2 = "
      "0 "
      "OR number = ?2) ORDER BY number");
  query.Bind(job_.value).Bind(int64_t{only_.value_or(0)});
  std::vector<Attempt> attempts;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return attempts;
    Attempt attempt;
    attempt.end.ended = true;
    attempt.end.attempt = static_cast<uint32_t>(query.Integer(0));
    attempt.end.outcome = query.Text(1);
    attempt.end.cause = query.Text(2);
    attempt.end.message = query.Text(3);
    attempt.end.log_tail = query.Text(4);
    attempt.end.steps_run = static_cast<uint64_t>(query.Integer(5));
    attempt.end.worker = query.Text(6);
    attempt.running = attempt.end.outcome == "running";
    attempts.push_back(std::move(attempt));
  }
}

void AttemptLogs::ShowLines(
    uint32_t attempt, bool last, Shown* shown,
    const std::function<void(const LogNews&)>& show) const {
  std::ifstream file(AttemptLogFile(log_dir_, key_, attempt), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(shown->bytes));
  std::string line;
  while (file && std::getline(file, line)) {
    // A line without its end is still being written, or was cut by a crash.
    const bool whole = !file.eof();
    if (!whole && (!last || line.empty())) return;
    shown->bytes += line.size() + (whole ? 1 : 0);
    LogNews news;
    news.attempt = attempt;
    news.line = line;
    show(news);
  }
}

absl::StatusOr<bool> AttemptLogs::Poll(
    const std::function<void(const LogNews&)>& show) {
  // The database is read first: what an ended attempt wrote is there by then.
  ASSIGN_OR_RETURN(const std::vector<Attempt> attempts, Attempts());
  bool running = false;
  for (const Attempt& attempt : attempts) {
    Shown& shown = shown_[attempt.end.attempt];
    running |= attempt.running;
    if (shown.ended) continue;
    ShowLines(attempt.end.attempt, !attempt.running, &shown, show);
    if (attempt.running) continue;
    shown.ended = true;
    LogNews end = attempt.end;
    end.no_log = shown.bytes == 0;
    show(end);
  }
  return !running && (only_.has_value() || IsTerminal(state_));
}

}  // namespace iclsweep
