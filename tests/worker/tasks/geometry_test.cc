#include "worker/tasks/geometry.h"

#include <cmath>
#include <set>

#include "tests/support/status_matchers.h"
#include "tests/worker/tasks/prompts.h"
#include "worker/tasks/order.h"

namespace iclsweep {
namespace {

using ::testing::HasSubstr;
using testing::MakeAnglePrompt;
using testing::MakePrompt;
using testing::StatusIs;

constexpr double kDegrees = 180 / 3.14159265358979323846;

// Coordinate k of task i in w[tasks][dims].
double At(const std::vector<double>& w, int dims, int i, int k) {
  return w[static_cast<size_t>(i) * static_cast<size_t>(dims) +
           static_cast<size_t>(k)];
}

double Dot(const std::vector<double>& w, int dims, int i, int j) {
  double sum = 0;
  for (int k = 0; k < dims; ++k) sum += At(w, dims, i, k) * At(w, dims, j, k);
  return sum;
}

double AngleDegrees(const std::vector<double>& w, int dims, int i, int j) {
  return std::acos(Dot(w, dims, i, j) /
                   std::sqrt(Dot(w, dims, i, i) * Dot(w, dims, j, j))) *
         kDegrees;
}

TEST(GeometryTest, RotatedTasksHaveTheAskedAngleAndNorm) {
  for (const double degrees : {15.0, 30.0, 45.0, 60.0, 75.0, 90.0}) {
    ASSERT_OK_AND_ASSIGN(
        const auto w,
        DrawTaskSet(MakeAnglePrompt(5, 20, degrees), {.seed = 4}));
    for (int t = 0; t < 5; ++t)
      EXPECT_NEAR(Dot(w, 20, t, t), 20, 1e-12) << degrees;
    for (int t = 1; t < 5; ++t)
      EXPECT_NEAR(AngleDegrees(w, 20, 0, t), degrees, 1e-10);
  }
}

TEST(GeometryTest, AngleZeroGivesIdenticalTasks) {
  ASSERT_OK_AND_ASSIGN(const auto w,
                       DrawTaskSet(MakeAnglePrompt(4, 6, 0), {.seed = 4}));
  for (size_t i = 6; i < w.size(); ++i) EXPECT_EQ(w[i], w[i % 6]);
}

TEST(GeometryTest, RightAngleMakesTheWholeSetOrthogonal) {
  ASSERT_OK_AND_ASSIGN(const auto w,
                       DrawTaskSet(MakeAnglePrompt(8, 8, 90), {.seed = 11}));
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < i; ++j) EXPECT_NEAR(Dot(w, 8, i, j), 0, 1e-13);
  }
}

TEST(GeometryTest, OneBaseAndOneOffsetServeEveryAngle) {
  ASSERT_OK_AND_ASSIGN(const auto a,
                       DrawTaskSet(MakeAnglePrompt(3, 7, 20), {.seed = 2}));
  ASSERT_OK_AND_ASSIGN(const auto b,
                       DrawTaskSet(MakeAnglePrompt(3, 7, 70), {.seed = 2}));
  for (size_t i = 0; i < 7; ++i) EXPECT_EQ(a[i], b[i]);
  // w_t - cos w_0 = sin r o_t: the same direction at both angles.
  for (size_t i = 7; i < 21; ++i) {
    const double from_a =
        (a[i] - std::cos(20 / kDegrees) * a[i % 7]) / std::sin(20 / kDegrees);
    const double from_b =
        (b[i] - std::cos(70 / kDegrees) * b[i % 7]) / std::sin(70 / kDegrees);
    EXPECT_NEAR(from_a, from_b, 1e-13);
  }
}

TEST(GeometryTest, SmallerSetsAreTheBeginningOfLargerOnes) {
  for (const auto geometry :
       {v1::GEOMETRY_INDEPENDENT, v1::GEOMETRY_ANGLE, v1::GEOMETRY_CLUSTERED}) {
    for (const double degrees : {30.0, 90.0}) {
      v1::PromptParams few = MakeAnglePrompt(2, 6, degrees);
      few.set_geometry(geometry);
      v1::PromptParams many = few;
      many.set_tasks(6);
      ASSERT_OK_AND_ASSIGN(const auto a, DrawTaskSet(few, {.seed = 5}));
      ASSERT_OK_AND_ASSIGN(const auto b, DrawTaskSet(many, {.seed = 5}));
      for (size_t i = 0; i < a.size(); ++i)
        EXPECT_EQ(a[i], b[i]) << geometry << " " << degrees;
    }
  }
}

TEST(GeometryTest, ClusteredTasksAlternateBetweenTwoVectors) {
  v1::PromptParams prompt = MakePrompt(5, 1, 4);
  prompt.set_geometry(v1::GEOMETRY_CLUSTERED);
  ASSERT_OK_AND_ASSIGN(const auto w, DrawTaskSet(prompt, {.seed = 1}));
  for (size_t i = 8; i < w.size(); ++i) EXPECT_EQ(w[i], w[i % 8]);
  EXPECT_NE(w[0], w[4]);
}

TEST(GeometryTest, SeedPromptAndPurposeChangeTheSet) {
  const v1::PromptParams prompt = MakePrompt(2, 1, 3);
  ASSERT_OK_AND_ASSIGN(const auto base, DrawTaskSet(prompt, {.seed = 1}));
  for (const TaskSetDraw& draw :
       {TaskSetDraw{.seed = 2}, TaskSetDraw{.seed = 1, .prompt = 1},
        TaskSetDraw{.seed = 1, .set = Purpose::kCompareTaskSet}}) {
    ASSERT_OK_AND_ASSIGN(const auto other, DrawTaskSet(prompt, draw));
    EXPECT_NE(base, other);
  }
}

// Sample mean of <w_i, w_j> / dims over many sets against the numbers the
// random-task closed form uses, within 4 standard errors; the off-diagonal
// moments of one pair must vanish for E[w_i w_j'] to be a multiple of the
// identity.
TEST(GeometryTest, CorrelationsAgreeWithTheDrawnSets) {
  constexpr int sets = 20000;
  constexpr int tasks = 3;
  constexpr int dims = 4;
  std::vector<v1::PromptParams> prompts = {
      MakePrompt(tasks, 1, dims), MakeAnglePrompt(tasks, dims, 40),
      MakeAnglePrompt(tasks, dims, 90), MakePrompt(tasks, 1, dims)};
  prompts[3].set_geometry(v1::GEOMETRY_CLUSTERED);
  for (const v1::PromptParams& prompt : prompts) {
    ASSERT_OK_AND_ASSIGN(const auto expected, TaskCorrelations(prompt));
    for (int pair = 0; pair < tasks * tasks; ++pair) {
      double sum = 0;
      double squares = 0;
      double mixed = 0;
      double mixed_squares = 0;
      for (uint64_t p = 0; p < sets; ++p) {
        ASSERT_OK_AND_ASSIGN(const auto w,
                             DrawTaskSet(prompt, {.seed = 8, .prompt = p}));
        const double value = Dot(w, dims, pair / tasks, pair % tasks) / dims;
        const double off =
            At(w, dims, pair / tasks, 0) * At(w, dims, pair % tasks, 1);
        sum += value;
        squares += value * value;
        mixed += off;
        mixed_squares += off * off;
      }
      const double mean = sum / sets;
      const double error =
          std::sqrt(std::max(squares / sets - mean * mean, 0.0) / sets);
      EXPECT_NEAR(mean, expected[static_cast<size_t>(pair)], 4 * error + 1e-12)
          << prompt.ShortDebugString() << " pair " << pair;
      EXPECT_NEAR(mixed / sets, 0, 4 * std::sqrt(mixed_squares / sets / sets));
    }
  }
}

TEST(GeometryTest, CosineAndSineAgreeWithTheLibrary) {
  for (int i = 0; i <= 900; ++i) {
    const CosSin own = CosSinDegrees(i / 10.0);
    EXPECT_NEAR(own.cos, std::cos(i / 10.0 / kDegrees), 4e-16) << i;
    EXPECT_NEAR(own.sin, std::sin(i / 10.0 / kDegrees), 4e-16) << i;
  }
  EXPECT_EQ(CosSinDegrees(90).cos, 0);
  EXPECT_EQ(CosSinDegrees(0).sin, 0);
}

TEST(GeometryTest, RefusesWhatDoesNotFit) {
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(DrawTaskSet(MakeAnglePrompt(5, 4, 90), {}),
              StatusIs(code, HasSubstr("prompt.tasks = 5")));
  EXPECT_THAT(DrawTaskSet(MakeAnglePrompt(2, 1, 30), {}),
              StatusIs(code, HasSubstr("dims >= 2")));
  EXPECT_THAT(DrawTaskSet(MakeAnglePrompt(2, 3, 91), {}),
              StatusIs(code, HasSubstr("angle_degrees = 91")));
  EXPECT_THAT(DrawTaskSet(MakeAnglePrompt(2, 3, -1), {}),
              StatusIs(code, HasSubstr("outside 0 .. 90")));
}

TEST(GeometryTest, OnlyDenseWeightVectorsHaveAnAngle) {
  for (const v1::Family family : testing::kAllFamilies) {
    v1::PromptParams prompt = MakeAnglePrompt(3, 4, 60);
    prompt.mutable_data()->set_family(family);
    prompt.mutable_data()->set_noise_std(1);
    const auto w = DrawTaskSet(prompt, {.seed = 4});
    if (family == v1::FAMILY_LINEAR || family == v1::FAMILY_NOISY_LINEAR ||
        family == v1::FAMILY_QUADRATIC) {
      ASSERT_OK(w);
      EXPECT_NEAR(AngleDegrees(*w, 4, 0, 1), 60, 1e-10) << family;
    } else {
      EXPECT_THAT(w, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("needs tasks with dense weights")))
          << family;
    }
  }
}

TEST(GeometryTest, ClustersShareWholeTasksInEveryFamily) {
  for (const v1::Family family : testing::kAllFamilies) {
    v1::PromptParams prompt = MakePrompt(4, 1, 5);
    prompt.mutable_data()->set_family(family);
    prompt.mutable_data()->set_noise_std(1);
    ASSERT_OK_AND_ASSIGN(const auto own, DrawTaskSet(prompt, {.seed = 4}));
    prompt.set_geometry(v1::GEOMETRY_CLUSTERED);
    ASSERT_OK_AND_ASSIGN(const auto shared, DrawTaskSet(prompt, {.seed = 4}));
    const auto task = [size = own.size() / 4](const std::vector<double>& set,
                                              size_t t) {
      return std::vector<double>(
          set.begin() + static_cast<int64_t>(t * size),
          set.begin() + static_cast<int64_t>((t + 1) * size));
    };
    std::set<std::vector<double>> different;
    for (size_t t = 0; t < 4; ++t) {
      different.insert(task(own, t));
      EXPECT_EQ(task(shared, t), task(own, t % 2)) << family;
    }
    EXPECT_EQ(different.size(), 4U) << family;
  }
}

TEST(GeometryTest, OneDimensionAllowsIdenticalTasksOnly) {
  ASSERT_OK_AND_ASSIGN(const auto w,
                       DrawTaskSet(MakeAnglePrompt(3, 1, 0), {.seed = 3}));
  EXPECT_EQ(std::fabs(w[0]), 1);
  EXPECT_EQ(w, std::vector<double>(3, w[0]));
}

TEST(OrderTest, EmptyOrderIsTheIdentity) {
  ASSERT_OK_AND_ASSIGN(const auto order, TaskOrder(MakePrompt(3, 1, 1)));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(OrderTest, KeepsAPermutationAndRefusesAnythingElse) {
  v1::PromptParams prompt = MakePrompt(3, 1, 1);
  testing::SetOrder({2, 0, 1}, &prompt);
  ASSERT_OK_AND_ASSIGN(const auto order, TaskOrder(prompt));
  EXPECT_EQ(order, (std::vector<int>{2, 0, 1}));
  for (const std::vector<int>& bad : {std::vector<int>{0, 1},
                                      {0, 1, 1},
                                      {0, 1, 3},
                                      {-1, 0, 1},
                                      {0, 1, 2, 2}}) {
    testing::SetOrder(bad, &prompt);
    EXPECT_THAT(TaskOrder(prompt),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("not a permutation of 0 .. 2")));
  }
}

}  // namespace
}  // namespace iclsweep
