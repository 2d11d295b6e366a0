// What the loop answers about workers, and why things are where they are.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/loop/loop.h"
#include "proto/base/status_macros.h"

namespace iclsweep {

absl::Status Loop::TellOfWorker(absl::string_view kind, WorkerId worker) {
  const auto facts = workers_told_.find(worker);
  const std::string name =
      facts == workers_told_.end() ? "" : facts->second.told.slot_name();
  return Tell({std::string(kind), {}, {}, worker, name});
}

v1::WorkerState Loop::StateOf(const WorkerView& view) const {
  v1::WorkerState state;
  state.set_worker_id(view.id.value);
  const auto facts = workers_told_.find(view.id);
  if (facts != workers_told_.end()) {
    const v1::RegisterRequest& told = facts->second.told;
    state.set_name(told.slot_name());
    state.set_pid(told.pid());
    state.set_host(told.provenance().host());
    state.set_device_kind(told.provenance().device_kind());
    state.set_threads(told.provenance().threads());
    state.set_build(told.provenance().build());
    state.set_jobs_done(facts->second.jobs_done);
    state.set_registered_us(facts->second.registered_us);
  }
  state.set_waiting(view.waiting);
  if (view.running.has_value()) {
    const LeaseProgress& running = *view.running;
    state.set_job_id(running.lease.job.value);
    state.set_attempt(running.lease.attempt);
    state.set_stage(std::string(StageName(core_.StageOf(running.lease.job))));
    state.set_steps_done(running.steps_done);
    state.set_steps_total(running.steps_total);
  }
  const int64_t silent_us = clock_->MonotonicMicros() - view.heard_us;
  if (view.heard_us != 0)
    state.set_silent_ms(
        static_cast<uint64_t>(std::max<int64_t>(silent_us, 0) / 1000));
  const bool busy = view.running.has_value() || view.waiting > 0;
  state.set_state(!view.connected ? "silent"
                  : view.draining ? "draining"
                  : busy          ? "running"
                                  : "idle");
  state.set_reason(core_.ExplainWorker(view.id));
  return state;
}

std::vector<WorkerView> Loop::WorkersNamed(absl::string_view name) const {
  std::vector<WorkerView> named = core_.Workers();
  int64_t id = 0;
  const bool is_id = absl::SimpleAtoi(name, &id);
  std::erase_if(named, [&](const WorkerView& view) {
    if (is_id) return view.id.value != id;
    const auto facts = workers_told_.find(view.id);
    return facts == workers_told_.end() ||
           (facts->second.told.slot_name() != name &&
            facts->second.told.provenance().host() != name);
  });
  return named;
}

absl::Status Loop::NoSuchWorker(absl::string_view name) const {
  constexpr size_t shown = 10;
  std::vector<std::string> known;
  for (const WorkerView& view : core_.Workers()) {
    if (known.size() == shown) {
      known.emplace_back("...");
      break;
    }
    known.push_back(
        absl::StrCat(view.id.value, " (", StateOf(view).name(), ")"));
  }
  return absl::NotFoundError(absl::StrCat(
      "there is no worker, and no host of one, named '", name, "'; ",
      known.empty() ? "none is connected"
                    : absl::StrCat("there are ", absl::StrJoin(known, ", "))));
}

absl::Status Loop::Handle(ListWorkersCall& call) {
  for (const WorkerView& view : core_.Workers())
    *call.response->add_workers() = StateOf(view);
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

absl::Status Loop::Handle(DrainCall& call) {
  DrainRequested event;
  event.now = call.request->now();
  std::set<WorkerId> chosen;
  for (const std::string& name : call.request->workers()) {
    const std::vector<WorkerView> named = WorkersNamed(name);
    if (named.empty()) {
      Reply(std::move(call.done), NoSuchWorker(name));
      return absl::OkStatus();
    }
    for (const WorkerView& view : named) chosen.insert(view.id);
  }
  for (const WorkerView& view : core_.Workers()) {
    if (call.request->all() || chosen.contains(view.id))
      event.workers.push_back(view.id);
  }
  RETURN_IF_ERROR(Apply(event).status());
  for (const WorkerId worker : event.workers)
    RETURN_IF_ERROR(TellOfWorker("worker_draining", worker));
  for (const WorkerView& view : core_.Workers()) {
    if (std::find(event.workers.begin(), event.workers.end(), view.id) !=
        event.workers.end())
      *call.response->add_workers() = StateOf(view);
  }
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

absl::Status Loop::ExplainSweep(const v1::ExplainRequest& request,
                                v1::ExplainResponse* response) {
  ASSIGN_OR_RETURN(const std::optional<SweepRow> row,
                   store_->FindSweep(response->sweep()));
  if (!row.has_value()) return absl::OkStatus();
  if (row->cancelled_us != 0) {
    response->set_note("it is cancelled: submit its file again to go on");
  } else if (row->cells_expanded < row->cells_total) {
    response->set_note(
        absl::StrCat("it is still expanding: ", row->cells_expanded, " of ",
                     row->cells_total, " cells have their jobs"));
  } else if (IsFinished(row->id)) {
    response->set_note("it is finished");
  }
  if (request.target_case() != v1::ExplainRequest::TARGET_NOT_SET)
    return absl::OkStatus();
  for (const JobGroup& group : core_.GroupsOf(row->id)) {
    v1::ExplainedJob* job = response->add_jobs();
    job->set_job_id(group.first.value);
    job->set_stage(std::string(StageName(group.stage)));
    job->set_jobs(group.jobs);
  }
  return absl::OkStatus();
}

// The response names the sweep, and holds the jobs asked for as the database
// has them.
absl::Status Loop::Handle(ExplainCall& call) {
  const v1::ExplainRequest& request = *call.request;
  v1::ExplainResponse* response = call.response;
  if (request.target_case() == v1::ExplainRequest::kWorker) {
    const std::vector<WorkerView> named = WorkersNamed(request.worker());
    for (const WorkerView& view : named)
      *response->add_workers() = StateOf(view);
    Reply(std::move(call.done),
          named.empty() ? NoSuchWorker(request.worker()) : absl::OkStatus());
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(ExplainSweep(request, response));
  for (v1::ExplainedJob& job : *response->mutable_jobs()) {
    const JobId id{job.job_id()};
    const std::string stored = job.reason();
    if (core_.Knows(id))
      job.set_state(std::string(JobStateName(core_.StateOf(id))));
    job.set_reason(
        absl::StrCat(core_.Explain(id), stored.empty() ? "" : ": ", stored));
  }
  Reply(std::move(call.done), absl::OkStatus());
  return absl::OkStatus();
}

}  // namespace iclsweep
