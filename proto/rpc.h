// gRPC odds and ends that everybody needs once: the one pair of status
// conversions, and channels.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace iclsweep {

// The codes are the same numbers; messages pass unchanged.
grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

// A plaintext channel to host:port or unix:/path, with keepalive and without
// proxies.
std::shared_ptr<grpc::Channel> ConnectTo(const std::string& address);

}  // namespace iclsweep
