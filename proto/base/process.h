// Starting programs of our own.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace iclsweep {

struct ProgramStart {
  std::vector<std::string> arguments;    // the first is the program's path
  std::vector<std::string> environment;  // NAME=value
  std::string log;  // gets its output and its errors, appended
};

// Starts a program in a process group of its own (a Ctrl-C on the terminal is
// for the starter to pass on), with no signal blocked and no input. The caller
// waits for it. Unavailable when it cannot be started.
absl::StatusOr<pid_t> StartProgram(ProgramStart start);

}  // namespace iclsweep
