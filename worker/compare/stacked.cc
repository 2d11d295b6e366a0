#include "worker/compare/stacked.h"

#include <cmath>
#include <limits>
#include <utility>

#include "ATen/ATen.h"
#include "c10/core/GradMode.h"
#include "torch/csrc/autograd/autograd.h"

namespace iclsweep {
namespace {

// [N, S, E] -> [N, H, S, head_dim].
at::Tensor SplitHeads(const at::Tensor& x, const ModelConfig& config) {
  return x.unflatten(-1, {config.heads, config.HeadDim()}).transpose(1, 2);
}

// What may not be seen: [read, S].
at::Tensor HiddenTokens(const PassTokens& input, int64_t first_row) {
  const int64_t length = input.tokens.size(1);
  const auto options =
      at::TensorOptions().dtype(at::kBool).device(input.tokens.device());
  at::Tensor hidden = at::ones({length, length}, options).triu(1);
  if (input.alternatives) {
    const int64_t count = length - input.read_from;
    hidden.narrow(0, input.read_from, count)
        .narrow(1, input.read_from, count)
        .copy_(at::eye(count, options).logical_not());
  }
  return hidden.narrow(0, first_row, length - first_row);
}

at::Tensor Embed(const Gpt2& model, const PassTokens& input) {
  if (!input.alternatives) return model.Embed(input.tokens, 0, false);
  const int64_t count = input.tokens.size(1) - input.read_from;
  return at::cat(
      {model.Embed(input.tokens.narrow(1, 0, input.read_from), 0, false),
       model.Embed(input.tokens.narrow(1, input.read_from, count),
                   input.read_from, true)},
      1);
}

at::Tensor KeysAndValues(const at::Tensor& normed, const BlockParameters& block,
                         const KeyValueStack* stack, size_t layer) {
  if (stack != nullptr) {
    return at::baddbmm(stack->biases[layer].unsqueeze(1), normed,
                       stack->weights[layer]);
  }
  const int64_t width = normed.size(-1);
  return Conv1D(normed, block.c_attn_weight.narrow(1, width, 2 * width),
                block.c_attn_bias.narrow(0, width, 2 * width));
}

void Record(const at::Tensor& output, const at::Tensor& logits,
            const at::Tensor& queries, int64_t count, Recording* recording) {
  const auto last = [count](const at::Tensor& t, int64_t dim) {
    return t.detach().narrow(dim, t.size(dim) - count, count);
  };
  recording->outputs.push_back(last(output, 1));
  recording->logits.push_back(last(logits, 2));
  recording->queries.push_back(last(queries, 1));
}

}  // namespace

KeyValueStack CopyKeyValues(const Gpt2& model, int64_t replicates) {
  const int64_t width = model.config().width;
  KeyValueStack stack;
  for (int layer = 0; layer < model.config().layers; ++layer) {
    const BlockParameters block = model.Block(layer);
    stack.weights.push_back(block.c_attn_weight.narrow(1, width, 2 * width)
                                .detach()
                                .expand({replicates, -1, -1})
                                .clone(at::MemoryFormat::Contiguous));
    stack.biases.push_back(block.c_attn_bias.narrow(0, width, 2 * width)
                               .detach()
                               .expand({replicates, -1})
                               .clone(at::MemoryFormat::Contiguous));
  }
  return stack;
}

at::Tensor StackedPass(const Gpt2& model, const KeyValueStack* stack,
                       const PassTokens& input, Recording* recording) {
  const ModelConfig& config = model.config();
  const int64_t width = config.width;
  const int64_t length = input.tokens.size(1);
  const int64_t read = length - input.read_from;
  const double scale = 1 / std::sqrt(static_cast<double>(config.HeadDim()));
  at::Tensor x = Embed(model, input);
  for (int layer = 0; layer < config.layers; ++layer) {
    const BlockParameters block = model.Block(layer);
    const at::Tensor normed = LayerNorm(x, block.ln_1_weight, block.ln_1_bias);
    const at::Tensor kv =
        KeysAndValues(normed, block, stack, static_cast<size_t>(layer));
    // After its keys and values the last layer needs the read tokens only.
    const int64_t first = layer + 1 == config.layers ? input.read_from : 0;
    const auto rows = [&](const at::Tensor& t) {
      return t.narrow(1, first, length - first);
    };
    const at::Tensor q =
        Conv1D(rows(normed), block.c_attn_weight.narrow(1, 0, width),
               block.c_attn_bias.narrow(0, 0, width));
    const at::Tensor k = SplitHeads(kv.narrow(-1, 0, width), config);
    const at::Tensor v = SplitHeads(kv.narrow(-1, width, width), config);
    const at::Tensor logits =
        at::matmul(SplitHeads(q, config) * scale, k.transpose(2, 3));
    const at::Tensor weights = at::softmax(
        logits.masked_fill(HiddenTokens(input, first),
                           -std::numeric_limits<double>::infinity()),
        -1);
    const at::Tensor joined = at::matmul(weights, v).transpose(1, 2).flatten(2);
    const at::Tensor output =
        Conv1D(joined, block.c_proj_weight, block.c_proj_bias);
    if (recording != nullptr) Record(output, logits, q, read, recording);
    x = AddMlp(rows(x) + output, block);
  }
  return model.ReadOut(x.narrow(1, x.size(1) - read, read));
}

Finetuned Finetune(const Gpt2& model, const Demonstrations& demonstrations,
                   double learning_rate) {
  const int64_t replicates = demonstrations.xs.size(0);
  const int64_t count = demonstrations.xs.size(1);
  Finetuned result{CopyKeyValues(model, replicates), {}};
  KeyValueStack& stack = result.stack;
  std::vector<at::Tensor> leaves = stack.weights;
  leaves.insert(leaves.end(), stack.biases.begin(), stack.biases.end());
  for (at::Tensor& leaf : leaves) leaf.set_requires_grad(true);
  std::vector<std::vector<at::Tensor>> queries(stack.weights.size());
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor y = demonstrations.ys.narrow(1, i, 1);
    const at::Tensor pair =
        Interleave(demonstrations.xs.narrow(1, i, 1), y);  // [N, 2, d]
    const PassTokens input{at::cat({demonstrations.anchors, pair}, 1),
                           demonstrations.anchors.size(1)};
    Recording recording;
    const at::Tensor predicted = StackedPass(model, &stack, input, &recording);
    const at::Tensor loss = (predicted.narrow(1, 0, 1) - y).square().sum();
    const std::vector<at::Tensor> gradients =
        torch::autograd::grad({loss}, leaves);
    const c10::NoGradGuard no_gradients;
    for (size_t j = 0; j < leaves.size(); ++j) {
      leaves[j].sub_(gradients[j], learning_rate);
    }
    for (size_t layer = 0; layer < queries.size(); ++layer) {
      queries[layer].push_back(recording.queries[layer]);
    }
  }
  for (at::Tensor& leaf : leaves) leaf.set_requires_grad(false);
  for (const std::vector<at::Tensor>& layer : queries) {
    result.training_queries.push_back(at::cat(layer, 1));
  }
  return result;
}

}  // namespace iclsweep
