#include "worker/evaluate/model_pass.h"

#include "ATen/ATen.h"

namespace iclsweep {
namespace {

// Rows of one task in a double array [prompts][tasks][size] as a float32 tensor
// [prompts, size] on the CPU.
at::Tensor TaskRows(const std::vector<double>& values, const PromptBlock& block,
                    int task, int64_t size) {
  at::Tensor out =
      at::empty({block.prompts, size}, at::TensorOptions().dtype(at::kFloat));
  float* to = out.mutable_data_ptr<float>();
  for (int64_t row = 0; row < block.prompts; ++row) {
    const double* from =
        &values[static_cast<size_t>((row * block.tasks + task) * size)];
    for (int64_t i = 0; i < size; ++i) *to++ = static_cast<float>(from[i]);
  }
  return out;
}

// The tokens of a task's block, [prompts, 2(M+1), dims]; the query's label is
// 0.
at::Tensor BlockTokens(const PromptBlock& block, int task) {
  const int64_t examples = block.examples;
  const at::Tensor xs =
      TaskRows(block.inputs, block, task, examples * block.dims)
          .view({-1, examples, block.dims});
  const at::Tensor query =
      TaskRows(block.queries, block, task, block.dims).unsqueeze(1);
  const at::Tensor ys = TaskRows(block.labels, block, task, examples);
  return Interleave(at::cat({xs, query}, 1), at::constant_pad_nd(ys, {0, 1}));
}

at::Tensor FinalTokens(const PromptBlock& block,
                       const std::vector<int>& order) {
  std::vector<at::Tensor> queries;
  queries.reserve(order.size());
  for (const int task : order)
    queries.push_back(TaskRows(block.queries, block, task, block.dims));
  return at::stack(queries, 1);
}

// outputs: per position [prompts], or stacked to [prompts, tasks] -> column s
// of row r into member(r)[s].
void Store(const at::Tensor& outputs,
           std::vector<double> QueryPredictions::*member,
           std::vector<QueryPredictions>* answers) {
  const at::Tensor host = outputs.to(at::kCPU, at::kDouble).contiguous();
  const double* values = host.const_data_ptr<double>();
  const int64_t tasks = host.size(1);
  for (QueryPredictions& answer : *answers) {
    (answer.*member).assign(values, values + tasks);
    values += tasks;
  }
}

}  // namespace

std::vector<QueryPredictions> PredictModel(const Gpt2& model, at::Device device,
                                           const PromptBlock& block,
                                           const std::vector<int>& order) {
  const int64_t segment = 2 * (int64_t{block.examples} + 1);
  const int64_t query = 2 * int64_t{block.examples};
  std::vector<at::Tensor> own;
  std::vector<at::Tensor> single;
  KeyValueCache cache;
  for (const int task : order) {
    const at::Tensor tokens = BlockTokens(block, task).to(device);
    const bool first = own.empty();
    own.push_back(model.Extend(tokens, cache.length, &cache).select(1, query));
    if (first) {
      single.push_back(own.back());
      continue;
    }
    KeyValueCache alone;
    single.push_back(model.Extend(tokens, 0, &alone).select(1, query));
  }
  const int64_t end = segment * static_cast<int64_t>(order.size());
  const at::Tensor last =
      model.ExtendQueries(FinalTokens(block, order).to(device), end, cache);

  std::vector<QueryPredictions> answers(static_cast<size_t>(block.prompts));
  Store(at::stack(own, 1), &QueryPredictions::own, &answers);
  Store(at::stack(single, 1), &QueryPredictions::single, &answers);
  Store(last, &QueryPredictions::last, &answers);
  return answers;
}

}  // namespace iclsweep
