#include "worker/node/parent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/numbers.h"

namespace iclsweep {

bool FollowParent() {
  const char* expected = std::getenv("ICLSWEEP_PARENT_PID");
  if (expected == nullptr) return true;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  // It may have died before we asked.
  int pid = 0;
  return absl::SimpleAtoi(expected, &pid) && ::getppid() == pid;
}

}  // namespace iclsweep
