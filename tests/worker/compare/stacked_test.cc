#include "worker/compare/stacked.h"

#include <cmath>

#include "ATen/ATen.h"
#include "absl/strings/match.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/model/golden.h"
#include "tests/worker/model/scratch.h"
#include "torch/csrc/autograd/autograd.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::MaxDifference;

constexpr double kTolerance = 1e-12;
constexpr double kRate = 0.05;

// Several replicates of points from formulas.
class StackedTest : public testing::Scratch {
 protected:
  static at::Tensor Inputs(int64_t points, double phase) {
    return at::arange(0, kReplicates * points * 3, at::kDouble)
        .mul(0.7)
        .add(phase)
        .sin()
        .mul(1.5)
        .view({kReplicates, points, 3});
  }
  static at::Tensor Labels(const at::Tensor& xs) {
    const at::Tensor w = at::arange(0, kReplicates * 3, at::kDouble)
                             .cos()
                             .view({kReplicates, 1, 3});
    return (xs * w).sum(-1);
  }

  static constexpr int64_t kReplicates = 5;
  const Gpt2 model_ = Gpt2::Initialize({.layers = 3,
                                        .heads = 2,
                                        .width = 16,
                                        .positions = 12,
                                        .dims = 3,
                                        .init_std = 0.3},
                                       5)
                          .Clone(at::kDouble, at::kCPU);
  const at::Tensor anchor_xs_ = Inputs(2, 0.1);
  const at::Tensor anchors_ = Interleave(anchor_xs_, Labels(anchor_xs_));
  const at::Tensor demo_xs_ = Inputs(4, 0.2);
  const at::Tensor demo_ys_ = Labels(demo_xs_);
  const at::Tensor query_xs_ = Inputs(3, 0.3);
};

TEST_F(StackedTest, AlternativesPredictAsIfEachStoodAlone) {
  const at::Tensor found = StackedPass(
      model_, nullptr, {at::cat({anchors_, query_xs_}, 1), 4, true}, nullptr);
  for (int64_t q = 0; q < 3; ++q) {
    const at::Tensor xs = at::cat({anchor_xs_, query_xs_.narrow(1, q, 1)}, 1);
    const at::Tensor alone =
        model_.Forward(xs, at::zeros({kReplicates, 3}, at::kDouble)
                               .slice_scatter(Labels(anchor_xs_), 1, 0, 2));
    EXPECT_LT(MaxDifference(found.select(1, q), alone.select(1, 2)),
              kTolerance);
  }
}

TEST_F(StackedTest, AStackOfCopiesIsTheModel) {
  const KeyValueStack stack = CopyKeyValues(model_, kReplicates);
  const PassTokens input{at::cat({anchors_, query_xs_}, 1), 4, true};
  EXPECT_LT(MaxDifference(StackedPass(model_, &stack, input, nullptr),
                          StackedPass(model_, nullptr, input, nullptr)),
            kTolerance);
}

// Finetunes one replicate with the ordinary model and gradients of all its
// parameters, changing the key and value columns only.
Gpt2 FinetuneAlone(const Gpt2& model, const at::Tensor& anchor_xs,
                   const at::Tensor& anchor_ys, const at::Tensor& xs,
                   const at::Tensor& ys) {
  Gpt2 copy = model.Clone(at::kDouble, at::kCPU);
  const int64_t width = copy.config().width;
  for (int64_t i = 0; i < xs.size(1); ++i) {
    copy.RequireGradients(true);
    const at::Tensor points = at::cat({anchor_xs, xs.narrow(1, i, 1)}, 1);
    const at::Tensor labels = at::cat({anchor_ys, ys.narrow(1, i, 1)}, 1);
    const at::Tensor predicted =
        copy.Forward(points, labels).select(1, points.size(1) - 1);
    const at::Tensor loss = (predicted - ys.select(1, i)).square().sum();
    const std::vector<at::Tensor> gradients =
        torch::autograd::grad({loss}, copy.parameters());
    copy.RequireGradients(false);
    for (size_t p = 0; p < gradients.size(); ++p) {
      if (!absl::StrContains(copy.names()[p], "c_attn")) continue;
      const int64_t last = gradients[p].dim() - 1;
      copy.parameters()[p]
          .narrow(last, width, 2 * width)
          .sub_(gradients[p].narrow(last, width, 2 * width), kRate);
    }
  }
  return copy;
}

TEST_F(StackedTest, FinetuningAStackEqualsFinetuningEachModelAlone) {
  const Finetuned finetuned =
      Finetune(model_, {anchors_, demo_xs_, demo_ys_}, kRate);
  const int64_t width = model_.config().width;
  const at::Tensor anchor_ys = Labels(anchor_xs_);
  for (int64_t r = 0; r < kReplicates; ++r) {
    const auto row = [r](const at::Tensor& t) { return t.narrow(0, r, 1); };
    const Gpt2 alone = FinetuneAlone(model_, row(anchor_xs_), row(anchor_ys),
                                     row(demo_xs_), row(demo_ys_));
    for (int layer = 0; layer < 3; ++layer) {
      const auto l = static_cast<size_t>(layer);
      const BlockParameters block = alone.Block(layer);
      EXPECT_LT(MaxDifference(finetuned.stack.weights[l][r],
                              block.c_attn_weight.narrow(1, width, 2 * width)),
                kTolerance);
      EXPECT_LT(MaxDifference(finetuned.stack.biases[l][r],
                              block.c_attn_bias.narrow(0, width, 2 * width)),
                kTolerance);
    }
  }
}

TEST_F(StackedTest, FinetuningMovesKeysAndValuesOnly) {
  std::vector<at::Tensor> before;
  for (const at::Tensor& parameter : model_.parameters())
    before.push_back(parameter.clone());
  const KeyValueStack original = CopyKeyValues(model_, kReplicates);

  const Finetuned finetuned =
      Finetune(model_, {anchors_, demo_xs_, demo_ys_}, kRate);

  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(before[i], model_.parameters()[i]))
        << model_.names()[i];
  const int64_t width = model_.config().width;
  for (size_t l = 0; l < 3; ++l) {
    const at::Tensor moved = finetuned.stack.weights[l] - original.weights[l];
    EXPECT_GT(moved.narrow(2, 0, width).abs().max().item<double>(), 1e-6)
        << "keys of layer " << l;
    EXPECT_GT(moved.narrow(2, width, width).abs().max().item<double>(), 1e-6)
        << "values of layer " << l;
    // A softmax does not see a shift of all its logits.
    const at::Tensor bias = finetuned.stack.biases[l] - original.biases[l];
    EXPECT_LT(bias.narrow(1, 0, width).abs().max().item<double>(), 1e-14);
    EXPECT_GT(bias.narrow(1, width, width).abs().max().item<double>(), 1e-6);
  }
}

TEST_F(StackedTest, WithoutARateNothingMoves) {
  const Finetuned finetuned =
      Finetune(model_, {anchors_, demo_xs_, demo_ys_}, 0);
  const KeyValueStack original = CopyKeyValues(model_, kReplicates);
  for (size_t l = 0; l < 3; ++l)
    EXPECT_TRUE(at::equal(finetuned.stack.weights[l], original.weights[l]));
}

TEST_F(StackedTest, FinetuningDependsOnTheOrderOfDemonstrations) {
  const Finetuned forward =
      Finetune(model_, {anchors_, demo_xs_, demo_ys_}, kRate);
  const Finetuned backward =
      Finetune(model_, {anchors_, demo_xs_.flip(1), demo_ys_.flip(1)}, kRate);
  EXPECT_GT(MaxDifference(forward.stack.weights[0], backward.stack.weights[0]),
            1e-8);
}

// The recorded parts rebuild the attention output: logits of the query row,
// values of the layer's input. Layer 0's input is the embedding.
TEST_F(StackedTest, RecordingsAreThoseOfTheQueryRow) {
  Recording recording;
  const at::Tensor tokens = at::cat({anchors_, query_xs_.narrow(1, 0, 1)}, 1);
  StackedPass(model_, nullptr, {tokens, 4, true}, &recording);
  const BlockParameters block = model_.Block(0);
  const at::Tensor normed = LayerNorm(model_.Embed(tokens, 0, false),
                                      block.ln_1_weight, block.ln_1_bias);
  const at::Tensor qkv =
      at::matmul(normed, block.c_attn_weight) + block.c_attn_bias;
  EXPECT_LT(
      MaxDifference(recording.queries[0], qkv.narrow(1, 4, 1).narrow(2, 0, 16)),
      kTolerance);
  at::Tensor joined = at::zeros({kReplicates, 16}, at::kDouble);
  for (int64_t h = 0; h < 2; ++h) {
    const at::Tensor q = qkv.select(1, 4).narrow(1, h * 8, 8);
    const at::Tensor k = qkv.narrow(2, 16 + h * 8, 8);
    const at::Tensor logits = (k * q.unsqueeze(1)).sum(-1) / std::sqrt(8.0);
    EXPECT_LT(
        MaxDifference(recording.logits[0].select(1, h).select(1, 0), logits),
        kTolerance);
    const at::Tensor weights = logits.exp() / logits.exp().sum(-1, true);
    joined.narrow(1, h * 8, 8)
        .copy_((weights.unsqueeze(-1) * qkv.narrow(2, 32 + h * 8, 8)).sum(1));
  }
  const at::Tensor output =
      at::matmul(joined, block.c_proj_weight) + block.c_proj_bias;
  EXPECT_LT(MaxDifference(recording.outputs[0].select(1, 0), output),
            kTolerance);
  ASSERT_EQ(recording.outputs.size(), 3U);
}

TEST_F(StackedTest, TrainingQueriesAreRecordedBeforeEachUpdate) {
  const Finetuned finetuned =
      Finetune(model_, {anchors_, demo_xs_, demo_ys_}, kRate);
  ASSERT_EQ(finetuned.training_queries[0].sizes(),
            (std::vector<int64_t>{kReplicates, 8, 16}));
  // Queries of layer 0 do not depend on keys and values: those of the tokens as
  // they stand after the anchors.
  const at::Tensor pair =
      Interleave(demo_xs_.narrow(1, 2, 1), demo_ys_.narrow(1, 2, 1));
  const BlockParameters block = model_.Block(0);
  const at::Tensor normed = LayerNorm(model_.Embed(pair, 4, false),
                                      block.ln_1_weight, block.ln_1_bias);
  const at::Tensor queries =
      (at::matmul(normed, block.c_attn_weight) + block.c_attn_bias)
          .narrow(2, 0, 16);
  EXPECT_LT(
      MaxDifference(finetuned.training_queries[0].narrow(1, 4, 2), queries),
      kTolerance);
  // The last step's queries of layer 1 are those of the copy with the first
  // three updates in it.
  const Finetuned three = Finetune(
      model_, {anchors_, demo_xs_.narrow(1, 0, 3), demo_ys_.narrow(1, 0, 3)},
      kRate);
  Recording recording;
  const at::Tensor last =
      at::cat({anchors_,
               Interleave(demo_xs_.narrow(1, 3, 1), demo_ys_.narrow(1, 3, 1))},
              1);
  StackedPass(model_, &three.stack, {last, 4}, &recording);
  EXPECT_LT(MaxDifference(finetuned.training_queries[1].narrow(1, 6, 2),
                          recording.queries[1]),
            kTolerance);
}

}  // namespace
}  // namespace iclsweep
