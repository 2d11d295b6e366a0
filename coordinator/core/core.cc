#include "coordinator/core/core.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace iclsweep {

uint64_t OpenJobs(const JobCounts& counts) {
  uint64_t open = 0;
  for (const auto& of_stage : counts) {
    for (const JobState state :
         {JobState::kBlocked, JobState::kReady, JobState::kLeased})
      open += of_stage[static_cast<size_t>(state)];
  }
  return open;
}

Effects Core::Apply(const Event& event, int64_t now_us) {
  Effects effects;
  std::visit([&](const auto& e) { On(e, now_us, &effects); }, event);
  ServePolls(now_us, &effects);
  return effects;
}

Core::Job* Core::Find(JobId id) {
  if (id.value <= 0 || static_cast<size_t>(id.value) >= jobs_.size())
    return nullptr;
  Job* job = &jobs_[static_cast<size_t>(id.value)];
  return job->known ? job : nullptr;
}

const Core::Job* Core::Find(JobId id) const {
  return const_cast<Core*>(this)->Find(id);
}

bool Core::Knows(JobId job) const { return Find(job) != nullptr; }

JobState Core::StateOf(JobId job) const {
  const Job* found = Find(job);
  return found == nullptr ? JobState::kBlocked : found->state;
}

Stage Core::StageOf(JobId job) const {
  const Job* found = Find(job);
  return found == nullptr ? Stage::kNoop : found->stage;
}

uint64_t Core::ready_jobs() const {
  return static_cast<uint64_t>(
      std::count_if(jobs_.begin(), jobs_.end(), [](const Job& job) {
        return job.known && job.state == JobState::kReady;
      }));
}

int64_t Core::NextDeadline() const {
  int64_t next = deadlines_.empty() ? std::numeric_limits<int64_t>::max()
                                    : deadlines_.begin()->first;
  for (const Poll& poll : polls_) next = std::min(next, poll.until_us);
  for (const auto& [id, worker] : workers_) {
    if (worker.connected)
      next = std::min(next, worker.heard_us + options_.lease_us);
  }
  return next;
}

uint32_t Core::connected_workers() const {
  return static_cast<uint32_t>(
      std::count_if(workers_.begin(), workers_.end(),
                    [](const auto& entry) { return entry.second.connected; }));
}

Core::Lease Core::TakeLease(JobId id) {
  const auto found = leases_.find(id);
  const Lease lease = found->second;
  leases_.erase(found);
  deadlines_.erase({lease.deadline_us, id});
  const auto holder = workers_.find(lease.holder);
  if (holder != workers_.end()) holder->second.held.erase(id);
  return lease;
}

void Core::EndWithoutResult(JobId id, Job* job, AttemptFinished end,
                            Effects* out) {
  const Lease lease = TakeLease(id);
  end.lease = {id, job->last_attempt};
  end.steps_run = std::max(end.steps_run, lease.steps_run);
  end.checkpointed = lease.checkpointed;
  const bool again = RetryBudgets::IsFree(end.cause) ||
                     spent_[id].Charge(end.cause, job->max_attempts);
  out->attempts_finished.push_back(std::move(end));
  if (again) {
    SetState(id, job, JobState::kReady, out);
  } else {
    Fail(id, job, out);
  }
}

// ---- workers
// ------------------------------------------------------------------------------------------------------

Core::Worker* Core::Hear(WorkerId id, int64_t now_us) {
  const auto found = workers_.find(id);
  if (found == workers_.end()) return nullptr;
  Worker* worker = &found->second;
  worker->heard_us = now_us;
  worker->connected = !worker->restored;
  return worker;
}

void Core::Retire(WorkerId worker, const WorkerRegistered& event,
                  Effects* out) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return;
  const std::set<JobId> held = found->second.held;
  for (const JobId id : held) {
    Job* job = Find(id);
    const LeaseRef lease{id, job->last_attempt};
    const auto still = std::find_if(
        event.held.begin(), event.held.end(),
        [&](const LeaseProgress& progress) { return progress.lease == lease; });
    if (still != event.held.end()) continue;
    AttemptFinished end;
    end.outcome = AttemptOutcome::kReleased;
    end.cause = Cause::kUndelivered;
    if (event.predecessor.lease == lease) {
      end.cause = event.predecessor_cause;
      end.message = event.predecessor_message;
      end.log = event.predecessor_log;
      end.steps_run = event.predecessor.steps_run;
      if (end.cause != Cause::kPreempted) end.outcome = AttemptOutcome::kFailed;
      if (event.predecessor.checkpointed) NoteCheckpoint(id);
    }
    EndWithoutResult(id, job, std::move(end), out);
  }
  DropPolls(worker, /*unknown_worker=*/true, out);
}

void Core::On(const WorkerRegistered& event, int64_t now_us, Effects* out) {
  std::set<JobId> kept;
  const auto previous = worker_of_slot_.find(event.slot);
  if (previous != worker_of_slot_.end()) {
    const WorkerId old = previous->second;
    Retire(old, event, out);
    if (const auto found = workers_.find(old); found != workers_.end())
      kept = found->second.held;
    workers_.erase(old);
  }
  Worker& worker = workers_[event.worker];
  worker.slot = event.slot;
  worker.stages = event.stages;
  worker.held = kept;
  worker_of_slot_[event.slot] = event.worker;
  Hear(event.worker, now_us);
  for (const JobId id : kept) leases_.at(id).holder = event.worker;
  for (const LeaseProgress& progress : event.held) {
    if (!Renew(event.worker, progress, now_us))
      out->revoked.push_back(progress.lease);
  }
}

void Core::NoteCheckpoint(JobId id) {
  Lease& lease = leases_.at(id);
  if (std::exchange(lease.checkpointed, true)) return;
  const auto spent = spent_.find(id);
  if (spent != spent_.end()) spent->second.Checkpointed();
}

bool Core::Renew(WorkerId worker, const LeaseProgress& progress,
                 int64_t now_us) {
  const JobId id = progress.lease.job;
  const auto found = leases_.find(id);
  if (found == leases_.end() || found->second.holder != worker ||
      Find(id)->last_attempt != progress.lease.attempt) {
    return false;
  }
  Lease& lease = found->second;
  deadlines_.erase({lease.deadline_us, id});
  lease.deadline_us = now_us + options_.lease_us;
  deadlines_.insert({lease.deadline_us, id});
  lease.confirmed = true;
  lease.waiting = progress.waiting;
  lease.steps_run = std::max(lease.steps_run, progress.steps_run);
  lease.steps_done = progress.steps_done;
  lease.steps_total = progress.steps_total;
  if (progress.checkpointed) NoteCheckpoint(id);
  return true;
}

void Core::On(const Synced& event, int64_t now_us, Effects* out) {
  const Worker* worker = Hear(event.worker, now_us);
  out->unknown_worker = worker == nullptr || worker->restored;
  if (worker == nullptr) return;
  out->drain = worker->draining;
  out->drain_now = worker->drain_now;
  for (const LeaseProgress& progress : event.held) {
    if (!Renew(event.worker, progress, now_us))
      out->revoked.push_back(progress.lease);
  }
}

void Core::On(const Completed& event, int64_t now_us, Effects* out) {
  const JobId id = event.lease.job;
  Job* job = Find(id);
  out->unknown_worker = Hear(event.worker, now_us) == nullptr;
  if (job == nullptr || event.lease.attempt != job->last_attempt)
    return;  // stale
  if (IsTerminal(job->state)) {
    if (job->state == JobState::kDone)
      out->verdict = Verdict::kAlreadyCommitted;
    return;
  }
  out->verdict = Verdict::kCommitted;
  AttemptFinished end;
  end.lease = event.lease;
  end.outcome = event.outcome;
  end.cause = event.cause;
  end.message = event.message;
  end.steps_run = event.steps_run;
  end.duration_us = event.duration_us;
  if (event.outcome == AttemptOutcome::kDone) {
    // Also after the lease ran out, as long as nobody else was given the job.
    if (job->state == JobState::kLeased) TakeLease(id);
    LearnCost(*job, event.duration_us);
    out->attempts_finished.push_back(std::move(end));
    CommitDone(id, job, out);
  } else if (job->state == JobState::kLeased) {
    EndWithoutResult(id, job, std::move(end), out);
  } else {
    out->verdict = Verdict::kStale;  // the failure of a lease that is over was
                                     // charged already
  }
}

void Core::On(const Released& event, int64_t /*now_us*/, Effects* out) {
  Job* job = Find(event.lease.job);
  if (job == nullptr || job->state != JobState::kLeased ||
      job->last_attempt != event.lease.attempt ||
      leases_.at(event.lease.job).holder != event.worker) {
    return;
  }
  AttemptFinished end;
  end.outcome = AttemptOutcome::kReleased;
  end.cause = event.cause;
  end.steps_run = event.steps_run;
  EndWithoutResult(event.lease.job, job, std::move(end), out);
}

void Core::On(const Departed& event, int64_t /*now_us*/, Effects* out) {
  const auto worker = workers_.find(event.worker);
  if (worker == workers_.end()) return;
  worker->second.connected = false;
  DropPolls(event.worker, /*unknown_worker=*/false, out);
}

void Core::On(const DrainRequested& event, int64_t /*now_us*/, Effects* out) {
  for (const WorkerId id : event.workers) {
    const auto worker = workers_.find(id);
    if (worker == workers_.end()) continue;
    worker->second.draining = true;
    worker->second.drain_now |= event.now;
    DropPolls(id, /*unknown_worker=*/false, out);
  }
}

// ---- restart and inspection
// ---------------------------------------------------------------------------------------

void Core::RestoreLease(LeaseRef lease, WorkerId worker_id,
                        const std::string& slot, int64_t now_us) {
  Job* job = Find(lease.job);
  if (job == nullptr || job->state != JobState::kReady ||
      job->last_attempt != lease.attempt)
    return;
  Effects unwritten;  // the row says leased already
  SetState(lease.job, job, JobState::kLeased, &unwritten);
  // Whether it had begun is not on disk: a heartbeat will tell.
  Lease& held = leases_[lease.job];
  held.holder = worker_id;
  held.deadline_us = now_us + options_.lease_us;
  deadlines_.insert({held.deadline_us, lease.job});
  Worker& worker = workers_[worker_id];
  worker.slot = slot;
  worker.restored = true;  // what it can run is not on disk
  worker.held.insert(lease.job);
  worker_of_slot_[slot] = worker_id;
}

void Core::RestoreBudget(JobId id, Cause cause, uint32_t spent) {
  if (Find(id) != nullptr) spent_[id].Restore(cause, spent);
}

}  // namespace iclsweep
