// iclsweep retry: run failed jobs of a sweep again.
#include <memory>

#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/sweep_json.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

struct RetryArguments {
  std::string sweep;
  bool failed = false;
  std::string cause;
};

absl::Status Retry(const RetryArguments& arguments,
                   const CommandContext& context) {
  if (arguments.failed == !arguments.cause.empty()) {
    return absl::InvalidArgumentError(
        "say which jobs: --failed for all that failed, or --cause C for those "
        "that failed of one cause");
  }
  ASSIGN_OR_RETURN(const std::string address, FindCoordinator(context));
  SweepClient client(address);
  ASSIGN_OR_RETURN(const v1::RetryResponse response,
                   client.Retry(arguments.sweep, arguments.cause));
  if (context.json) {
    absl::PrintF("%s\n", RetriedJson(arguments.sweep, response));
    return absl::OkStatus();
  }
  absl::PrintF("%d failed jobs of sweep %s run again%s\n", response.jobs(),
               arguments.sweep,
               response.cancelled()
                   ? " once it is submitted again: it is cancelled"
                   : "");
  return absl::OkStatus();
}

}  // namespace

void AddRetry(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<RetryArguments>();
  Command command(app, context, "retry",
                  "Run failed jobs of a sweep again, with all their attempts, "
                  "and what could not run because of them.");
  command.Positional("sweep", &arguments->sweep, "name of the sweep",
                     /*required=*/true);
  command.Flag("--failed", &arguments->failed, "every failed job");
  command.Choice("--cause", &arguments->cause,
                 {"invalid", "failed", "crashed", "lost", "timeout",
                  "out_of_memory", "device_error"},
                 "those whose last attempt failed of this");
  command.Coordinator();
  command.Data();
  command.Json();
  command.Run(
      [arguments, context] { return ExitCode(Retry(*arguments, *context)); });
}

}  // namespace iclsweep
