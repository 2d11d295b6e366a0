// Which slots a node offers: one per visible GPU, else one per CPU core. Pure
// decisions on what was found.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace iclsweep {

struct SlotPlan {
  std::string name;  // cpu-0, cuda-1, cuda-1.0 with several slots on one device
  std::string device;  // "cpu" or "cuda"
  std::string
      visible_gpus;  // for CUDA_VISIBLE_DEVICES of the child; empty for the CPU
};

struct DeviceWish {
  std::string device = "auto";  // auto, cpu, cuda
  int slots_per_device = 1;
  int cpu_slots = 0;  // 0 = one per core
};

// What the machine has.
struct DevicesFound {
  int cores = 1;
  std::string preset_visible;  // CUDA_VISIBLE_DEVICES of this process: indices,
                               // GPU-… or MIG-… names
  bool visible_is_set = false;
  int gpus = 0;  // device nodes of the NVIDIA driver
};

// InvalidArgument: an unknown device, or less than one slot per device.
// FailedPrecondition: GPUs were asked for and there is none.
absl::StatusOr<std::vector<SlotPlan>> PlanSlots(const DeviceWish& wish,
                                                const DevicesFound& found);

DevicesFound FindDevices();

// The CPU instruction set whose kernels LibTorch will be told to use: avx512,
// avx2 or default.
std::string CpuCapability();

}  // namespace iclsweep
