#include "worker/node/node_agent.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/process.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"
#include "worker/agent/slot.h"

extern char** environ;

namespace iclsweep {
namespace {

constexpr int64_t kFirstPauseUs = 100'000;
constexpr int64_t kLongestPauseUs = 10'000'000;
constexpr int64_t kStableUs = 30'000'000;
constexpr size_t kLogTail = 2'000;

int64_t Now() { return RealClock()->MonotonicMicros(); }

// The environment of a child: one thread pool size, one instruction set, one
// device.
std::vector<std::string> ChildEnvironment(const SlotPlan& slot, int threads) {
  const std::string capability = CpuCapability();
  std::map<std::string, std::string> set = {
      {"OMP_NUM_THREADS", absl::StrCat(threads)},
      {"MKL_NUM_THREADS", absl::StrCat(threads)},
      {"OPENBLAS_NUM_THREADS", absl::StrCat(threads)},
      {"CUDA_VISIBLE_DEVICES", slot.visible_gpus},
      {"ATEN_CPU_CAPABILITY", capability},
      {"ICLSWEEP_PARENT_PID", absl::StrCat(::getpid())},
      {"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}};
  if (threads > 1) set["OMP_WAIT_POLICY"] = "PASSIVE";
  if (std::getenv("MKL_CBWR") == nullptr && capability != "default") {
    set["MKL_CBWR"] = capability == "avx512" ? "AVX512" : "AVX2";
  }
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (!set.contains(name)) environment.emplace_back(*entry);
  }
  for (const auto& [name, value] : set)
    environment.push_back(absl::StrCat(name, "=", value));
  return environment;
}

std::string Describe(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("killed by signal ", WTERMSIG(wait_status), " (",
                        ::strsignal(WTERMSIG(wait_status)), ")");
  }
  return absl::StrCat("exit status ", WEXITSTATUS(wait_status));
}

}  // namespace

NodeAgent::NodeAgent(NodeOptions options) : options_(std::move(options)) {
  for (const SlotPlan& slot : options_.slots) {
    const std::string directory =
        absl::StrCat(options_.work_dir, "/", slot.name);
    children_.push_back(
        {.slot = slot, .directory = directory, .log = WorkerLog(directory)});
  }
}

absl::Status NodeAgent::Start(Child* child) {
  std::error_code error;
  std::filesystem::create_directories(child->directory, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot make ", child->directory, ": ", error.message()));
  std::vector<std::string> arguments = {options_.program,
                                        "--slot-dir",
                                        child->directory,
                                        "--slot-name",
                                        child->slot.name,
                                        "--device",
                                        child->slot.device,
                                        "--coordinator",
                                        options_.coordinator,
                                        "--threads-per-slot",
                                        absl::StrCat(options_.threads_per_slot),
                                        "--bundle",
                                        absl::StrCat(options_.bundle)};
  if (!options_.idle_timeout.empty()) {
    arguments.emplace_back("--idle-timeout");
    arguments.push_back(options_.idle_timeout);
  }
  std::vector<std::string> environment =
      ChildEnvironment(child->slot, options_.threads_per_slot);
  ASSIGN_OR_RETURN(child->pid,
                   StartProgram({std::move(arguments), std::move(environment),
                                 child->log.file()}));
  child->started_us = Now();
  return absl::OkStatus();
}

void NodeAgent::OnExit(Child* child, int wait_status) {
  child->pid = 0;
  const bool own_decision = WIFEXITED(wait_status) &&
                            WEXITSTATUS(wait_status) <= 4 &&
                            WEXITSTATUS(wait_status) != 1;
  if (own_decision || stop_signals_ > 0) {
    child->finished = true;
    child->exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1;
    if (child->exit_code != 0) {
      spdlog::error("slot {} ended ({})", child->slot.name,
                    Describe(wait_status));
    }
    return;
  }
  WriteExit(child->directory, std::string(CauseName(Cause::kCrashed)),
            Describe(wait_status), child->log.Tail(kLogTail));
  const bool stable = Now() - child->started_us > kStableUs;
  child->pause_us = stable || child->pause_us == 0
                        ? kFirstPauseUs
                        : std::min(child->pause_us * 2, kLongestPauseUs);
  child->start_at_us = Now() + child->pause_us;
  spdlog::warn("slot {}: {}; starting it again in {} ms", child->slot.name,
               Describe(wait_status), child->pause_us / 1000);
}

void NodeAgent::Reap() {
  for (Child& child : children_) {
    int wait_status = 0;
    const bool ended = child.pid != 0 &&
                       ::waitpid(child.pid, &wait_status, WNOHANG) == child.pid;
    for (const std::string& line : child.log.NewLines(ended))
      std::fprintf(stderr, "%s: %s\n", child.slot.name.c_str(), line.c_str());
    if (ended) OnExit(&child, wait_status);
  }
}

void NodeAgent::SignalAll(int signal) {
  for (const Child& child : children_) {
    if (child.pid != 0) ::kill(child.pid, signal);
  }
}

bool NodeAgent::AllFinished() const {
  return std::all_of(children_.begin(), children_.end(),
                     [](const Child& child) { return child.finished; });
}

int64_t NodeAgent::NextStart() const {
  int64_t next = std::numeric_limits<int64_t>::max();
  for (const Child& child : children_) {
    if (!child.finished && child.pid == 0)
      next = std::min(next, child.start_at_us);
  }
  return next;
}

int NodeAgent::Run() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD})
    sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  while (!AllFinished()) {
    for (Child& child : children_) {
      if (child.finished || child.pid != 0 || child.start_at_us > Now())
        continue;
      if (stop_signals_ > 0) {
        child.finished = true;
        continue;
      }
      const absl::Status started = Start(&child);
      if (!started.ok()) {
        spdlog::error("slot {}: {}", child.slot.name,
                      std::string(started.message()));
        child.finished = true;
        child.exit_code = 3;
      }
    }
    const int64_t wait = std::clamp<int64_t>(NextStart() - Now(), 0, 1'000'000);
    const timespec timeout{wait / 1'000'000, (wait % 1'000'000) * 1'000};
    const int signal = ::sigtimedwait(&signals, nullptr, &timeout);
    if (signal == SIGTERM || signal == SIGINT || signal == SIGUSR1) {
      ++stop_signals_;
      SignalAll(stop_signals_ == 1 ? SIGTERM : SIGKILL);
    }
    Reap();
  }
  int code = 0;
  for (const Child& child : children_) code = std::max(code, child.exit_code);
  return code;
}

}  // namespace iclsweep
