#include "coordinator/service/reactors.h"
#include "coordinator/service/services.h"

namespace iclsweep {
grpc::ServerUnaryReactor* WorkerServiceImpl::Register(
    grpc::CallbackServerContext* context, const v1::RegisterRequest* request,
    v1::RegisterResponse* response) {
  if (request->slot_uuid().empty()) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                 "register.slot_uuid: must not be empty"));
    return reactor;
  }
  return PostTo(loop_, request, response);
}

grpc::ServerUnaryReactor* WorkerServiceImpl::Lease(
    grpc::CallbackServerContext* context, const v1::LeaseRequest* request,
    v1::LeaseResponse* response) {
  if (request->request_id().empty()) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                 "lease.request_id: must not be empty"));
    return reactor;
  }
  Loop* loop = loop_;
  const LeaseCancelled cancelled{WorkerId{request->worker_id()},
                                 request->request_id()};
  auto* reactor =
      new PostedReactor([loop, cancelled] { loop->Post(cancelled); });
  loop->Post(LeaseCall{request, response, reactor->Done()});
  return reactor;
}

grpc::ServerUnaryReactor* WorkerServiceImpl::Sync(
    grpc::CallbackServerContext* /*context*/, const v1::SyncRequest* request,
    v1::SyncResponse* response) {
  return PostTo(loop_, request, response);
}

grpc::ServerUnaryReactor* WorkerServiceImpl::Complete(
    grpc::CallbackServerContext* /*context*/,
    const v1::CompleteRequest* request, v1::CompleteResponse* response) {
  return PostTo(loop_, request, response);
}

grpc::ServerUnaryReactor* WorkerServiceImpl::Release(
    grpc::CallbackServerContext* /*context*/, const v1::ReleaseRequest* request,
    v1::ReleaseResponse* response) {
  return PostTo(loop_, request, response);
}

}  // namespace iclsweep
