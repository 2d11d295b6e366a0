#include "worker/compare/passes.h"

#include <utility>

#include "ATen/ATen.h"
#include "c10/core/GradMode.h"

namespace iclsweep {
namespace {

at::Tensor OnCpu(const at::Tensor& tensor) {
  return tensor.cpu().to(at::kDouble).contiguous();
}

// Per layer [N, ...] -> [N, L, ...].
at::Tensor Layers(const std::vector<at::Tensor>& layers) {
  return OnCpu(at::stack(layers, 1));
}

// The part of the logits that every pass shares: the last `shared` tokens of
// the prefix, and the query itself. [N, H, Q, S] -> [N, Q, H, shared + 1].
at::Tensor SharedMap(const at::Tensor& logits, int64_t shared) {
  const int64_t queries = logits.size(2);
  const int64_t prefix = logits.size(3) - queries;
  const at::Tensor own =
      logits.narrow(3, prefix, queries).diagonal(0, 2, 3).unsqueeze(-1);
  return at::cat({logits.narrow(3, prefix - shared, shared), own}, -1)
      .transpose(1, 2);
}

// Replicate `row` of an [N, ...] array.
ArrayView View(const at::Tensor& array, int64_t row) {
  return {array.const_data_ptr<double>() + row * array.stride(0),
          array.sizes().slice(1).vec()};
}

ArrayView RowView(const at::Tensor& array, int64_t row) {
  return {array.const_data_ptr<double>() + row * array.stride(0),
          {1, array.size(1)}};
}

}  // namespace

void ComparedPasses::AddTo(int64_t count, ComparisonTable* table) const {
  for (int64_t r = 0; r < count; ++r) {
    table->Add(
        {{View(zsl_.outputs, r), View(icl_.outputs, r), View(ft_.outputs, r)},
         View(zsl_.maps, r),
         View(icl_.maps, r),
         View(ft_.maps, r),
         View(demo_logits_, r),
         View(train_queries_, r),
         View(query_queries_, r),
         {RowView(zsl_.predictions, r), RowView(ft_.predictions, r),
          RowView(icl_.predictions, r), RowView(labels_, r)}});
  }
}

Passes::Passes(const Gpt2& model, const Replicates& replicates)
    : model_(model), replicates_(replicates) {
  const at::TensorOptions options = model.parameters().front().options();
  queries_ = replicates.query_xs.to(options);
  anchors_ = Interleave(replicates.anchor_xs, replicates.anchor_ys).to(options);
  demos_ = Interleave(replicates.demo_xs, replicates.demo_ys).to(options);
}

Passes::Recorded Passes::Run(const at::Tensor& prefix,
                             const KeyValueStack* stack) const {
  const c10::NoGradGuard no_gradients;
  Recorded recorded;
  recorded.predictions = StackedPass(
      model_, stack, {at::cat({prefix, queries_}, 1), prefix.size(1), true},
      &recorded.recording);
  return recorded;
}

ComparedPasses::State Passes::StateOf(const Recorded& recorded) const {
  std::vector<at::Tensor> maps;
  for (const at::Tensor& logits : recorded.recording.logits) {
    maps.push_back(SharedMap(logits, anchors_.size(1)));
  }
  return {Layers(recorded.recording.outputs), Layers(maps),
          OnCpu(recorded.predictions)};
}

Finetuned Passes::FinetuneOn(const at::Tensor& demo_labels,
                             double learning_rate) const {
  const at::TensorOptions options = queries_.options();
  return Finetune(
      model_,
      {anchors_, replicates_.demo_xs.to(options), demo_labels.to(options)},
      learning_rate);
}

at::Tensor Passes::FinetunedError(const at::Tensor& demo_labels,
                                  double learning_rate) const {
  const Finetuned finetuned = FinetuneOn(demo_labels, learning_rate);
  const at::Tensor predictions =
      OnCpu(Run(anchors_, &finetuned.stack).predictions);
  return (predictions - replicates_.query_ys).square().mean(1);
}

ComparedPasses Passes::Compare(const at::Tensor& demo_labels,
                               double learning_rate) {
  if (!unchanged_) {
    unchanged_.emplace();
    unchanged_->labels_ = replicates_.query_ys;
    unchanged_->zsl_ = StateOf(Run(anchors_, nullptr));
    const Recorded icl = Run(at::cat({demos_, anchors_}, 1), nullptr);
    unchanged_->icl_ = StateOf(icl);
    std::vector<at::Tensor> demo_logits;
    for (const at::Tensor& logits : icl.recording.logits) {
      demo_logits.push_back(
          logits.narrow(3, 0, demos_.size(1)).transpose(1, 2));
    }
    unchanged_->demo_logits_ = Layers(demo_logits);
  }
  ComparedPasses compared = *unchanged_;
  const Finetuned finetuned = FinetuneOn(demo_labels, learning_rate);
  const Recorded ft = Run(anchors_, &finetuned.stack);
  compared.ft_ = StateOf(ft);
  compared.train_queries_ = Layers(finetuned.training_queries);
  compared.query_queries_ = Layers(ft.recording.queries);
  return compared;
}

}  // namespace iclsweep
