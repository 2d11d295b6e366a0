// Jobs and who wants them: coming in, changing state, failing with everything
// below, being tried again; sweeps being cancelled and taken up.
#include <algorithm>

#include "coordinator/core/core.h"

namespace iclsweep {
namespace {

bool IsBroken(JobState state) {
  return state == JobState::kFailed || state == JobState::kUpstreamFailed;
}

}  // namespace

bool Core::IsWanted(JobId id, const Job& job) const {
  bool wanted = false;
  ForEachSweepOf(id, job, [&](SweepId sweep) { wanted |= IsActive(sweep); });
  return wanted;
}

bool Core::IsActive(SweepId sweep) const {
  const auto found = sweeps_.find(sweep);
  return found == sweeps_.end() || found->second.active;
}

bool Core::IsReady(JobId id) const {
  return Find(id)->state == JobState::kReady;
}

const JobCounts& Core::CountsOf(SweepId sweep) const {
  static constexpr JobCounts none{};
  const auto found = sweeps_.find(sweep);
  return found == sweeps_.end() ? none : found->second.counts;
}

std::set<SweepId> Core::TakeChangedSweeps() {
  return std::exchange(changed_sweeps_, {});
}

void Core::CountIn(SweepId id, const Job& job, int64_t change) {
  Sweep& sweep = sweeps_[id];
  sweep
      .counts[static_cast<size_t>(job.stage)][static_cast<size_t>(job.state)] +=
      static_cast<uint64_t>(change);
  changed_sweeps_.insert(id);
  if (job.state != JobState::kReady) return;
  sweep.ready_jobs += static_cast<uint64_t>(change);
  if (sweep.ready_jobs == 0) {
    offering_.erase(id);
  } else {
    offering_.insert(id);
  }
}

void Core::Count(JobId id, const Job& job, int64_t change) {
  ForEachSweepOf(id, job, [&](SweepId sweep) { CountIn(sweep, job, change); });
}

void Core::SetState(JobId id, Job* job, JobState state, Effects* out) {
  Count(id, *job, -1);
  job->state = state;
  Count(id, *job, +1);
  if (state == JobState::kReady) {
    ForEachSweepOf(id, *job, [&](SweepId sweep) {
      sweeps_[sweep].ready.Push({job->stage, job->parent}, id);
    });
  }
  if (IsTerminal(state)) spent_.erase(id);
  out->job_states.push_back({id, state});
}

void Core::Join(SweepId sweep, JobId id, const Job& job) {
  bool joined = false;
  ForEachSweepOf(id, job, [&](SweepId of) { joined |= of == sweep; });
  if (joined) return;
  more_sweeps_[id].push_back(sweep);
  CountIn(sweep, job, +1);
  if (job.state == JobState::kReady)
    sweeps_[sweep].ready.Push({job.stage, job.parent}, id);
}

void Core::On(const JobsAdded& event, int64_t /*now_us*/, Effects* out) {
  for (const NewJob& added : event.jobs) AddJob(added, out);
}

void Core::AddJob(const NewJob& added, Effects* out) {
  if (Job* known = Find(added.id)) {
    known->max_attempts = std::max(known->max_attempts,
                                   static_cast<uint16_t>(added.max_attempts));
    Join(added.sweep, added.id, *known);
    return;
  }
  if (static_cast<size_t>(added.id.value) >= jobs_.size())
    jobs_.resize(static_cast<size_t>(added.id.value) + 1);
  Job job;
  job.known = true;
  job.stage = added.stage;
  job.last_attempt = added.last_attempt;
  job.max_attempts = static_cast<uint16_t>(added.max_attempts);
  job.sweep = added.sweep;
  for (const JobId parent_id : added.depends_on) {
    Job* parent = Find(parent_id);
    if (parent == nullptr) continue;
    if (!job.parent) job.parent = parent_id;
    if (parent->state != JobState::kDone) ++job.missing;
    if (IsBroken(parent->state)) ++job.broken;
    parent->dependents.push_back(added.id);
  }
  const JobState stored = added.stored_state;
  const bool final = stored == JobState::kDone || stored == JobState::kFailed;
  job.state = final ? stored : JobState::kBlocked;
  Job* placed = &jobs_[static_cast<size_t>(added.id.value)];
  *placed = std::move(job);
  Count(added.id, *placed, +1);
  if (final) return;
  if (placed->broken > 0) {
    SetState(added.id, placed, JobState::kUpstreamFailed, out);
  } else if (placed->missing == 0) {
    SetState(added.id, placed, JobState::kReady, out);
  } else {
    out->job_states.push_back({added.id, JobState::kBlocked});
  }
}

void Core::CommitDone(JobId id, Job* job, Effects* out) {
  SetState(id, job, JobState::kDone, out);
  for (const JobId child_id : job->dependents) {
    Job* child = Find(child_id);
    if (--child->missing == 0 && child->state == JobState::kBlocked)
      SetState(child_id, child, JobState::kReady, out);
  }
}

void Core::Fail(JobId id, Job* job, Effects* out) {
  SetState(id, job, JobState::kFailed, out);
  std::vector<JobId> below = job->dependents;
  while (!below.empty()) {
    const JobId child_id = below.back();
    below.pop_back();
    Job* child = Find(child_id);
    if (++child->broken > 1 || child->state != JobState::kBlocked) continue;
    SetState(child_id, child, JobState::kUpstreamFailed, out);
    below.insert(below.end(), child->dependents.begin(),
                 child->dependents.end());
  }
}

void Core::Reopen(JobId id, Job* job, Effects* out) {
  SetState(id, job, JobState::kReady, out);
  std::vector<JobId> below = job->dependents;
  while (!below.empty()) {
    const JobId child_id = below.back();
    below.pop_back();
    Job* child = Find(child_id);
    if (--child->broken > 0 || child->state != JobState::kUpstreamFailed)
      continue;
    SetState(child_id, child, JobState::kBlocked, out);
    below.insert(below.end(), child->dependents.begin(),
                 child->dependents.end());
  }
}

void Core::On(const Retried& event, int64_t /*now_us*/, Effects* out) {
  for (const JobId id : event.jobs) {
    Job* job = Find(id);
    if (job != nullptr && job->state == JobState::kFailed) Reopen(id, job, out);
  }
}

void Core::On(const SweepActivated& event, int64_t /*now_us*/,
              Effects* /*out*/) {
  sweeps_[event.sweep].active = true;
}

void Core::On(const SweepCancelled& event, int64_t /*now_us*/, Effects* out) {
  sweeps_[event.sweep].active = false;
  std::vector<JobId> unwanted;
  for (const auto& [id, lease] : leases_) {
    if (!IsWanted(id, *Find(id))) unwanted.push_back(id);
  }
  for (const JobId id : unwanted) {
    AttemptFinished end;
    end.outcome = AttemptOutcome::kReleased;
    end.cause = Cause::kDrained;
    end.message = "its sweep was cancelled";
    EndWithoutResult(id, Find(id), std::move(end), out);
  }
}

}  // namespace iclsweep
