// A whole coordinator in a fresh data directory, and clients of it.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/server.h"
#include "iclsweep/v1/sweep.grpc.pb.h"
#include "iclsweep/v1/worker.grpc.pb.h"
#include "proto/rpc.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

namespace iclsweep::testing {

class ServiceFixture : public ::testing::Test {
 protected:
  CoordinatorOptions Options() const {
    CoordinatorOptions options;
    options.data_dir = dir_.Path("data");
    options.listen = absl::StrCat("unix:", dir_.Path("socket"));
    return options;
  }
  void Start(const CoordinatorOptions& options) {
    ASSERT_OK_AND_ASSIGN(coordinator_, Coordinator::Start(options));
    channel_ = ConnectTo(coordinator_->address());
    sweeps_ = v1::SweepService::NewStub(channel_);
    workers_ = v1::WorkerService::NewStub(channel_);
  }
  std::vector<std::string> Rows(const std::string& sql) {
    return CommittedRows(DatabaseFile(dir_.Path("data")), sql);
  }

  absl::Status Submit(const std::string& yaml, v1::SubmitResponse* response,
                      uint64_t max_cells = 0) {
    grpc::ClientContext context;
    v1::SubmitRequest request;
    request.set_sweep_yaml(yaml);
    request.set_file_name("my.yaml");
    request.set_max_cells(max_cells);
    return FromGrpcStatus(sweeps_->Submit(&context, request, response));
  }
  absl::StatusOr<v1::StatusResponse> Status(const std::string& sweep) {
    grpc::ClientContext context;
    v1::StatusRequest request;
    request.set_sweep(sweep);
    v1::StatusResponse response;
    const absl::Status status =
        FromGrpcStatus(sweeps_->Status(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  // A worker that runs noop jobs; its id.
  int64_t Register(const std::string& slot) {
    grpc::ClientContext context;
    v1::RegisterRequest request;
    request.set_slot_uuid(slot);
    request.set_format_version(kKeyFormatVersion);
    v1::StageNumerics* numerics = request.add_numerics();
    numerics->set_stage("noop");
    numerics->set_version(NumericsVersion(Stage::kNoop));
    v1::RegisterResponse response;
    EXPECT_OK(FromGrpcStatus(workers_->Register(&context, request, &response)));
    return response.worker_id();
  }
  // A round trip through the server and the loop.
  void RoundTrip(int64_t worker) {
    grpc::ClientContext context;
    v1::SyncRequest request;
    request.set_worker_id(worker);
    v1::SyncResponse response;
    EXPECT_OK(FromGrpcStatus(workers_->Sync(&context, request, &response)));
  }

  // A Lease call under way.
  struct Poll {
    grpc::ClientContext context;
    v1::LeaseRequest request;
    v1::LeaseResponse response;
    std::promise<grpc::Status> done;
    absl::Status Wait() { return FromGrpcStatus(done.get_future().get()); }
  };
  std::unique_ptr<Poll> StartPoll(int64_t worker, const std::string& request) {
    auto poll = std::make_unique<Poll>();
    poll->request.set_worker_id(worker);
    poll->request.set_request_id(request);
    poll->request.set_wait_ms(30'000);
    workers_->async()->Lease(&poll->context, &poll->request, &poll->response,
                             [p = poll.get()](const grpc::Status& status) {
                               p->done.set_value(status);
                             });
    return poll;
  }

  TempDir dir_;
  std::unique_ptr<Coordinator> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::SweepService::Stub> sweeps_;
  std::unique_ptr<v1::WorkerService::Stub> workers_;
};

// One cell per index, so different indices are different jobs.
inline std::string NoopSweep(const std::string& name, int first, int end) {
  return absl::StrCat("name: ", name, "\ngrid: {noop.index: {range: [", first,
                      ", ", end, "]}}\nnoop: {}\n");
}

}  // namespace iclsweep::testing
