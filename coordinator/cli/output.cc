#include "coordinator/cli/output.h"

#include <signal.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/command.h"

namespace iclsweep {
namespace {

// errno of a write to `out`, where an earlier one has failed already: its
// reason is long gone, so one more byte asks for it.
int AskAgain(std::FILE* out) {
  std::clearerr(out);
  errno = 0;
  std::fputc('\n', out);
  std::fflush(out);
  return errno;
}

}  // namespace

absl::Status FlushOutput(std::FILE* out) {
  const bool lost = std::ferror(out) != 0;
  errno = 0;
  if (std::fflush(out) == 0 && !lost) return absl::OkStatus();
  const int reason = errno != 0 ? errno : AskAgain(out);
  if (reason == EPIPE) {
    ::signal(SIGPIPE, SIG_DFL);
    ::raise(SIGPIPE);
  }
  return absl::UnavailableError(absl::StrCat(
      "cannot write to ", out == stdout ? "standard output" : "the file", ": ",
      reason != 0 ? std::strerror(reason) : "some of it was lost"));
}

int FinishOutput(int code) {
  const absl::Status status = FlushOutput(stdout);
  if (status.ok() || (code != kAllDone && code != kFailedCells)) return code;
  return Fail(status);
}

}  // namespace iclsweep
