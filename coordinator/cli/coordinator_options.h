// Options that `run` and `serve` share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/loop/loop.h"

namespace iclsweep {

struct CoordinatorFlags {
  std::string lease = "30s";
  std::string heartbeat = "5s";
  int64_t checkpoint_every = 500;
};

void AddCoordinatorFlags(CLI::App* command, CoordinatorFlags* flags);
// InvalidArgument naming the flag.
absl::StatusOr<LoopOptions> LoopOptionsFrom(const CoordinatorFlags& flags);

}  // namespace iclsweep
