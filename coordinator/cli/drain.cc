// iclsweep drain: let workers leave in order.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/sweep_json.h"
#include "coordinator/cli/worker_table.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

struct DrainArguments {
  std::vector<std::string> workers;
  bool all = false;
  bool now = false;
};

absl::Status Drain(const DrainArguments& arguments,
                   const CommandContext& context) {
  if (arguments.all != arguments.workers.empty()) {
    return absl::InvalidArgumentError(
        "say which workers: their ids, names or hosts (iclsweep workers), or "
        "--all");
  }
  ASSIGN_OR_RETURN(const std::string address, FindCoordinator(context));
  SweepClient client(address);
  v1::DrainRequest request;
  for (const std::string& worker : arguments.workers)
    request.add_workers(worker);
  request.set_all(arguments.all);
  request.set_now(arguments.now);
  ASSIGN_OR_RETURN(const v1::DrainResponse response, client.Drain(request));
  if (context.json) {
    for (const v1::WorkerState& worker : response.workers())
      absl::PrintF("%s\n", WorkerJson(worker));
    return absl::OkStatus();
  }
  absl::PrintF("%d workers leave %s\n", response.workers_size(),
               arguments.now ? "as soon as what they run is saved"
                             : "when what they run is done");
  if (!response.workers().empty()) PrintWorkers(response.workers(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddDrain(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<DrainArguments>();
  Command command(app, context, "drain",
                  "Let workers leave: they finish the job they run, give the "
                  "others back, and exit.");
  command.Positionals("worker", &arguments->workers,
                      "id, name or host of a worker");
  command.Flag("--all", &arguments->all, "every connected worker");
  command.Flag("--now", &arguments->now,
               "do not finish: save a checkpoint, give the job back, exit");
  command.Coordinator();
  command.Data();
  command.Json();
  command.Run(
      [arguments, context] { return ExitCode(Drain(*arguments, *context)); });
}

}  // namespace iclsweep
