// iclsweep explain: why a sweep, a cell, a job or a worker is where it is.
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/sweep_json.h"
#include "coordinator/cli/worker_table.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

struct ExplainArguments {
  std::string sweep;
  std::optional<int64_t> cell;
  std::string job;
  std::string worker;
};

absl::StatusOr<v1::ExplainRequest> RequestOf(const ExplainArguments& a) {
  v1::ExplainRequest request;
  request.set_sweep(a.sweep);
  const int targets = (a.cell.has_value() ? 1 : 0) + (a.job.empty() ? 0 : 1) +
                      (a.worker.empty() ? 0 : 1);
  if (targets > 1)
    return absl::InvalidArgumentError(
        "give one of --cell, --job and --worker, or none for the whole sweep");
  if (a.cell.has_value()) request.set_cell(static_cast<uint64_t>(*a.cell));
  if (!a.job.empty()) request.set_job(a.job);
  if (!a.worker.empty()) request.set_worker(a.worker);
  return request;
}

void PrintExplained(const v1::ExplainResponse& response) {
  if (!response.sweep().empty()) {
    absl::PrintF("sweep %s%s%s\n", response.sweep(),
                 response.note().empty() ? "" : ": ", response.note());
  }
  for (const v1::ExplainedJob& job : response.jobs()) {
    if (job.key().empty()) {
      absl::PrintF("%s: %d %s; job %d: %s\n", job.stage(), job.jobs(),
                   job.state(), job.job_id(), job.reason());
    } else {
      absl::PrintF("%s job %d (%s, key %s): %s\n", job.stage(), job.job_id(),
                   job.state(), job.key().substr(0, 12), job.reason());
    }
  }
  for (const v1::WorkerState& worker : response.workers()) {
    absl::PrintF("worker %d (%s, %s, build %s): %s\n", worker.worker_id(),
                 worker.name(), worker.device_kind(), worker.build(),
                 worker.reason());
    if (worker.job_id() != 0) absl::PrintF("runs %s\n", WhatItDoes(worker));
  }
}

absl::Status Explain(const ExplainArguments& arguments,
                     const CommandContext& context) {
  ASSIGN_OR_RETURN(const v1::ExplainRequest request, RequestOf(arguments));
  ASSIGN_OR_RETURN(const std::string address, FindCoordinator(context));
  SweepClient client(address);
  ASSIGN_OR_RETURN(const v1::ExplainResponse response, client.Explain(request));
  if (context.json) {
    absl::PrintF("%s\n", ExplainedJson(response));
  } else {
    PrintExplained(response);
  }
  return absl::OkStatus();
}

}  // namespace

void AddExplain(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<ExplainArguments>();
  Command command(app, context, "explain",
                  "Why a sweep, one of its cells, a job or a worker is where "
                  "it is.");
  command.Positional("sweep", &arguments->sweep,
                     "name of the sweep; default: the newest");
  command.Count("--cell", &arguments->cell, 0, kMostCells,
                "the jobs of the sweep's cell of that number");
  command.Text("--job", &arguments->job,
               "a job's id, or the beginning of its key");
  command.Text("--worker", &arguments->worker, "a worker's id, name or host");
  command.Coordinator();
  command.Data();
  command.Json();
  command.Run(
      [arguments, context] { return ExitCode(Explain(*arguments, *context)); });
}

}  // namespace iclsweep
