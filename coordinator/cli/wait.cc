// iclsweep wait: until a sweep is finished. Interrupting it only detaches.
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/failures.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/sweep_json.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr int64_t kGiveUpUs = 60'000'000;  // a coordinator being restarted

int PrintEnd(const v1::SweepStatus& status, bool json) {
  const bool failed = !FailureSummary(status).empty();
  PrintFailures(status, "DIR (the coordinator's)", stderr);
  if (json) {
    absl::PrintF("%s\n", SweepJson(status));
  } else {
    absl::PrintF("sweep %s finished%s\n", status.name(),
                 failed ? ", with failed jobs" : "");
  }
  return failed ? kFailedCells : kAllDone;
}

// Asks until the answer is final, or the coordinator was gone for too long.
class Waiter {
 public:
  Waiter(const CommandContext& context, const std::string& address,
         std::string sweep)
      : context_(context), client_(address), name_(std::move(sweep)) {}

  // The exit code when the sweep is finished; nothing while it runs.
  absl::StatusOr<std::optional<int>> Ask() {
    const int64_t now = RealClock()->MonotonicMicros();
    const absl::StatusOr<v1::StatusResponse> response = client_.Status(name_);
    if (!response.ok()) {
      const bool away = absl::IsUnavailable(response.status()) &&
                        reached_us_ != 0 && now - reached_us_ <= kGiveUpUs;
      if (away) return std::optional<int>();
      return response.status();
    }
    reached_us_ = now;
    const v1::SweepStatus& status = response->sweeps(0);
    name_ = status.name();
    printer_.Show(status, response->workers(), now);
    if (status.cancelled() && !status.finished()) {
      printer_.Finish();
      return absl::FailedPreconditionError(absl::StrCat(
          "sweep ", name_, " is cancelled; submit its file again to go on"));
    }
    if (!status.finished()) return std::optional<int>();
    printer_.Finish();
    return std::optional<int>(PrintEnd(status, context_.json));
  }

  void Detach() {
    printer_.Finish();
    absl::FPrintF(stderr, "iclsweep: detached; the sweep goes on\n");
  }

 private:
  const CommandContext& context_;
  SweepClient client_;
  std::string name_;
  ProgressPrinter printer_{stderr, ::isatty(STDERR_FILENO) != 0};
  int64_t reached_us_ = 0;  // 0 = never
};

absl::StatusOr<int> Wait(const std::string& sweep,
                         const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::string address, FindCoordinator(context));
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Waiter waiter(context, address, sweep);
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<int> code, waiter.Ask());
    if (code.has_value()) return *code;
    const timespec pause{0, 250'000'000};
    if (::sigtimedwait(&signals, nullptr, &pause) > 0) {
      waiter.Detach();
      return kInterrupted;
    }
  }
}

}  // namespace

void AddWait(CLI::App* app, CommandContext* context) {
  auto sweep = std::make_shared<std::string>();
  Command command(
      app, context, "wait",
      "Wait until a sweep is finished: exit 0, or 1 with failed jobs.");
  command.Positional("sweep", sweep.get(),
                     "name of the sweep; default: the newest");
  command.Coordinator();
  command.Data();
  command.Json();
  command.Run([sweep, context] {
    const absl::StatusOr<int> code = Wait(*sweep, *context);
    return code.ok() ? *code : Fail(code.status());
  });
}

}  // namespace iclsweep
