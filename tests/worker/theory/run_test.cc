#include "worker/theory/run.h"

#include <cmath>
#include <map>
#include <tuple>

#include "tests/support/status_matchers.h"
#include "tests/worker/tasks/prompts.h"

namespace iclsweep {
namespace {

using ::testing::HasSubstr;
using testing::MakePrompt;
using testing::StatusIs;

using RowKey = std::tuple<std::string, std::string, int,
                          int>;  // predictor, name, task, position

v1::TheoryInputs MakeInputs(int tasks, int examples, int dims) {
  v1::TheoryInputs inputs;
  *inputs.mutable_prompt() = MakePrompt(tasks, examples, dims);
  inputs.mutable_theory()->set_pretraining_length(10);
  return inputs;
}

std::map<RowKey, double> RowsOf(const v1::TheoryInputs& inputs) {
  const auto result = RunTheory(inputs, {});
  EXPECT_OK(result);
  std::map<RowKey, double> rows;
  if (!result.ok()) return rows;
  for (const Measurement& m : result->measurements) {
    EXPECT_EQ(m.n, 0);
    EXPECT_TRUE(std::isnan(m.standard_error));
    EXPECT_TRUE(
        rows.emplace(RowKey{m.predictor, m.name, m.task, m.position}, m.value)
            .second)
        << m.predictor << " " << m.name;
  }
  return rows;
}

TEST(RunTheoryTest, ReportsEveryNameForEveryTaskAndTheAverages) {
  const auto rows = RowsOf(MakeInputs(3, 4, 5));
  const char* per_task[] = {"G",
                            "G_single",
                            "NT",
                            "E_final",
                            "delta_E",
                            "F",
                            "G_irreducible",
                            "G_variance_own",
                            "G_variance_other",
                            "G_bias_own",
                            "G_interference",
                            "E_final_irreducible",
                            "E_final_variance_own",
                            "E_final_variance_other",
                            "E_final_bias_own",
                            "E_final_interference",
                            "F_variance",
                            "F_mean"};
  for (const char* predictor : {"msa", "lsa"}) {
    for (int t = 0; t < 3; ++t) {
      for (const char* name : per_task)
        EXPECT_TRUE(rows.contains({predictor, name, t, t}))
            << predictor << " " << name;
    }
    for (const char* name : {"G", "E_final", "delta_E", "F"})
      EXPECT_TRUE(rows.contains({predictor, name, -1, -1}));
  }
  EXPECT_EQ(rows.size(), 2U * (3 * 18 + 4));
}

TEST(RunTheoryTest, PartsAddUpAndAveragesAreMeans) {
  v1::TheoryInputs inputs = MakeInputs(4, 3, 5);
  inputs.mutable_prompt()->mutable_data()->set_noise_std(0.4);
  const auto rows = RowsOf(inputs);
  double mean = 0;
  for (int t = 0; t < 4; ++t) {
    double sum = 0;
    for (const char* part : {"irreducible", "variance_own", "variance_other",
                             "bias_own", "interference"}) {
      sum += rows.at({"msa", std::string("G_") + part, t, t});
    }
    EXPECT_NEAR(sum, rows.at({"msa", "G", t, t}), 1e-12);
    EXPECT_NEAR(rows.at({"msa", "G_irreducible", t, t}), 0.16, 1e-15);
    mean += sum / 4;
  }
  EXPECT_NEAR(rows.at({"msa", "G", -1, -1}), mean, 1e-12);
}

TEST(RunTheoryTest,
     TheFinalErrorOfATaskDoesNotDependOnTheOrderItsOwnErrorDoes) {
  v1::TheoryInputs inputs = MakeInputs(3, 4, 5);
  const auto plain = RowsOf(inputs);
  testing::SetOrder({2, 0, 1}, inputs.mutable_prompt());
  const auto moved = RowsOf(inputs);
  const int position[] = {1, 2, 0};  // of each task in the order 2-0-1
  for (int t = 0; t < 3; ++t) {
    EXPECT_NEAR(plain.at({"msa", "E_final", t, t}),
                moved.at({"msa", "E_final", t, position[t]}), 1e-12);
    EXPECT_NEAR(plain.at({"msa", "G_single", t, t}),
                moved.at({"msa", "G_single", t, position[t]}), 1e-12);
    EXPECT_NEAR(plain.at({"lsa", "G", t, t}),
                moved.at({"lsa", "G", t, position[t]}), 1e-12);
    EXPECT_GT(std::fabs(plain.at({"msa", "G", t, t}) -
                        moved.at({"msa", "G", t, position[t]})),
              1e-6);
  }
  EXPECT_EQ(moved.at({"msa", "NT", 2, 0}),
            0);  // first in the prompt: as if alone
}

TEST(RunTheoryTest, UnmaskedAttentionDoesNotDrift) {
  const auto rows = RowsOf(MakeInputs(3, 4, 5));
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(rows.at({"lsa", "F", t, t}), 0);
    EXPECT_EQ(rows.at({"lsa", "delta_E", t, t}), 0);
    EXPECT_EQ(rows.at({"lsa", "E_final", t, t}), rows.at({"lsa", "G", t, t}));
  }
}

// |w|^2 = d = 20, Lambda = I, N infinite, T = 5. Identical tasks: printed in
// the paper notes. Orthogonal tasks, by Theorem 4.4: F_t = |w|^2 (M (d+1) +
// M^2) (t c_t^2 + (T-t) d^2), averaged over t.
TEST(RunTheoryTest, MeanDriftOfRotatedTasksRisesWithTheAngle) {
  const struct {
    int examples;
    double degrees;
    double drift;
    double tolerance;
  } cases[] = {{19, 0, 5.12, 6e-3},
               {19, 90, 9.754078358330881, 1e-11},
               {5, 0, 15.0, 6e-2},
               {5, 90, 18.552067676417312, 1e-11}};
  for (const auto& c : cases) {
    v1::TheoryInputs inputs;
    *inputs.mutable_prompt() = testing::MakeAnglePrompt(5, 20, c.degrees);
    inputs.mutable_prompt()->set_examples_per_task(c.examples);
    EXPECT_NEAR(RowsOf(inputs).at({"msa", "F", -1, -1}), c.drift, c.tolerance)
        << c.examples << " " << c.degrees;
  }
}

// The printed values of the independent case, N infinite, d = 20, T = 5, M = 5.
TEST(RunTheoryTest, FreshTaskSetsUseTheRandomForm) {
  v1::TheoryInputs inputs = MakeInputs(5, 5, 20);
  inputs.mutable_theory()->set_pretraining_length(0);
  inputs.mutable_prompt()->set_task_set(v1::TASK_SET_FRESH);
  const auto rows = RowsOf(inputs);
  const double g[] = {58.889, 39.444, 32.963, 29.722, 27.778};
  for (int t = 0; t < 5; ++t)
    EXPECT_NEAR(rows.at({"msa", "G", t, t}), g[t], 6e-4);
}

TEST(RunTheoryTest, RefusesBadParameters) {
  v1::TheoryInputs inputs = MakeInputs(3, 4, 5);
  testing::SetOrder({0, 0, 1}, inputs.mutable_prompt());
  EXPECT_THAT(RunTheory(inputs, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0-0-1")));
  EXPECT_THAT(RunTheory(MakeInputs(3, 0, 5), {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("examples_per_task")));
}

TEST(RunTheoryTest, RefusesFamiliesWithoutAClosedForm) {
  for (const v1::Family family : testing::kAllFamilies) {
    v1::TheoryInputs inputs = MakeInputs(3, 4, 5);
    inputs.mutable_prompt()->mutable_data()->set_family(family);
    inputs.mutable_prompt()->mutable_data()->set_noise_std(1);
    const auto result = RunTheory(inputs, {});
    if (family == v1::FAMILY_LINEAR || family == v1::FAMILY_NOISY_LINEAR) {
      EXPECT_OK(result);
    } else {
      EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr(v1::Family_Name(family))));
    }
  }
}

TEST(RunTheoryTest, StopsWhenToldTo) {
  const std::atomic<bool> stop = true;
  StageContext context;
  context.stop = &stop;
  EXPECT_THAT(RunTheory(MakeInputs(3, 4, 5), context),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("stop")));
}

}  // namespace
}  // namespace iclsweep
