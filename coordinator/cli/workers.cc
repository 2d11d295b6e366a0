// iclsweep workers: who is connected, and what they run.
#include <memory>

#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/sweep_json.h"
#include "coordinator/cli/worker_table.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

absl::Status Workers(const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::string address, FindCoordinator(context));
  SweepClient client(address);
  ASSIGN_OR_RETURN(const v1::ListWorkersResponse response,
                   client.ListWorkers());
  if (context.json) {
    for (const v1::WorkerState& worker : response.workers())
      absl::PrintF("%s\n", WorkerJson(worker));
    return absl::OkStatus();
  }
  if (response.workers().empty()) {
    absl::PrintF("no worker is connected\n");
    return absl::OkStatus();
  }
  PrintWorkers(response.workers(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddWorkers(CLI::App* app, CommandContext* context) {
  Command command(app, context, "workers",
                  "Who is connected, and what they run.");
  command.Coordinator();
  command.Data();
  command.Json();
  command.Run([context] { return ExitCode(Workers(*context)); });
}

}  // namespace iclsweep
