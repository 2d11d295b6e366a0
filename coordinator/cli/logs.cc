// iclsweep logs: what a job's attempts said, from the data directory's files.
#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "coordinator/cli/attempt_logs.h"
#include "coordinator/cli/command.h"
#include "coordinator/cli/options.h"
#include "coordinator/service/explain.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

constexpr int64_t kPauseUs = 500'000;
constexpr int64_t kMostAttempts = 4'000'000'000;

struct LogsArguments {
  std::string job;
  std::optional<int64_t> attempt;
  bool follow = false;
};

void Show(JobId job, const LogNews& news, bool json) {
  absl::PrintF("%s\n", json ? LogNewsJson(job, news) : LogNewsText(news));
}

absl::StatusOr<int> Logs(const LogsArguments& arguments,
                         const CommandContext& context) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database,
                   OpenResults(context));
  ASSIGN_OR_RETURN(const JobId job, FindJob(database.get(), arguments.job));
  std::optional<uint32_t> only;
  if (arguments.attempt.has_value())
    only = static_cast<uint32_t>(*arguments.attempt);
  ASSIGN_OR_RETURN(
      AttemptLogs logs,
      AttemptLogs::Open(context.data_dir, database.get(), job, only));
  bool any = false;
  const auto show = [&](const LogNews& news) {
    any = true;
    Show(job, news, context.json);
  };
  ASSIGN_OR_RETURN(bool over, logs.Poll(show));
  if (!arguments.follow) {
    if (!any && !context.json)
      absl::PrintF("job %d (%s) has said nothing yet\n", job.value,
                   logs.state());
    return kAllDone;
  }
  while (!over) {
    std::fflush(stdout);
    RealClock()->SleepMicros(kPauseUs);
    ASSIGN_OR_RETURN(over, logs.Poll(show));
  }
  const bool failed =
      logs.state() == "failed" || logs.state() == "upstream_failed";
  return failed ? kFailedCells : kAllDone;
}

}  // namespace

void AddLogs(CLI::App* app, CommandContext* context) {
  auto arguments = std::make_shared<LogsArguments>();
  Command command(app, context, "logs", "What a job's attempts said.");
  command.Positional("job", &arguments->job,
                     "a job's id, or the beginning of its key (iclsweep "
                     "explain SWEEP --cell N names them)",
                     /*required=*/true);
  command.Count("--attempt", &arguments->attempt, 1, kMostAttempts,
                "only that attempt");
  command.Flag("--follow", &arguments->follow,
               "go on until the job is over; exit 1 when it failed");
  command.Data();
  command.Json();
  command.Run([arguments, context] {
    const absl::StatusOr<int> code = Logs(*arguments, *context);
    return code.ok() ? *code : Fail(code.status());
  });
}

}  // namespace iclsweep
