// Unary reactors of the callback API: each turns one RPC into a call posted to
// the loop, and finishes when the loop answers. They decide nothing.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <utility>

#include "coordinator/loop/loop.h"
#include "proto/rpc.h"

namespace iclsweep {

// Lives from the RPC's start until gRPC says it is done; deletes itself.
// `on_cancel` may run on any thread, before Finish at the latest; it only
// posts.
class PostedReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit PostedReactor(std::function<void()> on_cancel = nullptr)
      : on_cancel_(std::move(on_cancel)) {}

  // What the loop calls, once, from its thread.
  std::function<void(absl::Status)> Done() {
    return [this](const absl::Status& status) { Finish(ToGrpcStatus(status)); };
  }

  void OnCancel() override {
    if (on_cancel_) on_cancel_();
  }
  void OnDone() override { delete this; }

 private:
  const std::function<void()> on_cancel_;
};

// Hands an RPC to the loop as it is.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* PostTo(Loop* loop, const Request* request,
                                 Response* response) {
  auto* reactor = new PostedReactor();
  loop->Post(Call<Request, Response>{request, response, reactor->Done()});
  return reactor;
}

}  // namespace iclsweep
