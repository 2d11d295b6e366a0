// Whether what a command printed has reached its reader.
#pragma once

#include <cstdio>

#include "absl/status/status.h"

namespace iclsweep {

// Flushes. Unavailable, with the system's reason, when something printed since
// the file was opened got lost. A reader that went away (`| head`) ends the
// program by SIGPIPE, quietly, as where that signal is not ignored.
absl::Status FlushOutput(std::FILE* out);

// The exit code of a command that ends with `code`: when its standard output
// got lost, and the command had nothing worse to say, one line on stderr and
// kCannotReach.
int FinishOutput(int code);

}  // namespace iclsweep
