#include "worker/child.h"

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "spdlog/spdlog.h"
#include "worker/agent/agent.h"
#include "worker/agent/slot.h"
#include "worker/device.h"
#include "worker/fault.h"
#include "worker/link/grpc_link.h"
#include "worker/node/parent.h"
#include "worker/stages.h"

namespace iclsweep {
namespace {

constexpr int64_t kSlotWaitUs = 60'000'000;

// An earlier process of this slot may still be saving its checkpoint.
// Cancelled when one of `signals` comes meanwhile.
absl::StatusOr<std::unique_ptr<Slot>> OpenSlot(const std::string& directory,
                                               const sigset_t& signals) {
  const int64_t since = RealClock()->MonotonicMicros();
  absl::StatusOr<std::unique_ptr<Slot>> slot = Slot::Open(directory);
  if (absl::IsFailedPrecondition(slot.status()))
    spdlog::warn("{}; waiting for it, {} s at most",
                 std::string(slot.status().message()), kSlotWaitUs / 1'000'000);
  while (absl::IsFailedPrecondition(slot.status()) &&
         RealClock()->MonotonicMicros() - since < kSlotWaitUs) {
    const timespec pause{0, 20'000'000};
    if (::sigtimedwait(&signals, nullptr, &pause) > 0)
      return absl::CancelledError("told to stop");
    slot = Slot::Open(directory);
  }
  return slot;
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  spdlog::error("{}", std::string(status.message()));
  return absl::IsFailedPrecondition(status) ? 4 : 3;
}

}  // namespace

int RunChild(const ChildOptions& options) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1})
    sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread exists
  if (!FollowParent()) return 0;  // the node agent is gone already

  absl::StatusOr<std::unique_ptr<Slot>> slot =
      OpenSlot(options.slot_dir, signals);
  if (absl::IsCancelled(slot.status())) return 0;
  if (!slot.ok()) return ExitCode(slot.status());
  const absl::StatusOr<Provenance> provenance =
      SetUpDevice(options.device, options.threads);
  if (!provenance.ok()) return ExitCode(provenance.status());

  AgentOptions agent_options;
  agent_options.slot_name =
      absl::StrCat(provenance->host, "/", options.slot_name);
  agent_options.provenance = *provenance;
  agent_options.device = options.device;
  agent_options.idle_timeout_us = options.idle_timeout_us;
  agent_options.bundle = options.bundle;
  agent_options.fault = FaultHookFromEnvironment();
  Checkpoints checkpoints;
  const std::unique_ptr<WorkerLink> link =
      MakeGrpcLink(options.coordinator, *provenance,
                   [&](const v1::LeasedJob& job, const StageContext& context) {
                     return RunStage(job, context, &checkpoints);
                   });
  Agent agent(agent_options, link.get(), slot->get(), RealClock());

  std::jthread signal_thread([&](const std::stop_token& stop) {
    int received = 0;
    while (!stop.stop_requested()) {
      const timespec timeout{0, 100'000'000};
      if (::sigtimedwait(&signals, nullptr, &timeout) < 0) continue;
      if (++received > 1) ::_exit(130);
      agent.Stop(Cause::kPreempted);
    }
  });
  return ExitCode(agent.Run());
}

}  // namespace iclsweep
