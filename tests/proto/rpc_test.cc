#include "proto/rpc.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

// The pairs by name, not by number.
const struct {
  absl::StatusCode ours;
  grpc::StatusCode theirs;
} kCodes[] = {
    {absl::StatusCode::kCancelled, grpc::StatusCode::CANCELLED},
    {absl::StatusCode::kUnknown, grpc::StatusCode::UNKNOWN},
    {absl::StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
    {absl::StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
    {absl::StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND},
    {absl::StatusCode::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
    {absl::StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED},
    {absl::StatusCode::kResourceExhausted,
     grpc::StatusCode::RESOURCE_EXHAUSTED},
    {absl::StatusCode::kFailedPrecondition,
     grpc::StatusCode::FAILED_PRECONDITION},
    {absl::StatusCode::kAborted, grpc::StatusCode::ABORTED},
    {absl::StatusCode::kOutOfRange, grpc::StatusCode::OUT_OF_RANGE},
    {absl::StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED},
    {absl::StatusCode::kInternal, grpc::StatusCode::INTERNAL},
    {absl::StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE},
    {absl::StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS},
    {absl::StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED},
};

TEST(RpcTest, EveryCodeAndItsMessageGoBothWays) {
  EXPECT_EQ(std::size(kCodes), 16U);  // all of both, OK apart
  for (const auto& code : kCodes) {
    const absl::Status ours(code.ours, "what went wrong: ü");
    const grpc::Status theirs = ToGrpcStatus(ours);
    EXPECT_EQ(theirs.error_code(), code.theirs);
    EXPECT_EQ(theirs.error_message(), "what went wrong: ü");
    EXPECT_EQ(FromGrpcStatus(theirs), ours);
    EXPECT_EQ(FromGrpcStatus(grpc::Status(code.theirs, "x")).code(), code.ours);
  }
}

TEST(RpcTest, OkIsOk) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_OK(FromGrpcStatus(grpc::Status::OK));
}

TEST(RpcTest, CodeFromAFutureVersionIsAnError) {
  const absl::Status status =
      FromGrpcStatus(grpc::Status(static_cast<grpc::StatusCode>(20), "new"));
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(status.message(), "new");
}

}  // namespace
}  // namespace iclsweep
