#include "worker/tasks/prompt.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/base/streams.h"
#include "worker/tasks/family.h"
#include "worker/tasks/geometry.h"

namespace iclsweep {
namespace {

// What stays the same over the prompts of a block.
struct Recipe {
  uint64_t seed = 0;
  TaskFamily family;
  std::vector<double> scale;  // sqrt(eigenvalue) of every coordinate
};

// x and y of one point.
void FillPoint(const Recipe& recipe, DrawAddress address, Purpose noise,
               const double* task, double* x, double* y) {
  const size_t dims = recipe.scale.size();
  FillNormal(address, static_cast<int64_t>(dims), x);
  for (size_t i = 0; i < dims; ++i) x[i] *= recipe.scale[i];
  address.purpose = noise;
  *y = recipe.family.Label(task, x, address);
}

// Row `row` of the block is prompt number `number`; tasks: [tasks][size].
void FillPrompt(const Recipe& recipe, uint64_t number,
                const std::vector<double>& tasks, int64_t row,
                PromptBlock* block) {
  const int64_t dims = block->dims;
  for (int t = 0; t < block->tasks; ++t) {
    const int64_t task_row = row * block->tasks + t;
    const double* task =
        tasks.data() + static_cast<int64_t>(t) * recipe.family.Size();
    DrawAddress address{.seed = recipe.seed,
                        .purpose = Purpose::kContextInput,
                        .prompt = number,
                        .task = static_cast<uint32_t>(t)};
    for (int m = 0; m < block->examples; ++m) {
      address.example = static_cast<uint32_t>(m);
      const int64_t point = task_row * block->examples + m;
      FillPoint(recipe, address, Purpose::kContextNoise, task,
                &block->inputs[point * dims], &block->labels[point]);
    }
    address.purpose = Purpose::kQueryInput;
    address.example = 0;
    FillPoint(recipe, address, Purpose::kQueryNoise, task,
              &block->queries[task_row * dims], &block->query_labels[task_row]);
  }
}

}  // namespace

int64_t PromptPoints(const v1::PromptParams& prompt) {
  return int64_t{prompt.tasks()} * (int64_t{prompt.examples_per_task()} + 1) +
         1;
}

absl::Status CheckPrompt(const v1::PromptParams& prompt) {
  RETURN_IF_ERROR(CheckFamily(prompt.data(), "prompt.data"));
  const auto too_small = [](absl::string_view field, int value) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " = ", value, " must be at least 1"));
  };
  if (prompt.tasks() < 1) return too_small("prompt.tasks", prompt.tasks());
  if (prompt.examples_per_task() < 1)
    return too_small("prompt.examples_per_task", prompt.examples_per_task());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> Eigenvalues(const v1::DataParams& data) {
  if (data.eigenvalues().empty())
    return std::vector<double>(static_cast<size_t>(std::max(data.dims(), 0)),
                               1.0);
  if (data.eigenvalues_size() != data.dims()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.eigenvalues has ", data.eigenvalues_size(),
                     " values for data.dims = ", data.dims()));
  }
  for (const double value : data.eigenvalues()) {
    if (!(value > 0))
      return absl::InvalidArgumentError(absl::StrCat(
          "data.eigenvalues has a value that is not positive: ", value));
  }
  return std::vector<double>(data.eigenvalues().begin(),
                             data.eigenvalues().end());
}

absl::StatusOr<PromptBlock> DrawPrompts(const v1::PromptParams& prompt,
                                        uint64_t context_seed, int64_t first,
                                        int64_t count) {
  RETURN_IF_ERROR(CheckPrompt(prompt));
  ASSIGN_OR_RETURN(std::vector<double> eigenvalues, Eigenvalues(prompt.data()));
  Recipe recipe{.seed = context_seed,
                .family = TaskFamily(prompt.data()),
                .scale = std::move(eigenvalues)};
  for (double& value : recipe.scale) value = std::sqrt(value);

  const bool fresh = prompt.task_set() == v1::TASK_SET_FRESH;
  TaskSetDraw draw{.seed = static_cast<uint64_t>(prompt.seed())};
  ASSIGN_OR_RETURN(
      std::vector<double> tasks,
      DrawTaskSet(prompt,
                  draw));  // checks the geometry even for an empty block

  PromptBlock block{.prompts = count,
                    .tasks = prompt.tasks(),
                    .examples = prompt.examples_per_task(),
                    .dims = prompt.data().dims(),
                    .inputs = {},
                    .labels = {},
                    .queries = {},
                    .query_labels = {}};
  const size_t queries = static_cast<size_t>(count) * block.tasks;
  const size_t points = queries * block.examples;
  block.inputs.resize(points * block.dims);
  block.labels.resize(points);
  block.queries.resize(queries * block.dims);
  block.query_labels.resize(queries);
  for (int64_t row = 0; row < count; ++row) {
    const auto number = static_cast<uint64_t>(first + row);
    if (fresh) {
      draw.prompt = number;
      ASSIGN_OR_RETURN(tasks, DrawTaskSet(prompt, draw));
    }
    FillPrompt(recipe, number, tasks, row, &block);
  }
  return block;
}

OrderedPrompt InOrder(const PromptBlock& block, int64_t row,
                      const std::vector<int>& order) {
  OrderedPrompt prompt{.tasks = block.tasks,
                       .examples = block.examples,
                       .dims = block.dims,
                       .inputs = {},
                       .labels = {},
                       .queries = {},
                       .query_labels = {}};
  const auto append = [](const std::vector<double>& from, int64_t index,
                         int64_t size, std::vector<double>* to) {
    to->insert(to->end(), from.begin() + index * size,
               from.begin() + (index + 1) * size);
  };
  const int64_t dims = block.dims;
  const int64_t examples = block.examples;
  for (const int task : order) {
    const int64_t task_row = row * block.tasks + task;
    append(block.inputs, task_row, examples * dims, &prompt.inputs);
    append(block.labels, task_row, examples, &prompt.labels);
    append(block.queries, task_row, dims, &prompt.queries);
    append(block.query_labels, task_row, 1, &prompt.query_labels);
  }
  return prompt;
}

}  // namespace iclsweep
