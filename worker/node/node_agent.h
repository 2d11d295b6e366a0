// The parent process of a machine's workers: starts one child per slot with
// exactly that slot's device visible, starts it again (with a pause) when it
// dies, notes how it died for its successor, repeats what it logs, and passes
// signals on. It makes no RPC and touches no tensor, so nothing a job does can
// take it down.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/base/devices.h"
#include "worker/node/worker_log.h"

namespace iclsweep {

struct NodeOptions {
  std::string program;  // absolute path of the worker binary
  std::string coordinator;
  std::string work_dir;  // slot directories live in it
  int threads_per_slot = 1;
  std::string idle_timeout;  // passed on
  uint32_t bundle = 256;     // passed on
  std::vector<SlotPlan> slots;
};

class NodeAgent {
 public:
  explicit NodeAgent(NodeOptions options);

  // Until every child is gone for good or a stop signal was served. Returns the
  // process's exit code. REQUIRES: called on the main thread; blocks SIGTERM,
  // SIGINT, SIGUSR1 and SIGCHLD for this process.
  int Run();

 private:
  struct Child {
    SlotPlan slot;
    std::string directory;
    pid_t pid = 0;  // 0 = not running
    int64_t started_us = 0;
    int64_t start_at_us = 0;  // when to start it (again)
    int64_t pause_us = 0;
    bool finished = false;  // not to be started again
    int exit_code = 0;
    WorkerLog log;
  };

  absl::Status Start(Child* child);
  // Repeats what the children logged, and sees which of them ended.
  void Reap();
  void OnExit(Child* child, int wait_status);
  void SignalAll(int signal);
  bool AllFinished() const;
  int64_t NextStart() const;

  const NodeOptions options_;
  std::vector<Child> children_;
  int stop_signals_ = 0;
};

}  // namespace iclsweep
