// The passes of the comparison over many replicates at once: a GPT-2 whose key
// and value projections may differ per replicate (every finetuned copy is one
// slice of a stack), with what the metrics need recorded. Attention is written
// out because its logits are wanted; use Gpt2 for anything else.
//
// Finetuning is that of Dai et al. 2023 (arXiv 2212.10559, section 3.1): only
// the key and value projections of every layer (weights and biases), one step
// of plain SGD per demonstration, in prompt order, once. Each step's sequence
// is [anchors, x_i] with the loss (f - y_i)^2 at x_i (the anchored protocol).
//
// Shapes: N replicates, S tokens, E width, L layers, H heads, K demonstrations.
#pragma once

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/model/gpt2.h"

namespace iclsweep {

// One key and value projection per replicate.
struct KeyValueStack {
  std::vector<at::Tensor> weights;  // per layer [N, E, 2E]: k | v
  std::vector<at::Tensor> biases;   // per layer [N, 2E]
};

// N copies of the model's own projections.
KeyValueStack CopyKeyValues(const Gpt2& model, int64_t replicates);

// Per layer, at the tokens a pass reads out (Q of them).
struct Recording {
  std::vector<at::Tensor> outputs;  // [N, Q, E] after c_proj, before residual
  std::vector<at::Tensor> logits;   // [N, H, Q, S] scaled, before mask, softmax
  std::vector<at::Tensor> queries;  // [N, Q, E] query vectors, heads joined
};

struct PassTokens {
  at::Tensor tokens;      // [N, S, d]
  int64_t read_from = 0;  // outputs are those of tokens read_from .. S - 1
  // True: the tokens read out are alternatives at one position (read_from) that
  // see the tokens before and themselves only. False: everything is causal.
  bool alternatives = false;
};

// Outputs [N, S - read_from]. `stack` null: the model's own projections.
// `recording` may be null. Differentiable in the stack.
at::Tensor StackedPass(const Gpt2& model, const KeyValueStack* stack,
                       const PassTokens& input, Recording* recording);

struct Demonstrations {
  at::Tensor anchors;  // [N, 2m, d] tokens
  at::Tensor xs;       // [N, K, d]
  at::Tensor ys;       // [N, K]
};

struct Finetuned {
  KeyValueStack stack;
  // Per layer [N, 2K, E]: query vectors of x_1, y_1, x_2, ..., each at its own
  // step, before that step's update (Dai et al., section 3.2, attention to
  // training tokens). The y token follows x_i and so changes no loss.
  std::vector<at::Tensor> training_queries;
};

Finetuned Finetune(const Gpt2& model, const Demonstrations& demonstrations,
                   double learning_rate);

}  // namespace iclsweep
