// iclsweep: launch sweeps, follow them, read their results. Wiring only.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/output.h"
#include "proto/base/build_info.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace {

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("iclsweep"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  iclsweep::CommandContext context;
  CLI::App app(
      "iclsweep: sweeps for in-context-learning research. Launch, query, "
      "resume.");
  app.set_version_flag(
      "--version", absl::StrCat("iclsweep ", iclsweep::ProgramVersion(), " (",
                                iclsweep::BuildVersion(), ")"));
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 all done, 1 finished with failed cells, 2 bad input, 3 "
      "cannot reach, open or write, 4 refused, "
      "130 interrupted (serve ends with 0 when it is told to stop).");
  for (const auto add :
       {iclsweep::AddRun, iclsweep::AddPlan, iclsweep::AddServe,
        iclsweep::AddSubmit, iclsweep::AddStatus, iclsweep::AddWait,
        iclsweep::AddWatch, iclsweep::AddExplain, iclsweep::AddLogs,
        iclsweep::AddWorkers, iclsweep::AddDrain, iclsweep::AddCancel,
        iclsweep::AddRetry, iclsweep::AddResults, iclsweep::AddQuery,
        iclsweep::AddExport, iclsweep::AddVersion}) {
    add(&app, &context);
  }
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return absl::StrCat("iclsweep: ", error.what(), " (--help says more)\n");
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> words = app.remaining();
    if (error.get_name() == "RequiredError" && app.get_subcommands().empty()) {
      return iclsweep::Fail(iclsweep::UnknownCommand(
          words.empty() ? "" : words.front(), CommandNames(app)));
    }
    return iclsweep::FinishOutput(app.exit(error) == 0 ? iclsweep::kAllDone
                                                       : iclsweep::kBadInput);
  }
  return iclsweep::FinishOutput(context.exit_code);
}
