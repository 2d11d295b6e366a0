// iclsweep export: every result row of a sweep, or the canonical form by which
// two databases are compared.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/canonical_export.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/headline.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/table.h"
#include "coordinator/service/server.h"
#include "proto/base/status_macros.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {
namespace {

struct ExportArguments {
  std::string sweep;
  std::string format = "csv";
  std::string output;
  bool canonical = false;
};

absl::Status Write(const ExportArguments& arguments, Database* database,
                   const std::string& sweep, std::FILE* out) {
  if (arguments.canonical) return WriteCanonical(database, sweep, out);
  ASSIGN_OR_RETURN(Statement query,
                   database->PrepareQuery(absl::StrCat(
                       "SELECT * FROM results WHERE sweep = '", sweep,
                       "' ORDER BY cell, stage, predictor, name, task, "
                       "position, layer, head")));
  PrintOptions options;
  options.format =
      arguments.format == "csv" ? RowFormat::kCsv : RowFormat::kJsonLines;
  return PrintRows(&query, options, out).status();
}

absl::Status Export(const ExportArguments& arguments,
                    const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenResults(context));
  RETURN_IF_ERROR(
      database->Execute("BEGIN"));  // one moment, also while the sweep runs
  ASSIGN_OR_RETURN(const std::string sweep,
                   ResolveSweepName(database.get(), arguments.sweep));
  if (arguments.output.empty())
    return Write(arguments, database.get(), sweep, stdout);
  // Under a temporary name, so that a half-written file never carries the final
  // one.
  const std::string temporary = absl::StrCat(arguments.output, ".part");
  std::FILE* file = std::fopen(temporary.c_str(), "wbe");
  if (file == nullptr)
    return absl::UnavailableError(
        absl::StrCat("cannot write ", temporary, ": ", std::strerror(errno)));
  absl::Status status = Write(arguments, database.get(), sweep, file);
  if (std::fclose(file) != 0 && status.ok()) {
    status = absl::UnavailableError(
        absl::StrCat("cannot write ", temporary, ": ", std::strerror(errno)));
  }
  if (status.ok() &&
      std::rename(temporary.c_str(), arguments.output.c_str()) != 0) {
    status = absl::UnavailableError(absl::StrCat(
        "cannot write ", arguments.output, ": ", std::strerror(errno)));
  }
  if (!status.ok()) std::remove(temporary.c_str());
  return status;
}

}  // namespace

void AddExport(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<ExportArguments>();
  Command command(app, context, "export",
                  "All result rows of a sweep as CSV or JSON Lines.");
  command.Positional("sweep", &arguments->sweep,
                     "name of the sweep; default: the newest");
  command.Choice("--format", &arguments->format, {"csv", "jsonl"},
                 "of the rows");
  command.Text("-o,--output", &arguments->output,
               "file to write; default: standard output");
  command.Flag("--canonical", &arguments->canonical,
               "JSON Lines of cells, measurements, curves and weights without "
               "times, hosts or attempts: equal results "
               "give equal bytes");
  command.Data();
  command.Run(
      [arguments, context] { return ExitCode(Export(*arguments, *context)); });
}

}  // namespace iclsweep
