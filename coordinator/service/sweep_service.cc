#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/existing_model.h"
#include "coordinator/service/explain.h"
#include "coordinator/service/forecast.h"
#include "coordinator/service/reactors.h"
#include "coordinator/service/services.h"
#include "coordinator/spec/freeze.h"
#include "proto/base/status_macros.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {
namespace {

absl::Status AddFailures(Database* database, v1::SweepStatus* sweep) {
  const bool any = std::any_of(
      sweep->stages().begin(), sweep->stages().end(),
      [](const v1::StageProgress& stage) { return stage.failed() > 0; });
  if (!any) return absl::OkStatus();
  Statement query = database->Prepare(
      "SELECT cell, stage, cause, message FROM failures WHERE sweep = ? AND "
      "state = 'failed' ORDER BY cell LIMIT 3");
  query.Bind(sweep->name());
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return absl::OkStatus();
    sweep->add_first_failures(absl::StrCat("cell ", query.Integer(0), ", ",
                                           query.Text(1), ": ", query.Text(2),
                                           ": ", query.Text(3)));
  }
}

absl::Status AddStages(Database* database, v1::SweepStatus* sweep) {
  Statement query = database->Prepare(
      "SELECT stage, jobs, done, failed, leased, ready, blocked, "
      "upstream_failed FROM progress WHERE sweep = ?");
  query.Bind(sweep->name());
  bool finished = !sweep->expanding();
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) break;
    v1::StageProgress* stage = sweep->add_stages();
    stage->set_stage(query.Text(0));
    stage->set_total(static_cast<uint64_t>(query.Integer(1)));
    stage->set_done(static_cast<uint64_t>(query.Integer(2)));
    stage->set_failed(static_cast<uint64_t>(query.Integer(3)));
    stage->set_leased(static_cast<uint64_t>(query.Integer(4)));
    stage->set_ready(static_cast<uint64_t>(query.Integer(5)));
    stage->set_blocked(static_cast<uint64_t>(query.Integer(6)));
    stage->set_upstream_failed(static_cast<uint64_t>(query.Integer(7)));
    finished &= stage->done() + stage->failed() + stage->upstream_failed() ==
                stage->total();
  }
  // In the order in which they run.
  std::sort(sweep->mutable_stages()->pointer_begin(),
            sweep->mutable_stages()->pointer_end(),
            [](const v1::StageProgress* a, const v1::StageProgress* b) {
              return StageFromName(a->stage()) < StageFromName(b->stage());
            });
  sweep->set_finished(finished);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::SweepStatus> ReadSweepStatus(Database* database,
                                                const std::string& name) {
  Statement query = database->Prepare(
      "SELECT cells_total, cells_expanded < cells_total, sweep.submitted_us, "
      "sweep.cancelled_us != 0 FROM sweep JOIN sweep_revision USING (sweep_id, "
      "revision) WHERE name = ?");
  query.Bind(name);
  ASSIGN_OR_RETURN(const bool row, query.Step());
  if (!row)
    return absl::NotFoundError(absl::StrCat("there is no sweep '", name, "'"));
  v1::SweepStatus sweep;
  sweep.set_name(name);
  sweep.set_cells(static_cast<uint64_t>(query.Integer(0)));
  sweep.set_expanding(query.Integer(1) != 0);
  sweep.set_submitted_us(query.Integer(2));
  sweep.set_cancelled(query.Integer(3) != 0);
  RETURN_IF_ERROR(AddStages(database, &sweep));
  RETURN_IF_ERROR(AddFailures(database, &sweep));
  return sweep;
}

absl::StatusOr<v1::StatusResponse> ReadStatus(
    const std::string& database_file, const v1::StatusRequest& request) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenForReading(database_file));
  RETURN_IF_ERROR(
      database->Execute("BEGIN"));  // one moment for all the numbers
  ASSIGN_OR_RETURN(const std::string name,
                   SweepNamed(database.get(), request.sweep()));
  v1::StatusResponse response;
  ASSIGN_OR_RETURN(*response.add_sweeps(),
                   ReadSweepStatus(database.get(), name));
  return response;
}

namespace {

// Counts the jobs, and expects how long they will take.
absl::StatusOr<std::vector<ForecastRow>> LookAhead(
    const std::string& database_file, const SweepSpec& spec,
    v1::SubmitResponse* response) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenForReading(database_file));
  ASSIGN_OR_RETURN(const History history, ReadHistory(database.get()));
  ASSIGN_OR_RETURN(const std::vector<StageCount> counts,
                   CountStages(spec, history));
  uint64_t jobs = 0;
  uint64_t done = 0;
  for (const StageCount& count : counts) {
    jobs += count.jobs;
    done += count.done;
  }
  response->set_jobs(jobs);
  response->set_jobs_done(done);
  ASSIGN_OR_RETURN(const Forecast forecast,
                   MakeForecast(spec, counts, history));
  std::vector<ForecastRow> rows;
  rows.reserve(forecast.stages.size());
  for (const StageForecast& stage : forecast.stages)
    rows.push_back({stage.stage, stage.device_kind, stage.jobs, stage.seconds,
                    stage.low_seconds, stage.high_seconds});
  return rows;
}

}  // namespace

grpc::ServerUnaryReactor* SweepServiceImpl::Submit(
    grpc::CallbackServerContext* /*context*/, const v1::SubmitRequest* request,
    v1::SubmitResponse* response) {
  auto* reactor = new PostedReactor();
  ModelReader models(request->folder(), artifact_dir_);
  ParseOptions options;
  if (request->max_cells() != 0) options.max_cells = request->max_cells();
  options.read_model = [&](const std::string& checkpoint) {
    return models.Read(checkpoint);
  };
  absl::StatusOr<SweepSpec> spec =
      ParseSweep(request->sweep_yaml(), request->file_name(), options);
  absl::Status status = spec.status();
  absl::StatusOr<std::vector<ForecastRow>> forecast =
      std::vector<ForecastRow>();
  if (status.ok()) {
    forecast = LookAhead(database_file_, *spec, response);
    status = forecast.status();
  }
  if (status.ok()) status = models.CopyAll();
  if (!status.ok()) {
    reactor->Done()(status);
    return reactor;
  }
  // Read again after a restart, when a folder it names may be gone.
  std::string yaml =
      spec->models.empty() ? request->sweep_yaml() : CanonicalJson(*spec);
  loop_->Post(SubmitCall{*std::move(spec), std::move(yaml),
                         *std::move(forecast), response, reactor->Done()});
  return reactor;
}

void SweepServiceImpl::AddLive(v1::SweepStatus* status) const {
  const auto [done, total] = loop_->running_steps();
  status->set_running_steps_done(done);
  status->set_running_steps_total(total);
  for (v1::StageProgress& progress : *status->mutable_stages()) {
    const std::optional<Stage> stage = StageFromName(progress.stage());
    if (stage.has_value()) progress.set_mean_job_us(loop_->mean_job_us(*stage));
  }
}

void SweepServiceImpl::Complete(v1::WatchResponse* response) const {
  AddLive(response->mutable_status());
  response->set_workers(loop_->workers());
}

grpc::ServerUnaryReactor* SweepServiceImpl::Status(
    grpc::CallbackServerContext* /*context*/, const v1::StatusRequest* request,
    v1::StatusResponse* response) {
  auto* reactor = new PostedReactor();
  absl::StatusOr<v1::StatusResponse> read =
      ReadStatus(database_file_, *request);
  const absl::Status status = read.status();
  if (status.ok()) {
    *response = *std::move(read);
    response->set_workers(loop_->workers());
    response->set_epoch(loop_->epoch());
    AddLive(response->mutable_sweeps(0));
  }
  reactor->Done()(status);
  return reactor;
}

grpc::ServerUnaryReactor* SweepServiceImpl::Cancel(
    grpc::CallbackServerContext* /*context*/, const v1::CancelRequest* request,
    v1::CancelResponse* response) {
  return PostTo(loop_, request, response);
}

grpc::ServerUnaryReactor* SweepServiceImpl::Retry(
    grpc::CallbackServerContext* /*context*/, const v1::RetryRequest* request,
    v1::RetryResponse* response) {
  return PostTo(loop_, request, response);
}

grpc::ServerUnaryReactor* SweepServiceImpl::Explain(
    grpc::CallbackServerContext* /*context*/, const v1::ExplainRequest* request,
    v1::ExplainResponse* response) {
  auto* reactor = new PostedReactor();
  const absl::Status status = FindExplained(database_file_, *request, response);
  if (!status.ok()) {
    reactor->Done()(status);
    return reactor;
  }
  loop_->Post(ExplainCall{request, response, reactor->Done()});
  return reactor;
}

grpc::ServerUnaryReactor* SweepServiceImpl::ListWorkers(
    grpc::CallbackServerContext* /*context*/,
    const v1::ListWorkersRequest* request, v1::ListWorkersResponse* response) {
  return PostTo(loop_, request, response);
}

grpc::ServerUnaryReactor* SweepServiceImpl::Drain(
    grpc::CallbackServerContext* /*context*/, const v1::DrainRequest* request,
    v1::DrainResponse* response) {
  return PostTo(loop_, request, response);
}

grpc::ServerWriteReactor<v1::WatchResponse>* SweepServiceImpl::Watch(
    grpc::CallbackServerContext* /*context*/, const v1::WatchRequest* request) {
  return watches_.Start(*request);
}

}  // namespace iclsweep
