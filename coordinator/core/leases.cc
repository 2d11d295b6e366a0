// Handing out leases, and taking them back when they run out.
#include <algorithm>
#include <utility>

#include "coordinator/core/core.h"

namespace iclsweep {

void Core::AnswerEmpty(const Poll& poll, bool unknown_worker, Effects* out) {
  const auto worker = workers_.find(poll.worker);
  const bool drain = worker != workers_.end() && worker->second.draining;
  out->answers.push_back(
      {poll.worker, poll.request, {}, unknown_worker, drain});
}

void Core::DropPolls(WorkerId worker, bool unknown_worker, Effects* out) {
  for (const Poll& poll : polls_) {
    if (poll.worker == worker) AnswerEmpty(poll, unknown_worker, out);
  }
  std::erase_if(polls_,
                [worker](const Poll& poll) { return poll.worker == worker; });
}

void Core::On(const LeaseRequested& event, int64_t now_us, Effects* out) {
  const Poll poll{event.worker, event.request, event.max_jobs,
                  event.wait_until_us};
  const Worker* worker = Hear(event.worker, now_us);
  if (worker == nullptr || worker->restored) {
    AnswerEmpty(poll, /*unknown_worker=*/true, out);
    return;
  }
  if (!event.request.empty() && worker->last_request == event.request) {
    out->answers.push_back({event.worker, event.request, worker->last_leases,
                            false, worker->draining});
    return;
  }
  if (worker->draining) {
    AnswerEmpty(poll, false, out);
    return;
  }
  for (Poll& parked : polls_) {
    if (parked.worker != event.worker) continue;
    if (parked.request == event.request) {  // asked again: still one poll
      parked.until_us = event.wait_until_us;
      return;
    }
  }
  DropPolls(event.worker, false, out);  // its caller has moved on
  if (event.wait_until_us <= now_us && NextSource(*worker).sweep == nullptr) {
    AnswerEmpty(poll, false, out);
    return;
  }
  polls_.push_back(poll);
}

void Core::On(const LeaseAbandoned& event, int64_t /*now_us*/, Effects* out) {
  for (const Poll& poll : polls_) {
    if (poll.worker == event.worker && poll.request == event.request)
      AnswerEmpty(poll, false, out);
  }
  std::erase_if(polls_, [&](const Poll& poll) {
    return poll.worker == event.worker && poll.request == event.request;
  });
}

Core::Source Core::NextSource(const Worker& worker) {
  for (const SweepId id : offering_) {
    Sweep& sweep = sweeps_.at(id);
    if (!sweep.active) continue;
    const std::optional<ReadyQueue::Family> family =
        sweep.ready.First(worker.stages, worker.parent,
                          [this](JobId job) { return IsReady(job); });
    if (family.has_value()) return {&sweep, *family};
  }
  return {};
}

void Core::LearnCost(const Job& job, int64_t duration_us) {
  constexpr double weight = 0.125;  // of the newest
  const auto duration = static_cast<double>(std::max<int64_t>(duration_us, 1));
  for (const JobId parent : {JobId{}, job.parent}) {
    const auto [cost, first] =
        cost_us_.try_emplace({job.stage, parent}, duration);
    if (!first) cost->second += weight * (duration - cost->second);
    if (!job.parent) return;
  }
}

std::pair<uint64_t, uint64_t> Core::LeasedSteps() const {
  std::pair<uint64_t, uint64_t> steps;
  for (const auto& [id, lease] : leases_) {
    steps.first += lease.steps_done;
    steps.second += lease.steps_total;
  }
  return steps;
}

double Core::MeanCostUs(Stage stage) const {
  const auto cost = cost_us_.find({stage, JobId{}});
  return cost == cost_us_.end() ? 0 : cost->second;
}

uint64_t Core::BundleSize(const Source& source, uint32_t max_jobs) const {
  auto cost = cost_us_.find({source.family.stage, source.family.parent});
  if (cost == cost_us_.end()) cost = cost_us_.find({source.family.stage, {}});
  if (cost == cost_us_.end()) return 1;  // the stage's first job tells
  const auto by_time = static_cast<uint64_t>(
      static_cast<double>(options_.bundle_us) / cost->second);
  // A worker takes no more than its share, so that nobody idles at the end.
  const uint64_t ready =
      source.sweep->counts[static_cast<size_t>(source.family.stage)]
                          [static_cast<size_t>(JobState::kReady)];
  const uint64_t workers = std::max(connected_workers(), 1U);
  const uint64_t share = (ready + workers - 1) / workers;
  return std::max<uint64_t>(std::min({uint64_t{max_jobs}, by_time, share}), 1);
}

LeaseRef Core::StartAttempt(WorkerId worker, JobId id, int64_t now_us,
                            Effects* out) {
  Job* job = Find(id);
  SetState(id, job, JobState::kLeased, out);
  const LeaseRef lease{id, ++job->last_attempt};
  Lease& held = leases_[id];
  held.holder = worker;
  held.deadline_us = now_us + options_.lease_us;
  deadlines_.insert({held.deadline_us, id});
  workers_.at(worker).held.insert(id);
  out->attempts_started.push_back({lease, worker});
  return lease;
}

void Core::Grant(const Poll& poll, int64_t now_us, Effects* out) {
  Worker& worker = workers_.at(poll.worker);
  LeaseAnswered answer{poll.worker, poll.request, {}, false, false};
  const Source source = NextSource(worker);
  const uint64_t size = BundleSize(source, poll.max_jobs);
  const auto is_ready = [this](JobId job) { return IsReady(job); };
  while (answer.leases.size() < size) {
    const JobId id = source.sweep->ready.Pop(source.family, is_ready);
    if (!id) break;
    answer.leases.push_back(StartAttempt(poll.worker, id, now_us, out));
  }
  if (source.family.parent) worker.parent = source.family.parent;
  worker.last_request = poll.request;
  worker.last_leases = answer.leases;
  out->answers.push_back(std::move(answer));
}

void Core::ServePolls(int64_t now_us, Effects* out) {
  for (auto poll = polls_.begin(); poll != polls_.end();) {
    if (NextSource(workers_.at(poll->worker)).sweep != nullptr) {
      Grant(*poll, now_us, out);
      poll = polls_.erase(poll);
    } else {
      ++poll;
    }
  }
}

void Core::On(const Tick& /*event*/, int64_t now_us, Effects* out) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_us) {
    const JobId id = deadlines_.begin()->second;
    Job* job = Find(id);
    const Lease& lease = leases_.at(id);
    const bool begun = lease.confirmed && !lease.waiting;
    AttemptFinished end;
    end.cause = begun ? Cause::kLost : Cause::kUndelivered;
    end.outcome = begun ? AttemptOutcome::kFailed : AttemptOutcome::kReleased;
    end.message = begun             ? "the lease ran out: no heartbeat"
                  : lease.confirmed ? "the lease ran out before it was begun"
                                    : "no heartbeat named this lease";
    EndWithoutResult(id, job, std::move(end), out);
  }
  for (auto& [id, worker] : workers_) {
    if (worker.heard_us + options_.lease_us > now_us) continue;
    if (std::exchange(worker.connected, false)) out->silent.push_back(id);
  }
  for (const Poll& poll : polls_) {
    if (poll.until_us <= now_us) AnswerEmpty(poll, false, out);
  }
  std::erase_if(polls_,
                [now_us](const Poll& poll) { return poll.until_us <= now_us; });
}

}  // namespace iclsweep
