// The gRPC services: every method checks its request and posts it to the loop,
// or answers from a read-only connection.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/loop/loop.h"
#include "coordinator/service/watch.h"
#include "iclsweep/v1/sweep.grpc.pb.h"
#include "iclsweep/v1/worker.grpc.pb.h"
#include "storage/sqlite/database.h"

namespace iclsweep {

class WorkerServiceImpl final : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerServiceImpl(Loop* loop) : loop_(loop) {}

  grpc::ServerUnaryReactor* Register(grpc::CallbackServerContext* context,
                                     const v1::RegisterRequest* request,
                                     v1::RegisterResponse* response) override;
  grpc::ServerUnaryReactor* Lease(grpc::CallbackServerContext* context,
                                  const v1::LeaseRequest* request,
                                  v1::LeaseResponse* response) override;
  grpc::ServerUnaryReactor* Sync(grpc::CallbackServerContext* context,
                                 const v1::SyncRequest* request,
                                 v1::SyncResponse* response) override;
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const v1::CompleteRequest* request,
                                     v1::CompleteResponse* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override;

 private:
  Loop* const loop_;  // must outlive this
};

class SweepServiceImpl final : public v1::SweepService::CallbackService {
 public:
  SweepServiceImpl(Loop* loop, const std::string& database_file,
                   const std::string& artifact_dir)
      : loop_(loop),
        database_file_(database_file),
        artifact_dir_(artifact_dir),
        watches_(database_file,
                 [this](v1::WatchResponse* response) { Complete(response); }) {}

  // Ends what would keep the server from shutting down.
  void Stop() { watches_.Stop(); }

  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context,
                                   const v1::SubmitRequest* request,
                                   v1::SubmitResponse* response) override;
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::StatusRequest* request,
                                   v1::StatusResponse* response) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override;
  grpc::ServerUnaryReactor* Retry(grpc::CallbackServerContext* context,
                                  const v1::RetryRequest* request,
                                  v1::RetryResponse* response) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override;
  grpc::ServerUnaryReactor* ListWorkers(
      grpc::CallbackServerContext* context,
      const v1::ListWorkersRequest* request,
      v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchResponse>* Watch(
      grpc::CallbackServerContext* context,
      const v1::WatchRequest* request) override;

 private:
  // What only the loop knows of a sweep.
  void AddLive(v1::SweepStatus* status) const;
  void Complete(v1::WatchResponse* response) const;

  Loop* const loop_;  // must outlive this
  const std::string database_file_;
  const std::string artifact_dir_;
  Watches watches_;
};

// The handlers that only read, callable without a server.
// Status of a sweep by its name. REQUIRES: a transaction is open, so that all
// numbers are of one moment.
absl::StatusOr<v1::SweepStatus> ReadSweepStatus(Database* database,
                                                const std::string& name);
// Status of one sweep (the newest when `request` names none). NotFound names
// the sweep.
absl::StatusOr<v1::StatusResponse> ReadStatus(const std::string& database_file,
                                              const v1::StatusRequest& request);
}  // namespace iclsweep
