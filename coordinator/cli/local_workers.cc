#include "coordinator/cli/local_workers.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/process.h"
#include "proto/base/status_macros.h"

extern char** environ;

namespace iclsweep {
namespace {

std::string WorkerProgram() {
  std::array<char, 4096> path{};
  const ssize_t size =
      ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (size <= 0) return "iclsweep-worker";
  return (std::filesystem::path(
              std::string(path.data(), static_cast<size_t>(size)))
              .parent_path() /
          "iclsweep-worker")
      .string();
}

}  // namespace

LocalWorkers::~LocalWorkers() { Stop(); }

absl::Status LocalWorkers::Start(const LocalWorkersOptions& options) {
  const std::string program = WorkerProgram();
  if (::access(program.c_str(), X_OK) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot run ", program, ": ", std::strerror(errno)));
  }
  std::vector<std::string> arguments = {
      program,
      "--coordinator",
      options.coordinator,
      "--work-dir",
      absl::StrCat(options.data_dir, "/slots"),
      "--device",
      options.device};
  if (options.workers > 0) {
    arguments.insert(arguments.end(),
                     {"--cpu-slots", absl::StrCat(options.workers)});
  }
  std::vector<std::string> environment = {
      absl::StrCat("ICLSWEEP_PARENT_PID=", ::getpid())};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!absl::StartsWith(*entry, "ICLSWEEP_PARENT_PID="))
      environment.emplace_back(*entry);
  }
  log_ = absl::StrCat(options.data_dir, "/logs/workers.log");
  ASSIGN_OR_RETURN(
      pid_, StartProgram({std::move(arguments), std::move(environment), log_}));
  return absl::OkStatus();
}

bool LocalWorkers::running() {
  if (pid_ == 0) return false;
  if (::waitpid(pid_, &wait_status_, WNOHANG) == 0) return true;
  pid_ = 0;
  return false;
}

std::string LocalWorkers::HowTheyEnded() const {
  if (!WIFSIGNALED(wait_status_)) {
    return absl::StrCat("ended with exit code ", WEXITSTATUS(wait_status_));
  }
  return absl::StrCat("were killed by signal ", WTERMSIG(wait_status_), " (",
                      ::strsignal(WTERMSIG(wait_status_)), ")");
}

void LocalWorkers::Stop() {
  if (!running()) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

std::string LocalWorkers::LogTail() const {
  std::ifstream file(log_, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const std::string whole = text.str();
  return whole.size() > 1500 ? whole.substr(whole.size() - 1500) : whole;
}

}  // namespace iclsweep
