// The steps of a training as stage `train` makes them, timed from one report of
// progress to the next: drawing prompts, both passes, the update. One line of
// JSON: the milliseconds of every step but the first two, by the wall clock and
// in CPU time of the process.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "iclsweep/v1/params.pb.h"
#include "worker/device.h"
#include "worker/train/run.h"

namespace {

constexpr size_t kWarmUp = 2;

double Milliseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return 1e3 * static_cast<double>(now.tv_sec) +
         1e-6 * static_cast<double>(now.tv_nsec);
}

std::string Steps(const std::vector<double>& times) {
  std::string text;
  for (size_t i = kWarmUp + 1; i < times.size(); ++i)
    absl::StrAppend(&text, text.empty() ? "" : ", ", times[i] - times[i - 1]);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) {
    std::fprintf(stderr,
                 "usage: %s LAYERS HEADS WIDTH DIMS POINTS BATCH THREADS "
                 "STEPS\n",
                 argv[0]);
    return 2;
  }
  const auto number = [&](int i) { return std::atoi(argv[i]); };
  iclsweep::v1::TrainInputs inputs;
  inputs.mutable_model()->set_layers(number(1));
  inputs.mutable_model()->set_heads(number(2));
  inputs.mutable_model()->set_width(number(3));
  inputs.mutable_data()->set_dims(number(4));
  inputs.mutable_train()->set_points(number(5));
  inputs.mutable_train()->set_batch(number(6));
  inputs.mutable_train()->set_steps(number(8));
  inputs.mutable_train()->set_validation_prompts(2);
  const auto device = iclsweep::SetUpDevice("cpu", number(7));
  if (!device.ok()) return 3;
  std::string folder =
      (std::filesystem::temp_directory_path() / "train-step-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 3;
  std::vector<double> wall;
  std::vector<double> cpu;
  iclsweep::StageContext context;
  context.device_kind = device->device_kind;
  context.artifact_dir = folder;
  context.artifact_name = "model";
  context.progress = [&](int64_t, int64_t, int64_t, bool) {
    wall.push_back(Milliseconds(CLOCK_MONOTONIC));
    cpu.push_back(Milliseconds(CLOCK_PROCESS_CPUTIME_ID));
  };
  const auto result = iclsweep::Train(inputs, context);
  std::filesystem::remove_all(folder);
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return 3;
  }
  std::printf("{\"wall\": [%s], \"cpu\": [%s]}\n", Steps(wall).c_str(),
              Steps(cpu).c_str());
  return 0;
}
