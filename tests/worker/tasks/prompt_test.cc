#include "worker/tasks/prompt.h"

#include <cmath>

#include "tests/support/status_matchers.h"
#include "tests/worker/tasks/prompts.h"
#include "worker/tasks/family.h"
#include "worker/tasks/geometry.h"
#include "worker/tasks/order.h"

namespace iclsweep {
namespace {

using ::testing::HasSubstr;
using testing::MakePrompt;
using testing::StatusIs;

void SetEigenvalues(const std::vector<double>& values,
                    v1::PromptParams* prompt) {
  for (const double value : values)
    prompt->mutable_data()->add_eigenvalues(value);
}

TEST(PromptTest, LabelsFollowTheTaskVectorsExactlyWithoutNoise) {
  const v1::PromptParams prompt = MakePrompt(3, 4, 5);
  ASSERT_OK_AND_ASSIGN(const auto w, DrawTaskSet(prompt, {.seed = 0}));
  ASSERT_OK_AND_ASSIGN(const PromptBlock block, DrawPrompts(prompt, 7, 0, 2));
  for (size_t row = 0; row < 2; ++row) {
    for (size_t t = 0; t < 3; ++t) {
      double query = 0;
      for (size_t i = 0; i < 5; ++i)
        query += w[t * 5 + i] * block.queries[(row * 3 + t) * 5 + i];
      EXPECT_NEAR(block.query_labels[row * 3 + t], query, 1e-13);
      for (size_t m = 0; m < 4; ++m) {
        const size_t point = (row * 3 + t) * 4 + m;
        double y = 0;
        for (size_t i = 0; i < 5; ++i)
          y += w[t * 5 + i] * block.inputs[point * 5 + i];
        EXPECT_NEAR(block.labels[point], y, 1e-13);
      }
    }
  }
}

TEST(PromptTest, FewerExamplesAreTheBeginningOfMore) {
  ASSERT_OK_AND_ASSIGN(const PromptBlock few,
                       DrawPrompts(MakePrompt(2, 2, 3), 7, 5, 3));
  ASSERT_OK_AND_ASSIGN(const PromptBlock many,
                       DrawPrompts(MakePrompt(2, 6, 3), 7, 5, 3));
  EXPECT_EQ(few.queries, many.queries);
  for (size_t task_row = 0; task_row < 6; ++task_row) {
    for (size_t k = 0; k < 6; ++k)
      EXPECT_EQ(few.inputs[task_row * 6 + k], many.inputs[task_row * 18 + k]);
    for (size_t m = 0; m < 2; ++m)
      EXPECT_EQ(few.labels[task_row * 2 + m], many.labels[task_row * 6 + m]);
  }
}

TEST(PromptTest, FewerTasksAreTheBeginningOfMore) {
  ASSERT_OK_AND_ASSIGN(const PromptBlock few,
                       DrawPrompts(MakePrompt(1, 2, 3), 7, 0, 1));
  ASSERT_OK_AND_ASSIGN(const PromptBlock many,
                       DrawPrompts(MakePrompt(4, 2, 3), 7, 0, 1));
  for (size_t k = 0; k < few.inputs.size(); ++k)
    EXPECT_EQ(few.inputs[k], many.inputs[k]);
  EXPECT_EQ(few.query_labels[0], many.query_labels[0]);
}

TEST(PromptTest, ABlockDoesNotDependOnWhereItStarts) {
  for (const v1::Family family : testing::kAllFamilies) {
    v1::PromptParams prompt = MakePrompt(2, 3, 4);
    prompt.set_task_set(v1::TASK_SET_FRESH);
    prompt.mutable_data()->set_noise_std(0.5);
    prompt.mutable_data()->set_family(family);
    ASSERT_OK_AND_ASSIGN(const PromptBlock whole, DrawPrompts(prompt, 1, 0, 5));
    ASSERT_OK_AND_ASSIGN(const PromptBlock part, DrawPrompts(prompt, 1, 3, 2));
    EXPECT_TRUE(std::equal(part.labels.begin(), part.labels.end(),
                           &whole.labels[size_t{3} * 2 * 3]))
        << family;
    EXPECT_TRUE(std::equal(part.query_labels.begin(), part.query_labels.end(),
                           &whole.query_labels[size_t{3} * 2]))
        << family;
  }
}

// The same inputs in every family; labels by the family's tasks.
TEST(PromptTest, FamiliesDifferInTheirLabelsOnly) {
  v1::PromptParams prompt = MakePrompt(2, 3, 4);
  ASSERT_OK_AND_ASSIGN(const PromptBlock linear, DrawPrompts(prompt, 1, 0, 2));
  for (const v1::Family family : testing::kAllFamilies) {
    if (family == v1::FAMILY_LINEAR) continue;
    prompt.mutable_data()->set_family(family);
    prompt.mutable_data()->set_noise_std(family == v1::FAMILY_NOISY_LINEAR ? 1
                                                                           : 0);
    ASSERT_OK_AND_ASSIGN(const PromptBlock block, DrawPrompts(prompt, 1, 0, 2));
    EXPECT_EQ(block.inputs, linear.inputs);
    EXPECT_EQ(block.queries, linear.queries);
    EXPECT_NE(block.labels, linear.labels) << family;
    ASSERT_OK_AND_ASSIGN(const auto tasks, DrawTaskSet(prompt, {.seed = 0}));
    const TaskFamily of(prompt.data());
    EXPECT_EQ(block.query_labels[3],  // of prompt 1, task 1
              of.Label(tasks.data() + of.Size(), &block.queries[12],
                       {.seed = 1,
                        .purpose = Purpose::kQueryNoise,
                        .prompt = 1,
                        .task = 1}))
        << family;
  }
}

TEST(PromptTest, OrdersShowTheSameTasksElsewhere) {
  v1::PromptParams prompt = MakePrompt(3, 2, 2);
  prompt.mutable_data()->set_noise_std(1);
  ASSERT_OK_AND_ASSIGN(const PromptBlock block, DrawPrompts(prompt, 1, 0, 2));
  const std::vector<int> order = {2, 0, 1};
  const OrderedPrompt shown = InOrder(block, 1, order);
  for (size_t s = 0; s < 3; ++s) {
    const size_t task_row = 3 + static_cast<size_t>(order[s]);
    EXPECT_EQ(shown.query_labels[s], block.query_labels[task_row]);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(shown.queries[s * 2 + i], block.queries[task_row * 2 + i]);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(shown.labels[s * 2 + i], block.labels[task_row * 2 + i]);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(shown.inputs[s * 4 + i], block.inputs[task_row * 4 + i]);
  }
}

TEST(PromptTest, NoiseIsAddedToContextAndQueryLabelsAndNothingElse) {
  v1::PromptParams prompt = MakePrompt(2, 8, 3);
  ASSERT_OK_AND_ASSIGN(const PromptBlock clean,
                       DrawPrompts(prompt, 1, 0, 2000));
  prompt.mutable_data()->set_noise_std(0.5);
  ASSERT_OK_AND_ASSIGN(const PromptBlock noisy,
                       DrawPrompts(prompt, 1, 0, 2000));
  EXPECT_EQ(clean.inputs, noisy.inputs);
  EXPECT_EQ(clean.queries, noisy.queries);
  const auto check = [](const std::vector<double>& a,
                        const std::vector<double>& b) {
    const auto n = static_cast<double>(a.size());
    double sum = 0;
    double squares = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      sum += b[i] - a[i];
      squares += (b[i] - a[i]) * (b[i] - a[i]);
    }
    EXPECT_NEAR(sum / n, 0, 4 * 0.5 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 0.25, 4 * 0.25 * std::sqrt(2 / n));  // Var z^2 = 2
  };
  check(clean.labels, noisy.labels);
  check(clean.query_labels, noisy.query_labels);
}

TEST(PromptTest, EigenvaluesScaleTheCoordinates) {
  v1::PromptParams prompt = MakePrompt(2, 3, 2);
  ASSERT_OK_AND_ASSIGN(const PromptBlock plain, DrawPrompts(prompt, 1, 0, 4));
  SetEigenvalues({4, 0.25}, &prompt);
  ASSERT_OK_AND_ASSIGN(const PromptBlock scaled, DrawPrompts(prompt, 1, 0, 4));
  for (size_t i = 0; i < plain.inputs.size(); ++i)
    EXPECT_EQ(scaled.inputs[i], plain.inputs[i] * (i % 2 == 0 ? 2 : 0.5));
  for (size_t i = 0; i < plain.queries.size(); ++i)
    EXPECT_EQ(scaled.queries[i], plain.queries[i] * (i % 2 == 0 ? 2 : 0.5));
}

TEST(PromptTest, FreshSetsDifferBetweenPromptsAndFixedOnesDoNot) {
  // One dimension: y / x is the task vector.
  v1::PromptParams prompt = MakePrompt(1, 1, 1);
  const auto weight = [](const PromptBlock& block, size_t row) {
    return block.labels[row] / block.inputs[row];
  };
  ASSERT_OK_AND_ASSIGN(const PromptBlock fixed, DrawPrompts(prompt, 1, 0, 2));
  EXPECT_NEAR(weight(fixed, 0), weight(fixed, 1), 1e-14);
  prompt.set_task_set(v1::TASK_SET_FRESH);
  ASSERT_OK_AND_ASSIGN(const PromptBlock fresh, DrawPrompts(prompt, 1, 0, 2));
  EXPECT_GT(std::fabs(weight(fresh, 0) - weight(fresh, 1)), 1e-3);
}

TEST(PromptTest, TheContextSeedLeavesTheTasksAloneAndTheTaskSeedTheInputs) {
  v1::PromptParams prompt = MakePrompt(1, 1, 1);
  ASSERT_OK_AND_ASSIGN(const PromptBlock a, DrawPrompts(prompt, 1, 0, 1));
  ASSERT_OK_AND_ASSIGN(const PromptBlock b, DrawPrompts(prompt, 2, 0, 1));
  EXPECT_NE(a.inputs, b.inputs);
  EXPECT_NEAR(a.labels[0] / a.inputs[0], b.labels[0] / b.inputs[0], 1e-14);
  prompt.set_seed(3);
  ASSERT_OK_AND_ASSIGN(const PromptBlock c, DrawPrompts(prompt, 1, 0, 1));
  EXPECT_EQ(a.inputs, c.inputs);
  EXPECT_NE(a.labels, c.labels);
}

TEST(PromptTest, CountsThePointsOfAPrompt) {
  EXPECT_EQ(PromptPoints(MakePrompt(5, 19, 20)), 101);
}

TEST(PromptTest, RefusesBadParameters) {
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(DrawPrompts(MakePrompt(0, 1, 1), 0, 0, 1),
              StatusIs(code, HasSubstr("prompt.tasks = 0")));
  EXPECT_THAT(DrawPrompts(MakePrompt(1, 0, 1), 0, 0, 1),
              StatusIs(code, HasSubstr("examples_per_task = 0")));
  EXPECT_THAT(DrawPrompts(MakePrompt(1, 1, 0), 0, 0, 1),
              StatusIs(code, HasSubstr("dims = 0")));
  v1::PromptParams prompt = MakePrompt(1, 1, 3);
  SetEigenvalues({1, 2}, &prompt);
  EXPECT_THAT(DrawPrompts(prompt, 0, 0, 1),
              StatusIs(code, HasSubstr("2 values for data.dims = 3")));
  SetEigenvalues({0}, &prompt);
  EXPECT_THAT(DrawPrompts(prompt, 0, 0, 1),
              StatusIs(code, HasSubstr("not positive")));
}

}  // namespace
}  // namespace iclsweep
