// The coordinator as the command line sees it: deadlines on every call, errors
// that say what to do.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/command.h"
#include "iclsweep/v1/sweep.grpc.pb.h"

namespace iclsweep {

class SweepClient {
 public:
  explicit SweepClient(const std::string& address);

  absl::StatusOr<v1::SubmitResponse> Submit(const std::string& yaml,
                                            const std::string& file_name,
                                            uint64_t max_cells);
  absl::StatusOr<v1::StatusResponse> Status(const std::string& sweep);
  absl::StatusOr<v1::CancelResponse> Cancel(const std::string& sweep);
  // Of the jobs whose last attempt `cause` ended; "" = of all failed ones.
  absl::StatusOr<v1::RetryResponse> Retry(const std::string& sweep,
                                          const std::string& cause);

 private:
  absl::Status Explain(const absl::Status& status) const;

  const std::string address_;
  std::unique_ptr<v1::SweepService::Stub> stub_;
};

// Where the coordinator listens that a command means: --coordinator, else the
// one that has --data open. InvalidArgument when there is neither, or the
// address has no such form.
absl::StatusOr<std::string> FindCoordinator(const CommandContext& context);

}  // namespace iclsweep
