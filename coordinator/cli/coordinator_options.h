// Options that `run` and `serve` share.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/options.h"
#include "coordinator/loop/loop.h"

namespace iclsweep {

struct CoordinatorFlags {
  std::string lease = "30s";
  std::string heartbeat = "5s";
  int64_t checkpoint_every = 500;
};

void AddCoordinatorFlags(Command* command, CoordinatorFlags* flags);
// InvalidArgument naming the flag.
absl::StatusOr<LoopOptions> LoopOptionsFrom(const CoordinatorFlags& flags);

}  // namespace iclsweep
