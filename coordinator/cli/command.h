// What every subcommand shares: where the data is, how it prints, how a Status
// becomes an exit code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/sqlite/database.h"

namespace CLI {
class App;
}  // namespace CLI

namespace iclsweep {

// Exit codes are API (README.md).
inline constexpr int kAllDone = 0;
inline constexpr int kFailedCells = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kCannotReach = 3;
inline constexpr int kRefused = 4;
inline constexpr int kInterrupted = 130;

// The largest --max-cells.
inline constexpr int64_t kMostCells = 1'000'000'000'000;

struct CommandContext {
  std::string data_dir = "./iclsweep-data";
  std::string coordinator;
  bool json = false;
  int exit_code = kAllDone;
};

// kAllDone, or what Fail says.
int ExitCode(const absl::Status& status);
// Prints "iclsweep: <message>" on stderr; the exit code for the status.
int Fail(const absl::Status& status);

// InvalidArgument for a word in the place of a command that is none of them;
// "" = none was given.
absl::Status UnknownCommand(const std::string& word,
                            const std::vector<std::string>& commands);

// Bytes of a sweep file; InvalidArgument when it is missing, a directory or
// unreadable.
absl::StatusOr<std::string> ReadSweepFile(const std::string& path);

// The results database of --data, for reading. Unavailable when there is none.
absl::StatusOr<std::unique_ptr<Database>> OpenResults(
    const CommandContext& context);

// One function per subcommand, each in its own file.
void AddRun(CLI::App* app, CommandContext* context);
void AddPlan(CLI::App* app, CommandContext* context);
void AddServe(CLI::App* app, CommandContext* context);
void AddSubmit(CLI::App* app, CommandContext* context);
void AddStatus(CLI::App* app, CommandContext* context);
void AddCancel(CLI::App* app, CommandContext* context);
void AddRetry(CLI::App* app, CommandContext* context);
void AddWatch(CLI::App* app, CommandContext* context);
void AddExplain(CLI::App* app, CommandContext* context);
void AddLogs(CLI::App* app, CommandContext* context);
void AddWorkers(CLI::App* app, CommandContext* context);
void AddDrain(CLI::App* app, CommandContext* context);
void AddWait(CLI::App* app, CommandContext* context);
void AddResults(CLI::App* app, CommandContext* context);
void AddQuery(CLI::App* app, CommandContext* context);
void AddExport(CLI::App* app, CommandContext* context);
void AddVersion(CLI::App* app, CommandContext* context);

}  // namespace iclsweep
