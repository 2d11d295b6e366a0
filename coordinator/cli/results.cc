// iclsweep results: the headline tables, or the rows of one stage, predictor or
// name.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/headline.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/table.h"
#include "coordinator/service/server.h"
#include "proto/base/status_macros.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {
namespace {

struct ResultsArguments {
  std::string sweep;
  std::string stage;
  std::string predictor;
  std::string name;
};

std::string Equals(const std::string& column, const std::string& value) {
  if (value.empty()) return "";
  return absl::StrCat(" AND ", column, " = '",
                      absl::StrReplaceAll(value, {{"'", "''"}}), "'");
}

absl::Status Results(const ResultsArguments& arguments,
                     const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenResults(context));
  ASSIGN_OR_RETURN(const std::string sweep,
                   ResolveSweepName(database.get(), arguments.sweep));
  if (arguments.stage.empty() && arguments.predictor.empty() &&
      arguments.name.empty()) {
    return PrintHeadlines(database.get(), sweep, context.json);
  }
  const std::string sql = absl::StrCat(
      "SELECT * FROM results WHERE 1", Equals("sweep", sweep),
      Equals("stage", arguments.stage),
      Equals("predictor", arguments.predictor), Equals("name", arguments.name));
  ASSIGN_OR_RETURN(Statement query, database->PrepareQuery(sql));
  PrintOptions options;
  options.format = FormatFor(context.json);
  return PrintRows(&query, options, stdout).status();
}

}  // namespace

void AddResults(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<ResultsArguments>();
  Command command(
      app, context, "results",
      "Headline tables of a sweep, each with the query that made it.");
  command.Positional("sweep", &arguments->sweep,
                     "name of the sweep; default: the newest");
  command.Text("--stage", &arguments->stage,
               "rows of one stage instead: train, evaluate, compare, theory");
  command.Text("--predictor", &arguments->predictor,
               "rows of one predictor: model, zero, least_squares, msa, ...");
  command.Text("--name", &arguments->name,
               "rows of one measurement: G, E_final, F, simaou_raw, ...");
  command.Data();
  command.Json();
  command.Run(
      [arguments, context] { return ExitCode(Results(*arguments, *context)); });
}

}  // namespace iclsweep
