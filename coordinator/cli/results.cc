// iclsweep results: the headline tables, or the rows of one stage, predictor or
// name.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/headline.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/result_rows.h"
#include "coordinator/cli/table.h"
#include "coordinator/service/server.h"
#include "proto/base/status_macros.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {
namespace {

struct ResultsArguments {
  std::string sweep;
  ResultFilter filter;
};

absl::Status Results(const ResultsArguments& arguments,
                     const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenResults(context));
  ASSIGN_OR_RETURN(const std::string sweep,
                   ResolveSweepName(database.get(), arguments.sweep));
  const ResultFilter& filter = arguments.filter;
  ASSIGN_OR_RETURN(const bool any,
                   HasResultRows(database.get(), sweep, filter));
  if (!any) {
    if (!context.json) {
      absl::PrintF("no result of %ssweep %s is stored yet\n",
                   filter.stage.empty()
                       ? ""
                       : absl::StrCat("stage ", filter.stage, " of "),
                   sweep);
    }
    return absl::OkStatus();
  }
  if (IsEmpty(filter))
    return PrintHeadlines(database.get(), sweep, context.json);
  ASSIGN_OR_RETURN(Statement query,
                   database->PrepareQuery(ResultRowsSql(sweep, filter)));
  PrintOptions options;
  options.format = FormatFor(context.json);
  return PrintRows(&query, options, stdout).status();
}

}  // namespace

void AddResults(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<ResultsArguments>();
  Command command(
      app, context, "results",
      "Headline tables of a sweep, each with the query that made it; with one "
      "of --stage, --predictor, --name, --limit its rows instead.");
  command.Positional("sweep", &arguments->sweep,
                     "name of the sweep; default: the newest");
  AddResultFilter(&command, &arguments->filter);
  command.Data();
  command.Json();
  command.Run(
      [arguments, context] { return ExitCode(Results(*arguments, *context)); });
}

}  // namespace iclsweep
