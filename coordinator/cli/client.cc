#include "coordinator/cli/client.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "coordinator/service/data_dir.h"
#include "proto/base/address.h"
#include "proto/base/status_macros.h"
#include "proto/rpc.h"

namespace iclsweep {
namespace {

void SetDeadline(grpc::ClientContext* context, std::chrono::seconds seconds) {
  context->set_deadline(std::chrono::system_clock::now() + seconds);
}

}  // namespace

SweepClient::SweepClient(const std::string& address)
    : address_(address), stub_(v1::SweepService::NewStub(ConnectTo(address))) {}

absl::Status SweepClient::Explain(const absl::Status& status) const {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status))
    return status;
  return absl::UnavailableError(absl::StrCat("cannot reach a coordinator at ",
                                             address_, ": ", status.message()));
}

absl::StatusOr<v1::SubmitResponse> SweepClient::Submit(
    const std::string& yaml, const std::string& file_name, uint64_t max_cells) {
  v1::SubmitRequest request;
  request.set_sweep_yaml(yaml);
  request.set_file_name(file_name);
  request.set_max_cells(max_cells);
  v1::SubmitResponse response;
  grpc::ClientContext context;
  SetDeadline(&context, std::chrono::seconds(120));
  RETURN_IF_ERROR(
      Explain(FromGrpcStatus(stub_->Submit(&context, request, &response))));
  return response;
}

absl::StatusOr<v1::StatusResponse> SweepClient::Status(
    const std::string& sweep) {
  v1::StatusRequest request;
  request.set_sweep(sweep);
  v1::StatusResponse response;
  grpc::ClientContext context;
  SetDeadline(&context, std::chrono::seconds(20));
  RETURN_IF_ERROR(
      Explain(FromGrpcStatus(stub_->Status(&context, request, &response))));
  return response;
}

absl::StatusOr<v1::CancelResponse> SweepClient::Cancel(
    const std::string& sweep) {
  v1::CancelRequest request;
  request.set_sweep(sweep);
  v1::CancelResponse response;
  grpc::ClientContext context;
  SetDeadline(&context, std::chrono::seconds(20));
  RETURN_IF_ERROR(
      Explain(FromGrpcStatus(stub_->Cancel(&context, request, &response))));
  return response;
}

absl::StatusOr<v1::RetryResponse> SweepClient::Retry(const std::string& sweep,
                                                     const std::string& cause) {
  v1::RetryRequest request;
  request.set_sweep(sweep);
  request.set_cause(cause);
  v1::RetryResponse response;
  grpc::ClientContext context;
  SetDeadline(&context, std::chrono::seconds(120));
  RETURN_IF_ERROR(
      Explain(FromGrpcStatus(stub_->Retry(&context, request, &response))));
  return response;
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
