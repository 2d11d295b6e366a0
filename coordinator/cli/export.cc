// iclsweep export: every result row of a sweep, or the canonical form by which
// two databases are compared.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/canonical_export.h"
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

struct ExportArguments {
  std::string sweep;
  std::string format = "csv";
  std::string output;
  bool canonical = false;
  ResultFilter filter;
};

absl::Status Write(const ExportArguments& arguments, Database* database,
                   const std::string& sweep, std::FILE* out) {
  if (arguments.canonical) return WriteCanonical(database, sweep, out);
  ASSIGN_OR_RETURN(Statement query, database->PrepareQuery(ResultRowsSql(
                                        sweep, arguments.filter)));
  PrintOptions options;
  options.format =
      arguments.format == "csv" ? RowFormat::kCsv : RowFormat::kJsonLines;
  return PrintRows(&query, options, out).status();
}

using Writer = absl::FunctionRef<absl::Status(std::FILE*)>;

// Errors name `output`, what the user asked for.
absl::Status CannotWrite(const std::string& output) {
  return absl::UnavailableError(
      absl::StrCat("cannot write ", output, ": ", std::strerror(errno)));
}

absl::Status WriteAndClose(const std::string& path, const std::string& output,
                           Writer write) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return CannotWrite(output);
  absl::Status status = write(file);
  if (std::fclose(file) != 0 && status.ok()) status = CannotWrite(output);
  return status;
}

// A file is written beside itself and renamed, so that a half-written one never
// carries the final name; a link stays and what it names is replaced; a pipe or
// a device is written into.
absl::Status WriteTo(const std::string& output, Writer write) {
  std::error_code error;
  const std::string path =
      std::filesystem::weakly_canonical(output, error).string();
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot write ", output, ": ", error.message()));
  if (std::filesystem::exists(path, error) &&
      !std::filesystem::is_regular_file(path, error))
    return WriteAndClose(path, output, write);
  const std::string temporary = absl::StrCat(path, ".part");
  absl::Status status = WriteAndClose(temporary, output, write);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0)
    status = CannotWrite(output);
  if (!status.ok()) std::remove(temporary.c_str());
  return status;
}

absl::Status Export(const ExportArguments& arguments,
                    const CommandContext& context) {
  if (arguments.canonical && !IsEmpty(arguments.filter))
    return absl::InvalidArgumentError(
        "--canonical compares whole sweeps: leave --stage, --predictor, --name "
        "and --limit out");
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenResults(context));
  RETURN_IF_ERROR(
      database->Execute("BEGIN"));  // one moment, also while the sweep runs
  ASSIGN_OR_RETURN(const std::string sweep,
                   ResolveSweepName(database.get(), arguments.sweep));
  if (!IsEmpty(arguments.filter))  // a word that is not there is an error
    RETURN_IF_ERROR(
        HasResultRows(database.get(), sweep, arguments.filter).status());
  if (arguments.output.empty())
    return Write(arguments, database.get(), sweep, stdout);
  return WriteTo(arguments.output, [&](std::FILE* out) {
    return Write(arguments, database.get(), sweep, out);
  });
}

}  // namespace

void AddExport(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<ExportArguments>();
  Command command(app, context, "export",
                  "Result rows of a sweep as CSV or JSON Lines.");
  command.Positional("sweep", &arguments->sweep,
                     "name of the sweep; default: the newest");
  command.Choice("--format", &arguments->format, {"csv", "jsonl"},
                 "of the rows");
  command.Text("-o,--output", &arguments->output,
               "file to write; default: standard output");
  AddResultFilter(&command, &arguments->filter);
  command.Flag("--canonical", &arguments->canonical,
               "JSON Lines of cells, measurements, curves and weights without "
               "times, hosts or attempts: equal results "
               "give equal bytes");
  command.Data();
  command.Run(
      [arguments, context] { return ExitCode(Export(*arguments, *context)); });
}

}  // namespace iclsweep
