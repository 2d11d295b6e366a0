// The worker's side of WorkerService: WorkerLink over gRPC. Deadlines on every
// call; retries are the agent's business.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "iclsweep/v1/worker.pb.h"
#include "proto/base/stage.h"
#include "worker/agent/worker_link.h"

namespace iclsweep {

// Runs a leased job's stage on its typed inputs.
using StageRunner = std::function<absl::StatusOr<StageResult>(
    const v1::LeasedJob& job, const StageContext& context)>;

// `runner` is called from the agent's thread.
std::unique_ptr<WorkerLink> MakeGrpcLink(const std::string& coordinator,
                                         Provenance provenance,
                                         StageRunner runner);

}  // namespace iclsweep
