// iclsweep status: where a sweep stands, from its coordinator or from the
// database itself.
#include <memory>

#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/failures.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/sweep_json.h"
#include "coordinator/service/server.h"
#include "coordinator/service/services.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

void PrintStatus(const v1::StatusResponse& response, bool from_coordinator,
                 const std::string& data) {
  for (const v1::SweepStatus& sweep : response.sweeps()) {
    const std::string failures = FailureSummary(sweep);
    absl::PrintF("sweep %s: %d cells%s%s%s%s%s\n\n", sweep.name(),
                 sweep.cells(), sweep.cancelled() ? ", cancelled" : "",
                 sweep.expanding() ? ", still expanding" : "",
                 sweep.finished() ? ", finished" : "",
                 failures.empty() ? "" : ", ", failures);
    absl::PrintF("%-10s %10s %10s %10s %10s %10s %10s %16s\n", "stage", "jobs",
                 "done", "failed", "leased", "ready", "blocked",
                 "upstream failed");
    for (const v1::StageProgress& stage : sweep.stages()) {
      absl::PrintF("%-10s %10d %10d %10d %10d %10d %10d %16d\n", stage.stage(),
                   stage.total(), stage.done(), stage.failed(), stage.leased(),
                   stage.ready(), stage.blocked(), stage.upstream_failed());
    }
    PrintFailures(sweep, data, stdout);
  }
  if (from_coordinator)
    absl::PrintF("\n%d workers connected\n", response.workers());
}

absl::Status Status(const std::string& sweep, const CommandContext& context) {
  v1::StatusResponse response;
  if (context.coordinator.empty()) {
    RETURN_IF_ERROR(OpenResults(context).status());
    v1::StatusRequest request;
    request.set_sweep(sweep);
    ASSIGN_OR_RETURN(response,
                     ReadStatus(DatabaseFile(context.data_dir), request));
  } else {
    SweepClient client(context.coordinator);
    ASSIGN_OR_RETURN(response, client.Status(sweep));
  }
  const bool from_coordinator = !context.coordinator.empty();
  if (context.json) {
    absl::PrintF("%s\n", StatusJson(response, from_coordinator));
  } else {
    PrintStatus(
        response, from_coordinator,
        from_coordinator ? "DIR (the coordinator's)" : context.data_dir);
  }
  return absl::OkStatus();
}

}  // namespace

void AddStatus(CLI::App* app, CommandContext* context) {
  auto sweep = std::make_shared<std::string>();
  Command command(app, context, "status",
                  "Where a sweep stands: from --coordinator, else from the "
                  "database in --data.");
  command.Positional("sweep", sweep.get(),
                     "name of the sweep; default: the newest");
  command.Data();
  command.Coordinator();
  command.Json();
  command.Run([sweep, context] { return ExitCode(Status(*sweep, *context)); });
}

}  // namespace iclsweep
