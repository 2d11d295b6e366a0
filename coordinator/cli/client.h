// The coordinator as the command line sees it: deadlines on every call, errors
// that say what to do.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cli/command.h"
#include "iclsweep/v1/sweep.grpc.pb.h"
#include "proto/base/mutex.h"

namespace iclsweep {

class SweepClient {
 public:
  explicit SweepClient(const std::string& address);

  absl::StatusOr<v1::SubmitResponse> Submit(const v1::SubmitRequest& request);
  absl::StatusOr<v1::StatusResponse> Status(const std::string& sweep);
  absl::StatusOr<v1::CancelResponse> Cancel(const std::string& sweep);
  // Of the jobs whose last attempt `cause` ended; "" = of all failed ones.
  absl::StatusOr<v1::RetryResponse> Retry(const std::string& sweep,
                                          const std::string& cause);

  absl::StatusOr<v1::ExplainResponse> Explain(
      const v1::ExplainRequest& request);
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers();
  absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest& request);

  // Calls `on_news` until the sweep is over (OK) or the stream breaks.
  absl::Status Watch(
      const v1::WatchRequest& request,
      const std::function<void(const v1::WatchResponse&)>& on_news);
  // Makes Watch return Cancelled, now and later. From any thread.
  void StopWatching();

 private:
  template <typename Response, typename Method, typename Request>
  absl::StatusOr<Response> Invoke(Method method, const Request& request,
                                  int seconds = 20);
  // Says whom it could not reach.
  absl::Status Reached(const absl::Status& status) const;

  const std::string address_;
  std::unique_ptr<v1::SweepService::Stub> stub_;
  Mutex mu_;
  grpc::ClientContext* watching_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

// Where the coordinator listens that a command means: --coordinator, else the
// one that has --data open. InvalidArgument when there is neither, or the
// address has no such form.
absl::StatusOr<std::string> FindCoordinator(const CommandContext& context);

}  // namespace iclsweep
