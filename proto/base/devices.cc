#include "proto/base/devices.h"

#include <sched.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace iclsweep {
namespace {

// The devices this process may use. As CUDA does, a list ends at its first
// empty or negative entry.
std::vector<std::string> VisibleGpus(const DevicesFound& found) {
  std::vector<std::string> gpus;
  if (!found.visible_is_set) {
    for (int i = 0; i < found.gpus; ++i) gpus.push_back(absl::StrCat(i));
    return gpus;
  }
  for (const absl::string_view part :
       absl::StrSplit(found.preset_visible, ',')) {
    const std::string entry(absl::StripAsciiWhitespace(part));
    if (entry.empty() || entry == "-1" || absl::StartsWith(entry, "-")) break;
    gpus.push_back(entry);
  }
  return found.gpus > 0 ? gpus : std::vector<std::string>();
}

}  // namespace

absl::StatusOr<std::vector<SlotPlan>> PlanSlots(const DeviceWish& wish,
                                                const DevicesFound& found) {
  if (wish.device != "auto" && wish.device != "cpu" && wish.device != "cuda") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device ", wish.device, ": must be auto, cpu or cuda"));
  }
  if (wish.slots_per_device < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--slots-per-device ", wish.slots_per_device, ": must be at least 1"));
  }
  const std::vector<std::string> gpus =
      wish.device == "cpu" ? std::vector<std::string>() : VisibleGpus(found);
  if (wish.device == "cuda" && gpus.empty()) {
    return absl::FailedPreconditionError(
        found.gpus == 0
            ? "--device cuda: this machine has no NVIDIA device"
            : absl::StrCat("--device cuda: CUDA_VISIBLE_DEVICES='",
                           found.preset_visible, "' leaves no device"));
  }
  std::vector<SlotPlan> slots;
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    for (int copy = 0; copy < wish.slots_per_device; ++copy) {
      const std::string suffix =
          wish.slots_per_device > 1 ? absl::StrCat(".", copy) : "";
      slots.push_back({absl::StrCat("cuda-", gpu, suffix), "cuda", gpus[gpu]});
    }
  }
  if (!slots.empty()) return slots;
  const int count =
      wish.cpu_slots > 0 ? wish.cpu_slots : std::max(found.cores, 1);
  for (int i = 0; i < count; ++i)
    slots.push_back({absl::StrCat("cpu-", i), "cpu", ""});
  return slots;
}

DevicesFound FindDevices() {
  DevicesFound found;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  found.cores = ::sched_getaffinity(0, sizeof(cores), &cores) == 0
                    ? CPU_COUNT(&cores)
                    : static_cast<int>(std::thread::hardware_concurrency());
  if (const char* preset = std::getenv("CUDA_VISIBLE_DEVICES")) {
    found.visible_is_set = true;
    found.preset_visible = preset;
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "nvidia") && name.size() > 6 &&
        std::all_of(name.begin() + 6, name.end(), [](char c) {
          return absl::ascii_isdigit(static_cast<unsigned char>(c));
        })) {
      ++found.gpus;
    }
  }
  return found;
}

std::string CpuCapability() {
  if (const char* preset = std::getenv("ATEN_CPU_CAPABILITY")) return preset;
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma")) {
    return "avx512";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return "avx2";
  return "default";
}

}  // namespace iclsweep
