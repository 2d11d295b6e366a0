// One model's zero-shot, in-context and finetuned passes over a chunk of
// replicates (the anchored protocol):
//   ZSL = [anchors, x_q]    ICL = [demonstrations, anchors, x_q]
//   FT  = finetuned on the demonstrations, then [anchors, x_q]
// All queries of a replicate share their prefix and do not see each other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "worker/compare/draws.h"
#include "worker/compare/stacked.h"
#include "worker/compare/table.h"
#include "worker/model/gpt2.h"

namespace iclsweep {

// Arrays of the metrics on the CPU, [N, L, ...] each (ReplicateArrays).
class ComparedPasses {
 public:
  // Hands the first `count` replicates to `table`.
  void AddTo(int64_t count, ComparisonTable* table) const;

 private:
  friend class Passes;
  struct State {
    at::Tensor outputs;      // [N, L, Q, E]
    at::Tensor maps;         // [N, L, Q, H, 2m + 1]
    at::Tensor predictions;  // [N, Q]
  };
  State zsl_, icl_, ft_;
  at::Tensor demo_logits_;    // [N, L, Q, H, 2K]
  at::Tensor train_queries_;  // [N, L, 2K, E]
  at::Tensor query_queries_;  // [N, L, Q, E]
  at::Tensor labels_;         // [N, Q]
};

class Passes {
 public:
  // Both must outlive this.
  Passes(const Gpt2& model, const Replicates& replicates);

  // Mean squared error over queries, finetuned with these labels: [N].
  at::Tensor FinetunedError(const at::Tensor& demo_labels,
                            double learning_rate) const;

  // All passes and recordings. The first call also runs ZSL and ICL.
  ComparedPasses Compare(const at::Tensor& demo_labels, double learning_rate);

 private:
  // A pass over [prefix, queries] with its recording.
  struct Recorded {
    Recording recording;
    at::Tensor predictions;
  };
  Recorded Run(const at::Tensor& prefix, const KeyValueStack* stack) const;
  ComparedPasses::State StateOf(const Recorded& recorded) const;
  Finetuned FinetuneOn(const at::Tensor& demo_labels,
                       double learning_rate) const;

  const Gpt2& model_;
  const Replicates& replicates_;
  at::Tensor queries_;                       // [N, Q, d] tokens
  at::Tensor anchors_;                       // [N, 2m, d]
  at::Tensor demos_;                         // [N, 2K, d]
  std::optional<ComparedPasses> unchanged_;  // ZSL and ICL, ready to copy
};

}  // namespace iclsweep
