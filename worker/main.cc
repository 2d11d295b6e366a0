// iclsweep-worker: the node agent, and (as its own child) the process of one
// slot. Wiring only.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/address.h"
#include "proto/base/build_info.h"
#include "proto/base/devices.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"
#include "worker/child.h"
#include "worker/device.h"
#include "worker/model/predict.h"
#include "worker/node/node_agent.h"
#include "worker/node/parent.h"

namespace iclsweep {
namespace {

struct Arguments {
  std::string coordinator;
  std::string work_dir = "./iclsweep-worker";
  DeviceWish wish;
  int threads = 1;
  std::string idle_timeout;
  uint32_t bundle = 256;
  // hidden: the process of one slot
  std::string slot_dir;
  std::string slot_name;
  // predict
  std::string checkpoint;
  std::string prompts;
  std::string out;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "iclsweep-worker: %s\n",
               std::string(status.message()).c_str());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
      return 2;
    case absl::StatusCode::kFailedPrecondition:
      return 4;
    default:
      return 3;
  }
}

std::string OwnPath() {
  std::array<char, 4096> path{};
  const ssize_t size =
      ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size))
                  : std::string();
}

absl::StatusOr<int64_t> Micros(const std::string& duration) {
  if (duration.empty()) return 0;
  absl::Duration parsed;
  if (!absl::ParseDuration(duration, &parsed) ||
      parsed < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--idle-timeout ", duration,
                     ": must be a duration such as 90s, 10m or 2h"));
  }
  return absl::ToInt64Microseconds(parsed);
}

int RunNodeAgent(const Arguments& arguments) {
  if (arguments.coordinator.empty()) {
    return Fail(
        absl::InvalidArgumentError("--coordinator is required (host:port or "
                                   "unix:/path), or ICLSWEEP_COORDINATOR"));
  }
  const absl::Status form =
      ParseAddress("--coordinator", arguments.coordinator).status();
  if (!form.ok()) return Fail(form);
  if (!FollowParent()) return 0;  // `iclsweep run` is gone already
  const absl::StatusOr<std::vector<SlotPlan>> slots =
      PlanSlots(arguments.wish, FindDevices());
  if (!slots.ok()) return Fail(slots.status());
  NodeOptions options;
  options.program = OwnPath();
  options.coordinator = arguments.coordinator;
  options.work_dir = arguments.work_dir;
  options.threads_per_slot = arguments.threads;
  options.idle_timeout = arguments.idle_timeout;
  options.bundle = arguments.bundle;
  options.slots = *slots;
  return NodeAgent(options).Run();
}

int RunSlot(const Arguments& arguments, int64_t idle_timeout_us) {
  ChildOptions options;
  options.coordinator = arguments.coordinator;
  options.slot_dir = arguments.slot_dir;
  options.slot_name = arguments.slot_name;
  options.device = arguments.wish.device;
  options.threads = arguments.threads;
  options.idle_timeout_us = idle_timeout_us;
  options.bundle = arguments.bundle;
  return RunChild(options);
}

CLI::App* AddPredict(CLI::App* app, Arguments* arguments) {
  CLI::App* predict =
      app->add_subcommand("predict",
                          "Predictions of a checkpoint for given prompts, to "
                          "compare with other programs.");
  predict
      ->add_option("checkpoint", arguments->checkpoint,
                   "folder with model.safetensors and config.json")
      ->required();
  predict
      ->add_option("prompts", arguments->prompts,
                   "safetensors with xs [B, n, d] and ys [B, n], F32 or F64")
      ->required();
  predict
      ->add_option(
          "out", arguments->out,
          "safetensors to write: pred [B, n] in the dtype of the prompts")
      ->required();
  return predict;
}

int RunPredict(Arguments arguments) {
  // The weights file stands for its folder.
  if (std::filesystem::is_regular_file(arguments.checkpoint)) {
    arguments.checkpoint =
        std::filesystem::absolute(arguments.checkpoint).parent_path().string();
  }
  const absl::Status status =
      Predict(arguments.checkpoint, arguments.prompts, arguments.out);
  return status.ok() ? 0 : Fail(status);
}

int Main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("worker"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  Arguments arguments;
  CLI::App app(
      "iclsweep-worker: trains and evaluates what a coordinator hands out; one "
      "process per GPU or CPU core.");
  app.set_version_flag("--version",
                       absl::StrCat("iclsweep-worker ", ProgramVersion(), " (",
                                    BuildVersion(), ")"));
  app.add_option("--coordinator", arguments.coordinator,
                 "host:port or unix:/path of the coordinator")
      ->envname("ICLSWEEP_COORDINATOR");
  app.add_option("--work-dir", arguments.work_dir,
                 "slot directories, spool and logs")
      ->capture_default_str();
  app.add_option("--device", arguments.wish.device,
                 "auto, cpu or cuda; auto = every visible GPU, else the CPU")
      ->capture_default_str();
  app.add_option("--slots-per-device", arguments.wish.slots_per_device,
                 "worker processes per GPU")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--cpu-slots", arguments.wish.cpu_slots,
                 "worker processes on the CPU; 0 = one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--threads-per-slot", arguments.threads,
                 "threads of one worker process; part of a result's provenance")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--idle-timeout", arguments.idle_timeout,
                 "exit after so long without work (90s, 10m); default: never");
  app.add_option("--bundle", arguments.bundle,
                 "most small jobs that a process leases at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--slot-dir", arguments.slot_dir)->group("");
  app.add_option("--slot-name", arguments.slot_name)->group("");
  CLI::App* predict = AddPredict(&app, &arguments);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return absl::StrCat("iclsweep-worker: ", error.what(),
                        " (--help says more)\n");
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  if (predict->parsed()) return RunPredict(arguments);
  const absl::StatusOr<int64_t> idle = Micros(arguments.idle_timeout);
  if (!idle.ok()) return Fail(idle.status());
  return arguments.slot_dir.empty() ? RunNodeAgent(arguments)
                                    : RunSlot(arguments, *idle);
}

}  // namespace
}  // namespace iclsweep

int main(int argc, char** argv) { return iclsweep::Main(argc, argv); }
