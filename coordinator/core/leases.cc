// Handing out leases, and taking them back when they run out.
#include <algorithm>
#include <utility>

#include "coordinator/core/core.h"

namespace iclsweep {

void Core::AnswerEmpty(const Poll& poll, bool unknown_worker, Effects* out) {
  out->answers.push_back({poll.worker, poll.request, {}, unknown_worker});
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
    out->answers.push_back(
        {event.worker, event.request, worker->last_leases, false});
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
  if (event.wait_until_us <= now_us && !NextReady(worker->stages)) {
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

JobId Core::NextReady(uint32_t stages) const {
  JobId best;
  for (size_t stage = 0; stage < ready_.size(); ++stage) {
    if ((stages & (1U << stage)) == 0 || ready_[stage].empty()) continue;
    const JobId first = *ready_[stage].begin();
    if (!best || first < best) best = first;
  }
  return best;
}

void Core::Grant(const Poll& poll, int64_t now_us, Effects* out) {
  Worker& worker = workers_.at(poll.worker);
  LeaseAnswered answer{poll.worker, poll.request, {}, false};
  while (answer.leases.size() < std::max(poll.max_jobs, 1U)) {
    const JobId id = NextReady(worker.stages);
    if (!id) break;
    Job* job = Find(id);
    SetState(id, job, JobState::kLeased, out);
    ++job->last_attempt;
    job->holder = poll.worker;
    job->deadline_us = now_us + options_.lease_us;
    job->confirmed = false;
    job->steps_run = 0;
    job->checkpointed = false;
    deadlines_.insert({job->deadline_us, id});
    worker.held.insert(id);
    out->attempts_started.push_back({{id, job->last_attempt}, poll.worker});
    answer.leases.push_back({id, job->last_attempt});
  }
  worker.last_request = poll.request;
  worker.last_leases = answer.leases;
  out->answers.push_back(std::move(answer));
}

void Core::ServePolls(int64_t now_us, Effects* out) {
  for (auto poll = polls_.begin(); poll != polls_.end() && ready_jobs() > 0;) {
    if (NextReady(workers_.at(poll->worker).stages)) {
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
    AttemptFinished end;
    end.cause = job->confirmed ? Cause::kLost : Cause::kUndelivered;
    end.outcome =
        job->confirmed ? AttemptOutcome::kFailed : AttemptOutcome::kReleased;
    end.message = job->confirmed ? "the lease ran out: no heartbeat"
                                 : "no heartbeat ever named this lease";
    EndWithoutResult(id, job, std::move(end), out);
  }
  for (auto& [id, worker] : workers_) {
    if (worker.heard_us + options_.lease_us <= now_us) worker.connected = false;
  }
  for (const Poll& poll : polls_) {
    if (poll.until_us <= now_us) AnswerEmpty(poll, false, out);
  }
  std::erase_if(polls_,
                [now_us](const Poll& poll) { return poll.until_us <= now_us; });
}

}  // namespace iclsweep
