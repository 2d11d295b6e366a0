// The worker node that `run` starts beside its coordinator.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace iclsweep {

struct LocalWorkersOptions {
  std::string coordinator;
  std::string data_dir;
  std::string device = "auto";
  int workers = 0;  // 0 = one per GPU or core
};

class LocalWorkers {
 public:
  LocalWorkers() = default;
  ~LocalWorkers();  // asks them to stop, waits
  LocalWorkers(const LocalWorkers&) = delete;
  LocalWorkers& operator=(const LocalWorkers&) = delete;

  // Starts iclsweep-worker from this program's own folder. Unavailable when it
  // is not there. REQUIRES: called on the main thread (the workers end when the
  // thread that started them does).
  absl::Status Start(const LocalWorkersOptions& options);
  bool running();
  // SIGTERM: they save, give their leases back and exit; waits for that. A
  // second call kills.
  void Stop();
  // "were killed by signal 9 (Killed)". REQUIRES: running() has said no.
  std::string HowTheyEnded() const;
  // What the node printed, for when it ended by itself.
  std::string LogTail() const;

 private:
  pid_t pid_ = 0;
  int wait_status_ = 0;
  std::string log_;
};

}  // namespace iclsweep
