#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"

namespace iclsweep {

namespace {

absl::Status Broken(JobId id, absl::string_view what) {
  return absl::InternalError(absl::StrCat("job ", id.value, ": ", what));
}

}  // namespace

absl::Status Core::CheckJob(JobId id, const Job& job, uint32_t missing) const {
  if (job.missing != missing)
    return Broken(id, "counts its open dependencies wrongly");
  if (job.state == JobState::kBlocked && job.missing == 0)
    return Broken(id, "is blocked by nothing");
  if (job.state == JobState::kReady) {
    if (job.missing != 0)
      return Broken(id, "is ready before its dependencies are done");
    if (!ready_[static_cast<size_t>(job.stage)].contains(id))
      return Broken(id, "is ready but not queued");
  }
  if ((job.state == JobState::kLeased) != static_cast<bool>(job.holder))
    return Broken(id, "is leased without a holder, or held without a lease");
  if (job.state != JobState::kLeased) return absl::OkStatus();
  if (!deadlines_.contains({job.deadline_us, id}))
    return Broken(id, "is leased without a deadline");
  const auto holder = workers_.find(job.holder);
  if (holder == workers_.end() || !holder->second.held.contains(id))
    return Broken(id, "is held by a worker that does not know it");
  return absl::OkStatus();
}

absl::Status Core::CheckInvariants() const {
  std::vector<uint32_t> missing(jobs_.size(), 0);
  for (const Job& job : jobs_) {
    if (!job.known || job.state == JobState::kDone) continue;
    for (const JobId child : job.dependents)
      ++missing[static_cast<size_t>(child.value)];
  }
  size_t leased = 0;
  size_t ready = 0;
  for (size_t i = 1; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    if (!job.known) continue;
    absl::Status status =
        CheckJob(JobId{static_cast<int64_t>(i)}, job, missing[i]);
    if (!status.ok()) return status;
    leased += job.state == JobState::kLeased ? 1 : 0;
    ready += job.state == JobState::kReady ? 1 : 0;
  }
  if (deadlines_.size() != leased)
    return absl::InternalError("a deadline belongs to no lease");
  if (ready_jobs() != ready)
    return absl::InternalError("the queue holds a job that is not ready");
  size_t held = 0;
  for (const auto& [id, worker] : workers_) held += worker.held.size();
  if (held != leased)
    return absl::InternalError("a worker holds a job that is not leased");
  return absl::OkStatus();
}

}  // namespace iclsweep
