#include "coordinator/cli/sweep_json.h"

#include "nlohmann/json.hpp"

namespace iclsweep {
namespace {

using nlohmann::json;

std::string Text(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

json Counts(const v1::StageProgress& stage) {
  return {{"jobs", stage.total()},
          {"done", stage.done()},
          {"failed", stage.failed()},
          {"leased", stage.leased()},
          {"ready", stage.ready()},
          {"blocked", stage.blocked()},
          {"upstream_failed", stage.upstream_failed()}};
}

json Sweep(const v1::SweepStatus& status) {
  v1::StageProgress all;
  json stages = json::array();
  for (const v1::StageProgress& stage : status.stages()) {
    json counts = Counts(stage);
    counts["stage"] = stage.stage();
    counts["mean_job_us"] = stage.mean_job_us();
    stages.push_back(std::move(counts));
    all.set_total(all.total() + stage.total());
    all.set_done(all.done() + stage.done());
    all.set_failed(all.failed() + stage.failed());
    all.set_leased(all.leased() + stage.leased());
    all.set_ready(all.ready() + stage.ready());
    all.set_blocked(all.blocked() + stage.blocked());
    all.set_upstream_failed(all.upstream_failed() + stage.upstream_failed());
  }
  json sweep = Counts(all);
  sweep["sweep"] = status.name();
  sweep["cells"] = status.cells();
  sweep["expanding"] = status.expanding();
  sweep["finished"] = status.finished();
  sweep["cancelled"] = status.cancelled();
  sweep["submitted_us"] = status.submitted_us();
  sweep["stages"] = std::move(stages);
  sweep["first_failures"] = json::array();
  for (const std::string& failure : status.first_failures())
    sweep["first_failures"].push_back(failure);
  sweep["running_steps_done"] = status.running_steps_done();
  sweep["running_steps_total"] = status.running_steps_total();
  return sweep;
}

json Worker(const v1::WorkerState& worker) {
  return {{"worker_id", worker.worker_id()},
          {"name", worker.name()},
          {"host", worker.host()},
          {"device_kind", worker.device_kind()},
          {"threads", worker.threads()},
          {"pid", worker.pid()},
          {"build", worker.build()},
          {"state", worker.state()},
          {"reason", worker.reason()},
          {"silent_ms", worker.silent_ms()},
          {"jobs_done", worker.jobs_done()},
          {"registered_us", worker.registered_us()},
          {"job_id", worker.job_id()},
          {"attempt", worker.attempt()},
          {"stage", worker.stage()},
          {"steps_done", worker.steps_done()},
          {"steps_total", worker.steps_total()},
          {"waiting", worker.waiting()}};
}

}  // namespace

std::string SweepJson(const v1::SweepStatus& status) {
  return Text(Sweep(status));
}

std::string StatusJson(const v1::StatusResponse& response,
                       bool from_coordinator) {
  json document = {{"sweeps", json::array()}};
  for (const v1::SweepStatus& status : response.sweeps())
    document["sweeps"].push_back(Sweep(status));
  if (from_coordinator) {
    document["workers"] = response.workers();
    document["epoch"] = response.epoch();
  }
  return Text(document);
}

std::string SubmittedJson(const v1::SubmitResponse& response) {
  return Text({{"sweep", response.name()},
               {"resumed", response.resumed()},
               {"cells", response.cells()},
               {"jobs", response.jobs()},
               {"done", response.jobs_done()}});
}

std::string CancelledJson(const std::string& sweep,
                          const v1::CancelResponse& response) {
  return Text({{"sweep", sweep},
               {"already_cancelled", response.already_cancelled()},
               {"jobs_stopped", response.jobs_stopped()},
               {"jobs_open", response.jobs_open()}});
}

std::string RetriedJson(const std::string& sweep,
                        const v1::RetryResponse& response) {
  return Text({{"sweep", sweep},
               {"jobs", response.jobs()},
               {"cancelled", response.cancelled()}});
}

std::string WorkerJson(const v1::WorkerState& worker) {
  return Text(Worker(worker));
}

std::string EventJson(const v1::Event& event) {
  return Text({{"sequence", event.sequence()},
               {"at_us", event.at_us()},
               {"kind", event.kind()},
               {"sweep", event.sweep()},
               {"job_id", event.job_id()},
               {"stage", event.stage()},
               {"attempt", event.attempt()},
               {"worker_id", event.worker_id()},
               {"text", event.text()}});
}

std::string ProgressJson(const v1::WatchResponse& response) {
  json document = Sweep(response.status());
  document["kind"] = "progress";
  document["sequence"] = response.sequence();
  document["workers"] = response.workers();
  return Text(document);
}

std::string ExplainedJson(const v1::ExplainResponse& response) {
  json document = {{"sweep", response.sweep()},
                   {"note", response.note()},
                   {"jobs", json::array()},
                   {"workers", json::array()}};
  for (const v1::ExplainedJob& job : response.jobs()) {
    document["jobs"].push_back({{"job_id", job.job_id()},
                                {"key", job.key()},
                                {"stage", job.stage()},
                                {"state", job.state()},
                                {"reason", job.reason()},
                                {"jobs", job.jobs()}});
  }
  for (const v1::WorkerState& worker : response.workers())
    document["workers"].push_back(Worker(worker));
  return Text(document);
}

}  // namespace iclsweep
