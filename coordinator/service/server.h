// A whole coordinator in a data directory: the lock that names its owner, the
// store, the loop and the gRPC server. `serve` and `run` start the same one.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/loop/loop.h"

namespace iclsweep {

struct CoordinatorOptions {
  std::string data_dir;
  std::string listen;     // host:port (port 0 = any) or unix:/path
  bool insecure = false;  // plaintext on an address that is not loopback
  LoopOptions loop;       // paths and owner are filled in
};

class Coordinator {
 public:
  // InvalidArgument: address or intervals. FailedPrecondition: newer schema, or
  // another live coordinator owns the directory (named). DataLoss, Unavailable:
  // database or directory.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(
      CoordinatorOptions options);
  ~Coordinator();  // stops

  // What clients connect to.
  const std::string& address() const { return address_; }
  Loop* loop() { return loop_.get(); }
  // Answers what waits, closes the server, releases the directory. Idempotent.
  void Stop();

 private:
  Coordinator() = default;
  absl::Status Listen(const CoordinatorOptions& options);

  struct Server;
  int lock_fd_ = -1;
  std::string address_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Server> server_;
};

// Names inside a data directory.
std::string DatabaseFile(const std::string& data_dir);
std::string ArtifactDir(const std::string& data_dir);
// Absolute form of a path that may not exist yet.
std::string Absolute(const std::string& path);

}  // namespace iclsweep
