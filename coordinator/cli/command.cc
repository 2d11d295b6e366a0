#include "coordinator/cli/command.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/service/server.h"
#include "coordinator/spec/errors.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "iclsweep: %s\n", std::string(status.message()).c_str());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return kBadInput;
    case absl::StatusCode::kFailedPrecondition:
      return kRefused;
    default:
      return kCannotReach;
  }
}

int ExitCode(const absl::Status& status) {
  return status.ok() ? kAllDone : Fail(status);
}

absl::Status UnknownCommand(const std::string& word,
                            const std::vector<std::string>& commands) {
  if (word.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "name a command: ", absl::StrJoin(commands, ", "), " (see --help)"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no ", word.front() == '-' ? "option " : "command ",
                   Quoted(word), DidYouMean(word, commands), " (see --help)"));
}

absl::StatusOr<std::string> ReadSweepFile(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": cannot read the sweep file: ", std::strerror(errno)));
  }
  if (S_ISDIR(info.st_mode))
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a directory, not a sweep file"));
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file)
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": cannot read the sweep file: ", std::strerror(errno)));
  return text.str();
}

absl::StatusOr<std::unique_ptr<Database>> OpenResults(
    const CommandContext& context) {
  absl::StatusOr<std::unique_ptr<Database>> database =
      OpenForReading(DatabaseFile(context.data_dir));
  if (!absl::IsNotFound(database.status())) return database;
  return absl::UnavailableError(database.status().message());
}

}  // namespace iclsweep
