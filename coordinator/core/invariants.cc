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

absl::Status Core::CheckJob(JobId id, const Job& job,
                            const OpenDependencies& open) const {
  if (job.missing != open.missing || job.broken != open.broken)
    return Broken(id, "counts its open dependencies wrongly");
  if (job.state == JobState::kBlocked && (job.missing == 0 || job.broken > 0))
    return Broken(id, "is blocked by nothing that can end");
  if (job.state == JobState::kUpstreamFailed && job.broken == 0)
    return Broken(id, "failed for want of nothing");
  if (job.state == JobState::kReady && job.missing != 0)
    return Broken(id, "is ready before its dependencies are done");
  if ((job.state == JobState::kLeased) != leases_.contains(id))
    return Broken(id, "is leased without a lease, or has one and is not");
  if (IsTerminal(job.state) && spent_.contains(id))
    return Broken(id, "is over and still has a budget");
  return absl::OkStatus();
}

absl::Status Core::CheckLeases() const {
  for (const auto& [id, lease] : leases_) {
    if (!deadlines_.contains({lease.deadline_us, id}))
      return Broken(id, "is leased without a deadline");
    const auto holder = workers_.find(lease.holder);
    if (holder == workers_.end() || !holder->second.held.contains(id))
      return Broken(id, "is held by a worker that does not know it");
  }
  if (deadlines_.size() != leases_.size())
    return absl::InternalError("a deadline belongs to no lease");
  size_t held = 0;
  for (const auto& [id, worker] : workers_) held += worker.held.size();
  if (held != leases_.size())
    return absl::InternalError("a worker holds a job that is not leased");
  return absl::OkStatus();
}

// The counts kept are those of the jobs, and every ready job is queued with
// each sweep that wants it.
absl::Status Core::CheckCounts() const {
  std::map<SweepId, JobCounts> counts;
  std::map<SweepId, ReadyQueue> queues;
  for (const auto& [id, sweep] : sweeps_) queues[id] = sweep.ready;
  for (size_t i = 1; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    if (!job.known) continue;
    const JobId id{static_cast<int64_t>(i)};
    bool queued = true;
    ForEachSweepOf(id, job, [&](SweepId sweep) {
      ++counts[sweep][static_cast<size_t>(job.stage)]
              [static_cast<size_t>(job.state)];
      // Jobs come in the order in which a queue hands them out; an entry
      // below the job's is one that was met already.
      if (job.state == JobState::kReady)
        queued &= queues[sweep].Pop({job.stage, job.parent}, [&](JobId other) {
          return !(other < id) && IsReady(other);
        }) == id;
    });
    if (!queued) return Broken(id, "is ready but not queued");
  }
  for (const auto& [id, sweep] : sweeps_) {
    if (counts[id] != sweep.counts)
      return absl::InternalError(
          absl::StrCat("sweep ", id.value, " counts its jobs wrongly"));
    uint64_t ready = 0;
    for (const auto& of_stage : sweep.counts)
      ready += of_stage[static_cast<size_t>(JobState::kReady)];
    if (sweep.ready_jobs != ready || offering_.contains(id) != (ready > 0))
      return absl::InternalError(
          absl::StrCat("sweep ", id.value, " does not offer its ready jobs"));
  }
  return absl::OkStatus();
}

absl::Status Core::CheckInvariants() const {
  std::vector<OpenDependencies> open(jobs_.size());
  for (const Job& job : jobs_) {
    if (!job.known || job.state == JobState::kDone) continue;
    const bool broken = job.state == JobState::kFailed ||
                        job.state == JobState::kUpstreamFailed;
    for (const JobId child : job.dependents) {
      ++open[static_cast<size_t>(child.value)].missing;
      open[static_cast<size_t>(child.value)].broken += broken ? 1 : 0;
    }
  }
  for (size_t i = 1; i < jobs_.size(); ++i) {
    if (!jobs_[i].known) continue;
    absl::Status status =
        CheckJob(JobId{static_cast<int64_t>(i)}, jobs_[i], open[i]);
    if (!status.ok()) return status;
  }
  absl::Status status = CheckLeases();
  return status.ok() ? CheckCounts() : status;
}

}  // namespace iclsweep
