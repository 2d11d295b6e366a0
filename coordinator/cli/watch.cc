// iclsweep watch: a sweep's events and its progress, until it is finished.
// Interrupting it only detaches; a lost coordinator is waited for, and nothing
// is shown twice.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/event_line.h"
#include "coordinator/cli/failures.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/sweep_json.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr int64_t kGiveUpUs = 60'000'000;  // a coordinator being restarted
constexpr int64_t kPauseUs = 500'000;

struct WatchArguments {
  std::string sweep;
  std::optional<int64_t> after;
};

class Watcher {
 public:
  Watcher(const WatchArguments& arguments, const CommandContext& context,
          const std::string& address)
      : context_(context), client_(address) {
    request_.set_sweep(arguments.sweep);
    if (arguments.after.has_value())
      request_.set_after_sequence(*arguments.after);
  }

  // Until the sweep is over. From a thread of its own.
  absl::Status Follow() {
    while (true) {
      absl::Status status = client_.Watch(
          request_, [this](const v1::WatchResponse& news) { Show(news); });
      const int64_t now = RealClock()->MonotonicMicros();
      const bool away = absl::IsUnavailable(status) && reached_us_ != 0 &&
                        now - reached_us_ <= kGiveUpUs;
      if (!away) return status;
      RealClock()->SleepMicros(kPauseUs);
    }
  }
  void Stop() { client_.StopWatching(); }

  int Detach() {
    if (!context_.json) printer_.Finish();
    absl::FPrintF(stderr,
                  "iclsweep: detached; the sweep goes on, and so does watch "
                  "with --after %d\n",
                  request_.after_sequence());
    return kInterrupted;
  }

  absl::StatusOr<int> End() {
    if (!context_.json) printer_.Finish();
    if (last_.cancelled() && !last_.finished()) {
      return absl::FailedPreconditionError(
          absl::StrCat("sweep ", last_.name(),
                       " is cancelled; submit its file again to go on"));
    }
    PrintFailures(last_, "DIR (the coordinator's)", stderr);
    return FailureSummary(last_).empty() ? kAllDone : kFailedCells;
  }

 private:
  void Show(const v1::WatchResponse& news) {
    reached_us_ = RealClock()->MonotonicMicros();
    for (const v1::Event& event : news.events()) {
      if (context_.json) {
        absl::PrintF("%s\n", EventJson(event));
      } else {
        printer_.Note(EventLine(event));
      }
    }
    last_ = news.status();
    if (context_.json) {
      absl::PrintF("%s\n", ProgressJson(news));
      std::fflush(stdout);
    } else {
      printer_.Show(last_, news.workers(), reached_us_);
    }
    request_.set_sweep(last_.name());
    request_.set_after_sequence(news.sequence());
  }

  const CommandContext& context_;
  SweepClient client_;
  ProgressPrinter printer_{stdout, ::isatty(STDOUT_FILENO) != 0};
  v1::WatchRequest request_;  // goes on where the last stream ended
  v1::SweepStatus last_;
  int64_t reached_us_ = 0;  // 0 = never
};

absl::StatusOr<int> Watch(const WatchArguments& arguments,
                          const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::string address, FindCoordinator(context));
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Watcher watcher(arguments, context, address);
  absl::Status status;
  std::atomic<bool> over = false;
  std::jthread follower([&] {
    status = watcher.Follow();
    over = true;
  });
  bool interrupted = false;
  while (!over && !interrupted) {
    const timespec pause{0, 50'000'000};
    interrupted = ::sigtimedwait(&signals, nullptr, &pause) > 0;
  }
  if (interrupted) watcher.Stop();
  follower.join();
  if (interrupted) return watcher.Detach();
  RETURN_IF_ERROR(status);
  return watcher.End();
}

}  // namespace

void AddWatch(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<WatchArguments>();
  Command command(app, context, "watch",
                  "Follow a sweep: its events and its progress, until it is "
                  "finished.");
  command.Positional("sweep", &arguments->sweep,
                     "name of the sweep; default: the newest");
  command.Count("--after", &arguments->after, 0, INT64_MAX,
                "events after that sequence number; default: since the sweep "
                "was last submitted");
  command.Coordinator();
  command.Data();
  command.Json();
  command.Run([arguments, context] {
    const absl::StatusOr<int> code = Watch(*arguments, *context);
    return code.ok() ? *code : Fail(code.status());
  });
}

}  // namespace iclsweep
