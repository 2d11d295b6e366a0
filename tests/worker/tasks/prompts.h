// Prompt parameters for tests.
#pragma once

#include <iterator>
#include <vector>

#include "iclsweep/v1/params.pb.h"

namespace iclsweep::testing {

inline v1::PromptParams MakePrompt(int tasks, int examples, int dims) {
  v1::PromptParams prompt;
  prompt.set_tasks(tasks);
  prompt.set_examples_per_task(examples);
  prompt.mutable_data()->set_dims(dims);
  return prompt;
}

inline constexpr v1::Family kAllFamilies[] = {
    v1::FAMILY_LINEAR,   v1::FAMILY_SPARSE_LINEAR, v1::FAMILY_NOISY_LINEAR,
    v1::FAMILY_RELU_2NN, v1::FAMILY_QUADRATIC,     v1::FAMILY_DECISION_TREE};
static_assert(std::size(kAllFamilies) == v1::Family_ARRAYSIZE - 1);

inline v1::PromptParams MakeAnglePrompt(int tasks, int dims, double degrees) {
  v1::PromptParams prompt = MakePrompt(tasks, 1, dims);
  prompt.set_geometry(v1::GEOMETRY_ANGLE);
  prompt.set_angle_degrees(degrees);
  return prompt;
}

inline void SetOrder(const std::vector<int>& order, v1::PromptParams* prompt) {
  prompt->clear_task_order();
  for (const int task : order) prompt->add_task_order(task);
}

}  // namespace iclsweep::testing
