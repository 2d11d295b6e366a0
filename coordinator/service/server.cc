#include "coordinator/service/server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/service/data_dir.h"
#include "coordinator/service/listen_address.h"
#include "coordinator/service/services.h"
#include "proto/base/status_macros.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {

struct Coordinator::Server {
  WorkerServiceImpl workers;
  SweepServiceImpl sweeps;
  std::unique_ptr<grpc::Server> grpc;

  Server(Loop* loop, const std::string& data_dir)
      : workers(loop),
        sweeps(loop, DatabaseFile(data_dir), ArtifactDir(data_dir)) {}
};

std::string DatabaseFile(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/iclsweep.db");
}

std::string ArtifactDir(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/artifacts");
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

namespace {

// A file in the artifact directory that holds the database's UUID: a worker
// that can read it shares the directory.
absl::Status WriteProbe(const std::string& artifact_dir,
                        const std::string& name, const std::string& uuid) {
  std::ofstream file(absl::StrCat(artifact_dir, "/", name), std::ios::trunc);
  file << uuid << "\n";
  file.close();
  if (!file)
    return absl::UnavailableError(absl::StrCat(
        "cannot write ", artifact_dir, "/", name, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(
    CoordinatorOptions options) {
  RETURN_IF_ERROR(CheckListenAddress(options.listen, options.insecure));
  RETURN_IF_ERROR(CheckLoopOptions(options.loop));
  std::unique_ptr<Coordinator> coordinator(new Coordinator());
  options.data_dir = Absolute(options.data_dir);
  ASSIGN_OR_RETURN(coordinator->lock_fd_, LockDataDir(options.data_dir));
  ASSIGN_OR_RETURN(coordinator->store_,
                   OpenSqliteStore(DatabaseFile(options.data_dir)));
  options.loop.owner = ThisProcess();
  options.loop.artifact_dir = ArtifactDir(options.data_dir);
  options.loop.partial_dir = absl::StrCat(options.data_dir, "/partial");
  options.loop.log_dir = absl::StrCat(options.data_dir, "/logs");
  options.loop.artifact_probe = ".iclsweep-probe";
  ASSIGN_OR_RETURN(const std::string uuid, coordinator->store_->DatabaseUuid());
  RETURN_IF_ERROR(
      WriteProbe(options.loop.artifact_dir, options.loop.artifact_probe, uuid));
  ASSIGN_OR_RETURN(
      coordinator->loop_,
      Loop::Start(options.loop, coordinator->store_.get(), RealClock()));
  RETURN_IF_ERROR(coordinator->Listen(options));
  RETURN_IF_ERROR(TellAddress(coordinator->lock_fd_, coordinator->address_));
  return coordinator;
}

absl::Status Coordinator::Listen(const CoordinatorOptions& options) {
  // What goes wrong is told by Listen's error, in one line.
  ::setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  grpc::EnableDefaultHealthCheckService(true);
  server_ = std::make_unique<Server>(loop_.get(), options.data_dir);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(),
                           &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.RegisterService(&server_->workers);
  builder.RegisterService(&server_->sweeps);
  server_->grpc = builder.BuildAndStart();
  if (server_->grpc == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", options.listen, ": it was taken meanwhile"));
  }
  address_ = options.listen;
  const size_t colon = address_.rfind(':');
  if (absl::EndsWith(address_, ":0") && port > 0)
    address_ = absl::StrCat(address_.substr(0, colon), ":", port);
  return absl::OkStatus();
}

void Coordinator::Stop() {
  if (loop_ != nullptr)
    loop_->Stop();  // answers every parked call, so that the shutdown below has
                    // nothing to wait for
  if (server_ != nullptr && server_->grpc != nullptr) {
    server_->sweeps.Stop();
    server_->grpc->Shutdown(std::chrono::system_clock::now() +
                            std::chrono::seconds(2));
  }
  server_.reset();
  loop_.reset();
  store_.reset();
  if (lock_fd_ >= 0) ::close(std::exchange(lock_fd_, -1));
}

Coordinator::~Coordinator() { Stop(); }

}  // namespace iclsweep
