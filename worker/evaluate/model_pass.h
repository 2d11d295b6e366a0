// A trained GPT-2 on a block of continual prompts: one cached segment per task
// block, one segment of final queries, and every task alone. Equal, up to
// rounding, to plain passes over whole prompts (T final queries would need T of
// them).
#pragma once

#include <vector>

#include "ATen/Device.h"
#include "worker/model/gpt2.h"
#include "worker/tasks/prompt.h"

namespace iclsweep {

// Predictions for every row of the block, shown in `order`. A task block is
// 2(M+1) tokens x_1, y_1, ..., x_M, y_M, x_q, 0; its own query is read at x_q.
// The final queries are T x-tokens that all stand at token position 2T(M+1) and
// see the prefix and themselves only. A task alone stands at positions 0, 1,
// ...; the first task of the order is alone already. REQUIRES: the block has
// the model's dims and at most its positions; `device` is the model's. Throws
// c10::Error.
std::vector<QueryPredictions> PredictModel(const Gpt2& model, at::Device device,
                                           const PromptBlock& block,
                                           const std::vector<int>& order);

}  // namespace iclsweep
