#include "worker/theory/closed_form.h"

#include <algorithm>
#include <cmath>

#include "proto/base/streams.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

InputCovariance Diagonal(const std::vector<double>& eigenvalues, int64_t length,
                         double noise_variance = 0) {
  return *InputCovariance::Diagonal(
      eigenvalues, {.length = length, .noise_variance = noise_variance});
}

// [count][dims] independent standard normal tasks.
std::vector<double> SomeTasks(int count, int dims, uint64_t seed) {
  const int64_t size = int64_t{count} * dims;
  std::vector<double> w(static_cast<size_t>(size));
  FillNormal({.seed = seed, .purpose = Purpose::kTaskSet}, size, w.data());
  return w;
}

// The paper notes' fixture: Lambda = diag(0.5, 1, 2), N = 10, T = 3, M = 4, no
// noise; printed to 9 decimals.
TaskMoments Fixture() {
  return FixedTasks(Diagonal({0.5, 1, 2}, 10),
                    {1, 0, -1, 0.5, 1, 0, -1, 2, 0.5}, {0, 0, 0});
}

void ExpectParts(const ErrorParts& got, const std::array<double, 5>& want) {
  EXPECT_NEAR(got.variance_own, want[0], 6e-10);
  EXPECT_NEAR(got.variance_other, want[1], 6e-10);
  EXPECT_NEAR(got.bias_own, want[2], 6e-10);
  EXPECT_NEAR(got.interference, want[3], 6e-10);
  EXPECT_NEAR(got.Total(), want[4], 6e-10);
}

TEST(ClosedFormTest, ErrorsOfTheFixture) {
  const TaskMoments m = Fixture();
  ExpectParts(MsaOwnError(m, 4, 0),
              {0.781304425, 0, 0.431906532, 0, 1.213210957});
  ExpectParts(MsaFinalError(m, 4, 0), {0.076299260, 0.178906388, 1.663335950,
                                       0.664236028, 2.582777626});
  ExpectParts(LsaError(m, 4, 0), {1.220788164, 2.862502206, 0.191806570,
                                  5.088560770, 9.363657710});
  ExpectParts(MsaOwnError(m, 4, 1), {0.083541821, 0.195326106, 0.599993027,
                                     0.135118971, 1.013979926});
  ExpectParts(MsaFinalError(m, 4, 1), {0.032633524, 0.222572124, 0.777587973,
                                       -0.432619668, 0.600173953});
  ExpectParts(LsaError(m, 4, 1), {0.522136384, 3.561153986, 0.121005270,
                                  1.353947375, 5.558243015});
  ExpectParts(MsaOwnError(m, 4, 2), {0.166426014, 0.123941301, 3.339571701,
                                     0.065771086, 3.695710103});
  ExpectParts(MsaFinalError(m, 4, 2), {0.146272864, 0.108932784, 3.433496836,
                                       0.052233808, 3.740936292});
  ExpectParts(LsaError(m, 4, 2), {2.340365821, 1.742924549, 0.507281365,
                                  1.905720638, 6.496292373});
}

TEST(ClosedFormTest, DriftOfTheFixture) {
  const std::array<double, 3> want[] = {
      {0.548194808, 0.898404778, 1.446599585},
      {0.185488666, 0.186123782, 0.371612449},
      {0.001134247, 0.001285215, 0.002419462}};
  for (int t = 0; t < 3; ++t) {
    const DriftParts drift = MsaDrift(Fixture(), 4, t);
    EXPECT_NEAR(drift.variance, want[t][0], 6e-10);
    EXPECT_NEAR(drift.mean, want[t][1], 6e-10);
    EXPECT_NEAR(drift.Total(), want[t][2], 6e-10);
  }
}

// Second fixture: w ~ N(0, I) independent, d = 20, T = 5, Lambda = I, N
// infinite; printed to 3 decimals.
TEST(ClosedFormTest, IndependentRandomTasksOfTheFixture) {
  std::vector<double> independent(25, 0.0);
  for (size_t i = 0; i < 5; ++i) independent[i * 6] = 1;
  const TaskMoments m = RandomTasks(Diagonal(std::vector<double>(20, 1), 0),
                                    independent, std::vector<double>(5, 0));
  const struct {
    int examples;
    double g[5];
    double f[5];
  } cases[] = {
      {1, {110, 65, 50, 42.5, 38}, {88.182, 33.182, 14.848, 5.682, 0.182}},
      {5,
       {58.889, 39.444, 32.963, 29.722, 27.778},
       {57.793, 21.682, 9.645, 3.626, 0.015}},
      {19, {20, 20, 20, 20, 20}, {30.401, 11.401, 5.067, 1.901, 0.001}}};
  for (const auto& c : cases) {
    for (int t = 0; t < 5; ++t) {
      EXPECT_NEAR(MsaOwnError(m, c.examples, t).Total(), c.g[t], 6e-4)
          << c.examples << " " << t;
      EXPECT_NEAR(MsaDrift(m, c.examples, t).Total(), c.f[t], 6e-4)
          << c.examples << " " << t;
    }
  }
}

// The random-task form is the mean of the fixed-task form over task sets:
// 40,000 sets of correlated tasks, 4 standard errors.
TEST(ClosedFormTest, RandomTasksAreTheMeanOverFixedOnes) {
  constexpr int sets = 40000;
  const InputCovariance covariance = Diagonal({0.5, 1, 2}, 7, 0.3);
  // w_0 = z_0, w_1 = 0.6 z_0 + 0.8 z_1, w_2 = 0.6 z_0 + 0.8 z_2.
  const TaskMoments random = RandomTasks(
      covariance, {1, .6, .6, .6, 1, .36, .6, .36, 1}, {.1, .2, .3});
  std::array<double, 4> sum{};
  std::array<double, 4> squares{};
  for (uint64_t p = 0; p < sets; ++p) {
    std::vector<double> w = SomeTasks(3, 3, p);
    for (size_t i = 3; i < 9; ++i) w[i] = 0.6 * w[i % 3] + 0.8 * w[i];
    const TaskMoments m = FixedTasks(covariance, w, {.1, .2, .3});
    const double values[] = {
        MsaOwnError(m, 4, 2).Total(), MsaFinalError(m, 4, 0).Total(),
        LsaError(m, 4, 1).Total(), MsaDrift(m, 4, 1).Total()};
    for (size_t k = 0; k < 4; ++k) {
      sum[k] += values[k];
      squares[k] += values[k] * values[k];
    }
  }
  const double want[] = {
      MsaOwnError(random, 4, 2).Total(), MsaFinalError(random, 4, 0).Total(),
      LsaError(random, 4, 1).Total(), MsaDrift(random, 4, 1).Total()};
  for (size_t k = 0; k < 4; ++k) {
    const double mean = sum[k] / sets;
    EXPECT_NEAR(mean, want[k],
                4 * std::sqrt((squares[k] / sets - mean * mean) / sets))
        << k;
  }
}

TEST(ClosedFormTest, DenseAndDiagonalCovariancesAgree) {
  const std::vector<double> w = SomeTasks(3, 3, 5);
  const TaskMoments a =
      FixedTasks(Diagonal({0.5, 1, 2}, 10, 0.4), w, {.1, .2, .3});
  const auto dense = InputCovariance::Dense(
      {.5, 0, 0, 0, 1, 0, 0, 0, 2}, 3, {.length = 10, .noise_variance = 0.4});
  ASSERT_OK(dense);
  const TaskMoments b = FixedTasks(*dense, w, {.1, .2, .3});
  for (int t = 0; t < 3; ++t) {
    EXPECT_NEAR(MsaFinalError(a, 4, t).Total(), MsaFinalError(b, 4, t).Total(),
                1e-13);
    EXPECT_NEAR(MsaDrift(a, 4, t).Total(), MsaDrift(b, 4, t).Total(), 1e-13);
  }
}

// Rotating inputs and tasks together changes nothing: dense path with
// off-diagonal entries against the diagonal one.
TEST(ClosedFormTest, RotationsChangeNothing) {
  const double c = 0.6;
  const double s = 0.8;
  const TaskMoments a =
      FixedTasks(Diagonal({0.5, 2}, 6, 0.1), {1, -2, 0.5, 3}, {.1, .2});
  const auto rotated =
      InputCovariance::Dense({c * c * .5 + s * s * 2, c * s * (.5 - 2),
                              c * s * (.5 - 2), s * s * .5 + c * c * 2},
                             2, {.length = 6, .noise_variance = 0.1});
  ASSERT_OK(rotated);
  const TaskMoments b = FixedTasks(
      *rotated, {c * 1 + s * 2, s * 1 - c * 2, c * .5 - s * 3, s * .5 + c * 3},
      {.1, .2});
  for (int t = 0; t < 2; ++t) {
    EXPECT_NEAR(MsaOwnError(a, 3, t).Total(), MsaOwnError(b, 3, t).Total(),
                1e-13);
    EXPECT_NEAR(LsaError(a, 3, t).interference, LsaError(b, 3, t).interference,
                1e-13);
  }
}

TEST(ClosedFormTest, DriftIgnoresTheOrderInsidePastAndFuture) {
  const InputCovariance covariance = Diagonal({0.5, 1, 2}, 10);
  const std::vector<double> w = SomeTasks(4, 3, 1);
  std::vector<double> swapped = w;
  std::swap_ranges(swapped.begin(), swapped.begin() + 3,
                   swapped.begin() + 3);  // past: positions 0, 1
  std::swap_ranges(swapped.begin() + 6, swapped.begin() + 9,
                   swapped.begin() + 9);  // future: positions 2, 3
  const std::vector<double> noise(4, 0.1);
  const TaskMoments a = FixedTasks(covariance, w, noise);
  const TaskMoments b = FixedTasks(covariance, swapped, noise);
  EXPECT_NEAR(MsaDrift(a, 5, 1).Total(), MsaDrift(b, 5, 1).Total(), 1e-13);
  EXPECT_GT(std::fabs(MsaDrift(a, 5, 0).Total() - MsaDrift(b, 5, 0).Total()),
            1e-3);
}

TEST(ClosedFormTest, OwnErrorDependsOnOrderButFinalAndUnmaskedErrorsDoNot) {
  const InputCovariance covariance = Diagonal({0.5, 1, 2}, 10);
  const std::vector<double> w = SomeTasks(3, 3, 2);
  std::vector<double> moved(w.begin() + 3, w.end());  // task 0 goes last
  moved.insert(moved.end(), w.begin(), w.begin() + 3);
  const TaskMoments a = FixedTasks(covariance, w, {0, 0, 0});
  const TaskMoments b = FixedTasks(covariance, moved, {0, 0, 0});
  EXPECT_NEAR(MsaFinalError(a, 5, 0).Total(), MsaFinalError(b, 5, 2).Total(),
              1e-13);
  EXPECT_NEAR(LsaError(a, 5, 0).Total(), LsaError(b, 5, 2).Total(), 1e-12);
  EXPECT_GT(
      std::fabs(MsaOwnError(a, 5, 0).Total() - MsaOwnError(b, 5, 2).Total()),
      1e-3);
}

// Equal norms, angle theta, Lambda = I, N infinite, no noise: history helps iff
// M < (d+1)/(1-cos theta) - 2.
TEST(ClosedFormTest, HistoryHelpsBelowTheTransferThreshold) {
  constexpr int dims = 6;
  const InputCovariance covariance = Diagonal(std::vector<double>(dims, 1), 0);
  int helps = 0;
  int hurts = 0;
  for (const double degrees : {20.0, 40.0, 60.0, 90.0}) {
    const double cosine = std::cos(degrees * 3.14159265358979323846 / 180);
    std::vector<double> w(size_t{2} * dims, 0.0);
    w[0] = 2;
    w[dims] = 2 * cosine;
    w[dims + 1] = 2 * std::sqrt(1 - cosine * cosine);
    const TaskMoments m = FixedTasks(covariance, w, {0, 0});
    for (int examples = 1; examples < 150; ++examples) {
      const double transfer = MsaOwnError(m, examples, 1).Total() -
                              MsaSingleError(m, examples, 1).Total();
      const double threshold = (dims + 1) / (1 - cosine) - 2;
      if (std::fabs(examples - threshold) < 1e-6)
        continue;  // exactly at the threshold both are equal
      EXPECT_EQ(transfer < 0, examples < threshold)
          << degrees << " degrees, M = " << examples;
      ++(transfer < 0 ? helps : hurts);
    }
  }
  EXPECT_GT(helps, 20);
  EXPECT_GT(hurts, 20);
}

TEST(ClosedFormTest, OneTaskIsTheSameAloneAndInAPrompt) {
  const TaskMoments m = FixedTasks(Diagonal({0.5, 1}, 10, 0.1), {1, 2}, {0.3});
  EXPECT_EQ(MsaOwnError(m, 4, 0).Total(), MsaSingleError(m, 4, 0).Total());
  EXPECT_EQ(LsaError(m, 4, 0).Total(), LsaSingleError(m, 4, 0).Total());
  EXPECT_GT(MsaDrift(m, 4, 0).Total(), 0);  // the column shifts by one
}

// Long contexts: F_t -> ((T-t)/T)^2 |mean of the future - mean of the
// past|_A^2, G_t -> |Gamma^-1 mean mu - w_t|_Lambda^2.
TEST(ClosedFormTest, LongContextsReachTheirLimits) {
  const std::vector<double> eigenvalues = {0.5, 1, 2};
  const double gamma[] = {0.9, 1.45, 2.55};  // N = 10
  const std::vector<double> w = {1, 0, -1, 0.5, 1, 0, -1, 2, 0.5};
  const TaskMoments m = FixedTasks(Diagonal(eigenvalues, 10), w, {0, 0, 0});
  constexpr int examples = 10000000;
  double drift = 0;
  double error = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double past = eigenvalues[i] * (w[i] + w[3 + i]) / 2;
    const double contrast = (eigenvalues[i] * w[6 + i] - past) / 3;
    drift += contrast * contrast * eigenvalues[i] / (gamma[i] * gamma[i]);
    error += eigenvalues[i] * (past / gamma[i] - w[3 + i]) *
             (past / gamma[i] - w[3 + i]);
  }
  EXPECT_NEAR(MsaDrift(m, examples, 1).Total() / drift, 1, 1e-5);
  EXPECT_NEAR(MsaOwnError(m, examples, 1).Total() / error, 1, 1e-5);
}

TEST(ClosedFormTest, DriftOfIdenticalTasksVanishesInTheMeanForLongContexts) {
  const TaskMoments m =
      FixedTasks(Diagonal({1, 1}, 0), {1, 2, 1, 2, 1, 2}, {0, 0, 0});
  const DriftParts drift = MsaDrift(m, 1000000, 0);
  EXPECT_GE(drift.mean, 0);
  EXPECT_LT(drift.mean, 1e-10);
}

TEST(ClosedFormTest, RefusesCovariancesThatAreNotPositiveDefinite) {
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(InputCovariance::Diagonal({1, 0}, {}),
              StatusIs(code, HasSubstr("not positive")));
  EXPECT_THAT(InputCovariance::Dense({1, 2, 2, 1}, 2, {}),
              StatusIs(code, HasSubstr("not positive definite")));
}

}  // namespace
}  // namespace iclsweep
