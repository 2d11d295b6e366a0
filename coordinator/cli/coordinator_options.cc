#include "coordinator/cli/coordinator_options.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

absl::StatusOr<int64_t> Micros(const std::string& flag,
                               const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) ||
      duration < absl::Milliseconds(10) || duration > absl::Hours(24)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", text,
                     ": must be a duration between 10ms and 24h, such as 30s"));
  }
  return absl::ToInt64Microseconds(duration);
}

}  // namespace

void AddCoordinatorFlags(Command* command, CoordinatorFlags* flags) {
  command->Text("--lease", &flags->lease,
                "a worker not heard of for so long loses its job");
  command->Text("--heartbeat", &flags->heartbeat,
                "how often workers report; less than half of --lease");
  command->Count("--checkpoint-every", &flags->checkpoint_every, 0,
                 1'000'000'000,
                 "training steps between partial checkpoints; 0 = none");
}

absl::StatusOr<LoopOptions> LoopOptionsFrom(const CoordinatorFlags& flags) {
  LoopOptions options;
  ASSIGN_OR_RETURN(options.lease_us, Micros("--lease", flags.lease));
  ASSIGN_OR_RETURN(options.heartbeat_us,
                   Micros("--heartbeat", flags.heartbeat));
  options.checkpoint_every_steps = flags.checkpoint_every;
  return options;
}

}  // namespace iclsweep
