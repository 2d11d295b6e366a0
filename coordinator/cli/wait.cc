// iclsweep wait: until a sweep is finished. Interrupting it only detaches.
#include <signal.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/progress.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr int64_t kGiveUpUs = 60'000'000;  // a coordinator being restarted

bool AnyFailed(const v1::SweepStatus& sweep) {
  for (const v1::StageProgress& stage : sweep.stages()) {
    if (stage.failed() + stage.upstream_failed() > 0) return true;
  }
  return false;
}

absl::StatusOr<int> Wait(const std::string& sweep,
                         const CommandContext& context) {
  RETURN_IF_ERROR(RequireCoordinator(context.coordinator));
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  SweepClient client(context.coordinator);
  ProgressPrinter printer(stderr, ::isatty(STDERR_FILENO) != 0);
  std::string name = sweep;
  int64_t reached_us = 0;  // 0 = never
  while (true) {
    const int64_t now = RealClock()->MonotonicMicros();
    absl::StatusOr<v1::StatusResponse> response = client.Status(name);
    if (response.ok()) {
      reached_us = now;
      const v1::SweepStatus& status = response->sweeps(0);
      name = status.name();
      printer.Show(status, {}, response->workers(), now);
      if (status.finished()) {
        printer.Finish();
        for (const std::string& failure : status.first_failures())
          absl::FPrintF(stderr, "failed: %s\n", failure);
        if (!context.json)
          absl::PrintF("sweep %s finished%s\n", name,
                       AnyFailed(status) ? ", with failed jobs" : "");
        if (context.json)
          absl::PrintF("{\"sweep\":\"%s\",\"failed\":%s}\n", name,
                       AnyFailed(status) ? "true" : "false");
        return AnyFailed(status) ? kFailedCells : kAllDone;
      }
    } else if (!absl::IsUnavailable(response.status()) || reached_us == 0 ||
               now - reached_us > kGiveUpUs) {
      return response.status();
    }
    const timespec pause{0, 250'000'000};
    if (::sigtimedwait(&signals, nullptr, &pause) > 0) {
      printer.Finish();
      absl::FPrintF(stderr, "iclsweep: detached; the sweep goes on\n");
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
  command.Json();
  command.Run([sweep, context] {
    const absl::StatusOr<int> code = Wait(*sweep, *context);
    return code.ok() ? *code : Fail(code.status());
  });
}

}  // namespace iclsweep
