#include "worker/evaluate/model_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ATen/ATen.h"
#include "ATen/Parallel.h"
#include "tests/worker/tasks/prompts.h"

namespace iclsweep {
namespace {

using testing::MakePrompt;

class ModelPassTest : public ::testing::Test {
 protected:
  ModelPassTest() { at::set_num_threads(1); }

  // Large initial weights: outputs of order 1 that depend on every token.
  const Gpt2 model_ = Gpt2::Initialize({.layers = 3,
                                        .heads = 4,
                                        .width = 64,
                                        .positions = 30,
                                        .dims = 3,
                                        .init_std = 0.2},
                                       5);
};

// Plain pass over the blocks from .. to-1 of an ordered prompt and, with
// final_query >= 0, that position's query once more; the prediction at the last
// point.
double Plain(const Gpt2& model, const OrderedPrompt& p, int from, int to,
             int final_query) {
  std::vector<float> xs;
  std::vector<float> ys;
  const auto append = [&](const double* x, double y) {
    for (int i = 0; i < p.dims; ++i) xs.push_back(static_cast<float>(x[i]));
    ys.push_back(static_cast<float>(y));
  };
  for (int s = from; s < to; ++s) {
    for (int m = 0; m < p.examples; ++m) {
      const int point = s * p.examples + m;
      append(&p.inputs[static_cast<size_t>(point) * p.dims],
             p.labels[static_cast<size_t>(point)]);
    }
    append(&p.queries[static_cast<size_t>(s) * p.dims], 0);
  }
  if (final_query >= 0)
    append(&p.queries[static_cast<size_t>(final_query) * p.dims], 0);
  const auto points = static_cast<int64_t>(ys.size());
  const at::Tensor out = model.Forward(at::tensor(xs).view({1, points, p.dims}),
                                       at::tensor(ys).view({1, points}));
  return out[0][points - 1].item<double>();
}

TEST_F(ModelPassTest, CachedPassEqualsPlainPasses) {
  const auto prompt = MakePrompt(3, 4, 3);
  const PromptBlock block = *DrawPrompts(prompt, 1, 0, 8);
  const std::vector<int> order = {2, 0, 1};
  const auto answers = PredictModel(model_, at::kCPU, block, order);
  ASSERT_EQ(answers.size(), 8U);
  double scale = 0;
  double worst = 0;
  const auto compare = [&](double got, double want) {
    scale = std::max(scale, std::fabs(want));
    worst = std::max(worst, std::fabs(got - want));
  };
  for (size_t row = 0; row < 8; ++row) {
    const OrderedPrompt shown =
        InOrder(block, static_cast<int64_t>(row), order);
    for (int s = 0; s < 3; ++s) {
      const auto at = static_cast<size_t>(s);
      compare(answers[row].own[at], Plain(model_, shown, 0, s + 1, -1));
      compare(answers[row].last[at], Plain(model_, shown, 0, 3, s));
      compare(answers[row].single[at], Plain(model_, shown, s, s + 1, -1));
    }
  }
  EXPECT_GT(scale, 0.5);  // else the comparison says nothing
  EXPECT_LE(worst, 6e-7 * std::max(1.0, scale));
}

TEST_F(ModelPassTest, TheFirstTaskOfTheOrderIsAlone) {
  const PromptBlock block = *DrawPrompts(MakePrompt(3, 4, 3), 1, 0, 4);
  for (const QueryPredictions& answer :
       PredictModel(model_, at::kCPU, block, {1, 2, 0})) {
    EXPECT_EQ(answer.own[0], answer.single[0]);
    EXPECT_NE(answer.own[1], answer.single[1]);
  }
}

TEST_F(ModelPassTest, ATaskAloneIsAnsweredAlikeInEveryOrder) {
  const PromptBlock block = *DrawPrompts(MakePrompt(3, 4, 3), 1, 0, 4);
  const auto plain = PredictModel(model_, at::kCPU, block, {0, 1, 2});
  const auto moved = PredictModel(model_, at::kCPU, block, {2, 0, 1});
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(plain[row].single[2], moved[row].single[0]);
    EXPECT_EQ(plain[row].single[0], moved[row].single[1]);
    EXPECT_NE(plain[row].own[2], moved[row].own[0]);
  }
}

TEST_F(ModelPassTest, OwnAnswersDoNotSeeLaterTasks) {
  PromptBlock block = *DrawPrompts(MakePrompt(2, 4, 3), 1, 0, 4);
  const auto before = PredictModel(model_, at::kCPU, block, {0, 1});
  for (int64_t row = 0; row < 4; ++row)
    block.labels[static_cast<size_t>(row * 8 + 5)] +=
        1;  // an example of task 1
  const auto after = PredictModel(model_, at::kCPU, block, {0, 1});
  for (size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(before[row].own[0], after[row].own[0]);
    EXPECT_NE(before[row].own[1], after[row].own[1]);
    EXPECT_NE(before[row].last[0], after[row].last[0]);
  }
}

}  // namespace
}  // namespace iclsweep
