#include "coordinator/cli/client.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "coordinator/service/data_dir.h"
#include "proto/base/address.h"
#include "proto/base/status_macros.h"
#include "proto/rpc.h"

namespace iclsweep {
namespace {

constexpr int kLongSeconds = 120;

}  // namespace
SweepClient::SweepClient(const std::string& address)
    : address_(address), stub_(v1::SweepService::NewStub(ConnectTo(address))) {}

absl::Status SweepClient::Reached(const absl::Status& status) const {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status))
    return status;
  return absl::UnavailableError(absl::StrCat("cannot reach a coordinator at ",
                                             address_, ": ", status.message()));
}

template <typename Response, typename Method, typename Request>
absl::StatusOr<Response> SweepClient::Invoke(Method method,
                                             const Request& request,
                                             int seconds) {
  Response response;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(seconds));
  RETURN_IF_ERROR(Reached(
      FromGrpcStatus((stub_.get()->*method)(&context, request, &response))));
  return response;
}

absl::StatusOr<v1::SubmitResponse> SweepClient::Submit(
    const v1::SubmitRequest& request) {
  return Invoke<v1::SubmitResponse>(&v1::SweepService::Stub::Submit, request,
                                    kLongSeconds);
}

absl::StatusOr<v1::StatusResponse> SweepClient::Status(
    const std::string& sweep) {
  v1::StatusRequest request;
  request.set_sweep(sweep);
  return Invoke<v1::StatusResponse>(&v1::SweepService::Stub::Status, request);
}

absl::StatusOr<v1::CancelResponse> SweepClient::Cancel(
    const std::string& sweep) {
  v1::CancelRequest request;
  request.set_sweep(sweep);
  return Invoke<v1::CancelResponse>(&v1::SweepService::Stub::Cancel, request);
}

absl::StatusOr<v1::RetryResponse> SweepClient::Retry(const std::string& sweep,
                                                     const std::string& cause) {
  v1::RetryRequest request;
  request.set_sweep(sweep);
  request.set_cause(cause);
  return Invoke<v1::RetryResponse>(&v1::SweepService::Stub::Retry, request,
                                   kLongSeconds);
}

absl::StatusOr<v1::ExplainResponse> SweepClient::Explain(
    const v1::ExplainRequest& request) {
  return Invoke<v1::ExplainResponse>(&v1::SweepService::Stub::Explain, request);
}

absl::StatusOr<v1::ListWorkersResponse> SweepClient::ListWorkers() {
  return Invoke<v1::ListWorkersResponse>(&v1::SweepService::Stub::ListWorkers,
                                         v1::ListWorkersRequest());
}

absl::StatusOr<v1::DrainResponse> SweepClient::Drain(
    const v1::DrainRequest& request) {
  return Invoke<v1::DrainResponse>(&v1::SweepService::Stub::Drain, request);
}

absl::Status SweepClient::Watch(
    const v1::WatchRequest& request,
    const std::function<void(const v1::WatchResponse&)>& on_news) {
  grpc::ClientContext context;
  {
    MutexLock lock(&mu_);
    if (stopped_) return absl::CancelledError("stopped");
    watching_ = &context;
  }
  const auto stream = stub_->Watch(&context, request);
  v1::WatchResponse news;
  while (stream->Read(&news)) on_news(news);
  const absl::Status status = FromGrpcStatus(stream->Finish());
  MutexLock lock(&mu_);
  watching_ = nullptr;
  return Reached(status);
}

void SweepClient::StopWatching() {
  MutexLock lock(&mu_);
  stopped_ = true;
  if (watching_ != nullptr) watching_->TryCancel();
}

absl::StatusOr<std::string> FindCoordinator(const CommandContext& context) {
  if (!context.coordinator.empty()) {
    RETURN_IF_ERROR(
        ParseAddress("--coordinator", context.coordinator).status());
    return context.coordinator;
  }
  absl::StatusOr<std::string> owner = AddressOfOwner(context.data_dir);
  if (owner.ok()) return owner;
  return absl::InvalidArgumentError(absl::StrCat(
      owner.status().message(),
      "; name one with --coordinator host:port, or ICLSWEEP_COORDINATOR"));
}

}  // namespace iclsweep
