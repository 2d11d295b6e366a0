// iclsweep submit: hand a sweep file to a running coordinator.
#include <memory>

#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/submitted.h"
#include "coordinator/cli/sweep_file.h"
#include "coordinator/cli/sweep_json.h"
#include "proto/base/status_macros.h"

namespace iclsweep {

void PrintSubmitted(const v1::SubmitResponse& response, std::FILE* out) {
  absl::FPrintF(out,
                "sweep %s %s: %d cells, %d jobs, %d of them done already\n",
                response.name(), response.resumed() ? "resumed" : "submitted",
                response.cells(), response.jobs(), response.jobs_done());
}

namespace {

struct SubmitArguments {
  std::string file;
  int64_t max_cells = 10'000'000;
};

absl::Status Submit(const SubmitArguments& arguments,
                    const CommandContext& context) {
  // Only one that is named: that of a `run` ends with its own sweep.
  if (context.coordinator.empty())
    return absl::InvalidArgumentError(
        "name the coordinator with --coordinator host:port, or "
        "ICLSWEEP_COORDINATOR");
  ASSIGN_OR_RETURN(const std::string address, FindCoordinator(context));
  ASSIGN_OR_RETURN(
      const GivenSweep given,
      ReadSweep(arguments.file, arguments.max_cells, /*artifact_dir=*/""));
  SweepClient client(address);
  ASSIGN_OR_RETURN(const v1::SubmitResponse response,
                   client.Submit(given.request));
  if (context.json) {
    absl::PrintF("%s\n", SubmittedJson(response));
    return absl::OkStatus();
  }
  PrintSubmitted(response, stderr);
  absl::PrintF("%s\n", response.name());
  return absl::OkStatus();
}

}  // namespace

void AddSubmit(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<SubmitArguments>();
  Command command(
      app, context, "submit",
      "Hand a sweep file to a coordinator; its name is the last line printed.");
  command.Positional("sweep", &arguments->file, "sweep file (YAML)",
                     /*required=*/true);
  command.Count("--max-cells", &arguments->max_cells, 1, kMostCells,
                "refuse larger grids");
  command.Coordinator();
  command.Json();
  command.Run(
      [arguments, context] { return ExitCode(Submit(*arguments, *context)); });
}

}  // namespace iclsweep
