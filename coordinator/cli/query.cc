// iclsweep query: plain SQL on the results database, read-only.
#include <memory>

#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/table.h"
#include "coordinator/service/server.h"
#include "proto/base/status_macros.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {
namespace {

absl::Status Query(const std::string& sql, const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenResults(context));
  ASSIGN_OR_RETURN(Statement query, database->PrepareQuery(sql));
  PrintOptions options;
  options.format = FormatFor(context.json);
  return PrintRows(&query, options, stdout).status();
}

}  // namespace

void AddQuery(CLI::App* app, CommandContext* context) {
  auto sql = std::make_shared<std::string>();
  Command command(app, context, "query",
                  "Run one reading SQL statement; the views are results, "
                  "cells, progress, attempts, failures, best, "
                  "forecasts.");
  command.Positional("sql", sql.get(), "e.g. \"SELECT * FROM results LIMIT 5\"",
                     /*required=*/true);
  command.Data();
  command.Json();
  command.Run([sql, context] { return ExitCode(Query(*sql, *context)); });
}

}  // namespace iclsweep
