#include "proto/base/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::StatusIs;

DevicesFound Machine(int cores, int gpus,
                     const std::optional<std::string>& visible = std::nullopt) {
  DevicesFound found;
  found.cores = cores;
  found.gpus = gpus;
  found.visible_is_set = visible.has_value();
  found.preset_visible = visible.value_or("");
  return found;
}

DeviceWish Wish(const std::string& device, int slots_per_device = 1,
                int cpu_slots = 0) {
  DeviceWish wish;
  wish.device = device;
  wish.slots_per_device = slots_per_device;
  wish.cpu_slots = cpu_slots;
  return wish;
}

TEST(PlanSlotsTest, SlotsFollowTheMachineTheWishAndWhatIsVisible) {
  using Slots = std::vector<std::string>;
  const struct {
    const char* name;
    DeviceWish wish;
    DevicesFound found;
    Slots slots;  // name device visible_gpus
  } cases[] = {
      {"no GPU: one slot per core",
       Wish("auto"),
       Machine(2, 0),
       {"cpu-0 cpu ", "cpu-1 cpu "}},
      {"every GPU",
       Wish("auto"),
       Machine(8, 2),
       {"cuda-0 cuda 0", "cuda-1 cuda 1"}},
      {"unset, asked for", Wish("cuda"), Machine(8, 1), {"cuda-0 cuda 0"}},
      {"empty: none", Wish("auto"), Machine(1, 2, ""), {"cpu-0 cpu "}},
      {"-1: none", Wish("auto"), Machine(1, 2, "-1"), {"cpu-0 cpu "}},
      {"one index", Wish("auto"), Machine(8, 4, "1"), {"cuda-0 cuda 1"}},
      {"two indices",
       Wish("auto"),
       Machine(8, 4, "3,1"),
       {"cuda-0 cuda 3", "cuda-1 cuda 1"}},
      {"spaces",
       Wish("auto"),
       Machine(8, 4, " 0 , 1 "),
       {"cuda-0 cuda 0", "cuda-1 cuda 1"}},
      {"by name",
       Wish("auto"),
       Machine(8, 4, "GPU-8932f937-d72c-4106"),
       {"cuda-0 cuda GPU-8932f937-d72c-4106"}},
      {"slices",
       Wish("auto"),
       Machine(8, 1, "MIG-a1,MIG-b2"),
       {"cuda-0 cuda MIG-a1", "cuda-1 cuda MIG-b2"}},
      {"ends at an empty entry",
       Wish("auto"),
       Machine(8, 4, "0,,1"),
       {"cuda-0 cuda 0"}},
      {"ends at a negative one",
       Wish("auto"),
       Machine(8, 4, "0,-1,1"),
       {"cuda-0 cuda 0"}},
      {"begins with an empty one",
       Wish("auto"),
       Machine(1, 4, ",1"),
       {"cpu-0 cpu "}},
      {"visible without a device",
       Wish("auto"),
       Machine(1, 0, "0"),
       {"cpu-0 cpu "}},
      {"CPU although there are GPUs",
       Wish("cpu"),
       Machine(1, 4),
       {"cpu-0 cpu "}},
      {"several slots on a device",
       Wish("cuda", 2),
       Machine(8, 2, "1,0"),
       {"cuda-0.0 cuda 1", "cuda-0.1 cuda 1", "cuda-1.0 cuda 0",
        "cuda-1.1 cuda 0"}},
      {"several slots do not multiply CPUs",
       Wish("auto", 4),
       Machine(1, 0),
       {"cpu-0 cpu "}},
      {"CPU slots as asked",
       Wish("cpu", 1, 3),
       Machine(64, 0),
       {"cpu-0 cpu ", "cpu-1 cpu ", "cpu-2 cpu "}},
      {"no core known", Wish("cpu"), Machine(0, 0), {"cpu-0 cpu "}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    ASSERT_OK_AND_ASSIGN(const std::vector<SlotPlan> plan,
                         PlanSlots(c.wish, c.found));
    Slots slots;
    for (const SlotPlan& slot : plan)
      slots.push_back(
          absl::StrCat(slot.name, " ", slot.device, " ", slot.visible_gpus));
    EXPECT_THAT(slots, ElementsAreArray(c.slots));
  }
}

TEST(PlanSlotsTest, UnknownDeviceIsInvalid) {
  for (const char* device : {"gpu", "", "CUDA", "cuda:0"}) {
    EXPECT_THAT(PlanSlots(Wish(device), Machine(1, 1)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("auto, cpu or cuda")));
  }
}

TEST(PlanSlotsTest, GpusThatAreAskedForMustBeThere) {
  EXPECT_THAT(PlanSlots(Wish("cuda"), Machine(8, 0)).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no NVIDIA device")));
  for (const char* visible : {"", "-1", ",0"}) {
    EXPECT_THAT(
        PlanSlots(Wish("cuda"), Machine(8, 2, visible)).status(),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr(absl::StrCat("CUDA_VISIBLE_DEVICES='", visible,
                                        "' leaves no device"))));
  }
}

TEST(PlanSlotsTest, SlotsPerDeviceBelowOneAreInvalid) {
  for (const int count : {0, -1}) {
    EXPECT_THAT(PlanSlots(Wish("auto", count), Machine(8, 2)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--slots-per-device")));
  }
}

TEST(FindDevicesTest, ReadsTheEnvironment) {
  ASSERT_EQ(::setenv("CUDA_VISIBLE_DEVICES", "GPU-x", 1), 0);
  const DevicesFound set = FindDevices();
  EXPECT_TRUE(set.visible_is_set);
  EXPECT_EQ(set.preset_visible, "GPU-x");
  EXPECT_GE(set.cores, 1);
  ASSERT_EQ(::unsetenv("CUDA_VISIBLE_DEVICES"), 0);
  EXPECT_FALSE(FindDevices().visible_is_set);
}

TEST(CpuCapabilityTest, PresetIsTakenAsItIs) {
  ASSERT_EQ(::setenv("ATEN_CPU_CAPABILITY", "default", 1), 0);
  EXPECT_EQ(CpuCapability(), "default");
  ASSERT_EQ(::unsetenv("ATEN_CPU_CAPABILITY"), 0);
  EXPECT_THAT(CpuCapability(), ::testing::AnyOf("default", "avx2", "avx512"));
}

}  // namespace
}  // namespace iclsweep
