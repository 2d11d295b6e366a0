// iclsweep cancel: stop a sweep. Nothing that is stored is lost.
#include <memory>

#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/sweep_json.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

absl::Status Cancel(const std::string& sweep, const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::string address, FindCoordinator(context));
  SweepClient client(address);
  ASSIGN_OR_RETURN(const v1::CancelResponse response, client.Cancel(sweep));
  if (context.json) {
    absl::PrintF("%s\n", CancelledJson(sweep, response));
    return absl::OkStatus();
  }
  if (response.already_cancelled()) {
    absl::PrintF("sweep %s was cancelled before; %d jobs are left\n", sweep,
                 response.jobs_open());
    return absl::OkStatus();
  }
  absl::PrintF(
      "sweep %s cancelled: %d running jobs stopped, %d jobs left; submit its "
      "file again to go on\n",
      sweep, response.jobs_stopped(), response.jobs_open());
  return absl::OkStatus();
}

}  // namespace

void AddCancel(CLI::App* app, CommandContext* context) {
  auto sweep = std::make_shared<std::string>();
  Command command(app, context, "cancel",
                  "Stop a sweep: its results stay, and submitting it again "
                  "goes on. Jobs that another sweep wants run on.");
  command.Positional("sweep", sweep.get(), "name of the sweep",
                     /*required=*/true);
  command.Coordinator();
  command.Data();
  command.Json();
  command.Run([sweep, context] { return ExitCode(Cancel(*sweep, *context)); });
}

}  // namespace iclsweep
