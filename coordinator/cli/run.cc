// iclsweep run: coordinator and workers on this machine, until the sweep is
// finished. The same code path as a cluster.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/coordinator_options.h"
#include "coordinator/cli/failures.h"
#include "coordinator/cli/headline.h"
#include "coordinator/cli/local_workers.h"
#include "coordinator/cli/options.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/socket_directory.h"
#include "coordinator/cli/submitted.h"
#include "coordinator/cli/sweep_file.h"
#include "coordinator/service/server.h"
#include "proto/base/clock.h"
#include "proto/base/devices.h"
#include "proto/base/status_macros.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {
namespace {

struct RunArguments {
  std::string file;
  std::string device = "auto";
  int64_t workers = 0;
  int64_t max_cells = 10'000'000;
  CoordinatorFlags flags;
};

// At least `least_us`, and ten times what asking took: a sweep of a million
// cells is asked for less often.
timespec PauseAfter(int64_t asked_us, int64_t least_us) {
  const int64_t took = RealClock()->MonotonicMicros() - asked_us;
  const int64_t pause = std::clamp<int64_t>(10 * took, least_us, 30'000'000);
  return {pause / 1'000'000, pause % 1'000'000 * 1'000};
}

class LocalSweep {
 public:
  LocalSweep(const RunArguments& arguments, const CommandContext& context)
      : arguments_(arguments), context_(context) {}

  absl::StatusOr<int> Run() {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP})
      sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    ASSIGN_OR_RETURN(const GivenSweep given,
                     ReadSweep(arguments_.file, arguments_.max_cells,
                               ArtifactDir(context_.data_dir)));
    RETURN_IF_ERROR(CheckWorkers());
    SocketDirectory::RemoveStale(SocketDirectory::Base());
    RETURN_IF_ERROR(StartCoordinator());
    SweepClient client(coordinator_->address());
    ASSIGN_OR_RETURN(const v1::SubmitResponse submitted,
                     client.Submit(given.request));
    if (!context_.json) PrintSubmitted(submitted, stdout);
    ASSIGN_OR_RETURN(const int code, Watch(&client, submitted.name()));
    if (code == kInterrupted) return code;
    const absl::Status printed = PrintEnd(submitted.name());
    std::fflush(stdout);
    PrintFailures(end_, context_.data_dir, stderr);
    RETURN_IF_ERROR(printed);
    return code;
  }

 private:
  // What the workers would refuse, before anything is made.
  absl::Status CheckWorkers() const {
    DeviceWish wish;
    wish.device = arguments_.device;
    wish.cpu_slots = static_cast<int>(arguments_.workers);
    return PlanSlots(wish, FindDevices()).status();
  }

  absl::Status StartCoordinator() {
    if (socket_.path().empty())
      return absl::UnavailableError(
          "cannot make a private directory for the socket in /tmp");
    CoordinatorOptions options;
    options.data_dir = context_.data_dir;
    options.listen = absl::StrCat("unix:", socket_.path(), "/coordinator");
    ASSIGN_OR_RETURN(options.loop, LoopOptionsFrom(arguments_.flags));
    ASSIGN_OR_RETURN(coordinator_, Coordinator::Start(options));
    return absl::OkStatus();
  }

  absl::Status StartWorkers() {
    LocalWorkersOptions options;
    options.coordinator = coordinator_->address();
    options.data_dir = Absolute(context_.data_dir);
    options.device = arguments_.device;
    options.workers = static_cast<int>(arguments_.workers);
    return workers_.Start(options);
  }

  // Until the sweep is finished or a signal came.
  absl::StatusOr<int> Watch(SweepClient* client, const std::string& name) {
    ProgressPrinter printer(
        context_.json ? stderr : stdout,
        ::isatty(context_.json ? STDERR_FILENO : STDOUT_FILENO) != 0);
    bool started = false;
    while (true) {
      const int64_t asked = RealClock()->MonotonicMicros();
      RETURN_IF_ERROR(coordinator_->loop()->status());
      ASSIGN_OR_RETURN(const v1::StatusResponse response, client->Status(name));
      const v1::SweepStatus& status = response.sweeps(0);
      if (status.finished())
        return Finished(status, started, &printer, response.workers());
      if (!status.expanding()) RETURN_IF_ERROR(KeepWorkers(&started));
      printer.Show(status, response.workers(), RealClock()->MonotonicMicros());
      const timespec pause = PauseAfter(asked, started ? 200'000 : 10'000);
      if (::sigtimedwait(&signals_, nullptr, &pause) > 0) {
        printer.Finish();
        StopEarly();
        return kInterrupted;
      }
    }
  }

  // Starts them the first time; later an error when they are gone.
  absl::Status KeepWorkers(bool* started) {
    if (!*started) RETURN_IF_ERROR(StartWorkers());
    *started = true;
    if (workers_.running()) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(
        "the worker processes ", workers_.HowTheyEnded(),
        " before the sweep was finished; what is done is kept: type the same "
        "command again, and only the missing work runs. Their last words:\n",
        workers_.LogTail()));
  }

  void StopEarly() {
    absl::FPrintF(stderr,
                  "iclsweep: stopping: running jobs are saved; run the same "
                  "command again to go on\n");
    workers_.Stop();
  }

  int Finished(const v1::SweepStatus& status, bool started,
               ProgressPrinter* printer, uint32_t workers) {
    if (started) {
      printer->Show(status, workers, RealClock()->MonotonicMicros());
      printer->Finish();
    } else if (!context_.json) {
      const std::string failures = FailureSummary(status);
      absl::PrintF("nothing to run: %s this sweep is finished\n",
                   failures.empty()
                       ? "every job of"
                       : absl::StrCat(failures, "; every other job of"));
    }
    workers_.Stop();
    end_ = status;
    return FailureSummary(status).empty() ? kAllDone : kFailedCells;
  }

  absl::Status PrintEnd(const std::string& name) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                     OpenResults(context_));
    return PrintHeadlines(database.get(), name, context_.json);
  }

  const RunArguments& arguments_;
  const CommandContext& context_;
  sigset_t signals_{};
  v1::SweepStatus end_;  // of the finished sweep
  SocketDirectory socket_{SocketDirectory::Base()};
  std::unique_ptr<Coordinator> coordinator_;
  LocalWorkers workers_;  // stopped before the coordinator
};

}  // namespace

void AddRun(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<RunArguments>();
  Command command(
      app, context, "run",
      "Run a sweep on this machine; run it again to go on where it stopped.");
  command.Positional("sweep", &arguments->file, "sweep file (YAML)",
                     /*required=*/true);
  command.Count("--workers", &arguments->workers, 0, 1024,
                "worker processes; 0 = one per GPU, else one per core");
  command.Choice("--device", &arguments->device, {"auto", "cpu", "cuda"},
                 "where to compute");
  command.Count("--max-cells", &arguments->max_cells, 1, kMostCells,
                "refuse larger grids");
  AddCoordinatorFlags(&command, &arguments->flags);
  command.Data();
  command.Json();
  command.Run([arguments, context] {
    const absl::StatusOr<int> code = LocalSweep(*arguments, *context).Run();
    return code.ok() ? *code : Fail(code.status());
  });
}

}  // namespace iclsweep
