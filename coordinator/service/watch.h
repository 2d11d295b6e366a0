// Following a sweep: its events and where it stands, until it is finished.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "iclsweep/v1/sweep.pb.h"
#include "proto/base/mutex.h"
#include "storage/sqlite/database.h"

namespace iclsweep {

// The next events of the sweep, of its jobs and of the workers, after
// `sequence`, a thousand at most, and the sweep's status of the same moment.
absl::StatusOr<v1::WatchResponse> ReadWatch(Database* database,
                                            const std::string& sweep,
                                            int64_t after_sequence);

// The number before that of the sweep's last submission.
absl::StatusOr<int64_t> LastSubmission(Database* database,
                                       const std::string& sweep);

// Nothing more will come of this sweep by itself.
bool IsOver(const v1::WatchResponse& response);

// The streams under way, so that they can be ended before the server. Each
// looks into the database by itself a few times a second; the loop knows
// nothing of them. Thread-safe.
class Watches {
 public:
  // Adds what the database does not know: connected workers, running steps.
  using Complete = std::function<void(v1::WatchResponse*)>;

  Watches(std::string database_file, Complete complete)
      : database_file_(std::move(database_file)),
        complete_(std::move(complete)) {}

  grpc::ServerWriteReactor<v1::WatchResponse>* Start(
      const v1::WatchRequest& request);
  // Ends every stream with UNAVAILABLE, and those that come later at once.
  void Stop();

 private:
  class Reactor;

  const std::string database_file_;
  const Complete complete_;
  Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::set<Reactor*> live_ ABSL_GUARDED_BY(mu_);
};

}  // namespace iclsweep
