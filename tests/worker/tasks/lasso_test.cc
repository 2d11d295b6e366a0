#include "worker/tasks/lasso.h"

#include <gtest/gtest.h>

#include <cmath>

#include "proto/base/streams.h"

namespace iclsweep {
namespace {

struct Data {
  int64_t count = 0;
  int dims = 0;
  std::vector<double> inputs;
  std::vector<double> labels;
  Examples examples() const {
    return {inputs.data(), labels.data(), count, dims};
  }
};

Data RandomData(int64_t count, int dims, uint64_t seed) {
  Data data{count, dims, std::vector<double>(static_cast<size_t>(count * dims)),
            std::vector<double>(static_cast<size_t>(count))};
  FillNormal({.seed = seed, .purpose = Purpose::kContextInput}, count * dims,
             data.inputs.data());
  FillNormal({.seed = seed, .purpose = Purpose::kContextNoise}, count,
             data.labels.data());
  return data;
}

// How far X'(y - Xw) / n is from alpha sign(w), or from [-alpha, alpha] where
// w = 0: 0 at a minimiser and nowhere else.
double Violation(const Data& data, double alpha, const std::vector<double>& w) {
  std::vector<double> gradient(w.size(), 0.0);
  for (size_t i = 0; i < data.labels.size(); ++i) {
    double residual = data.labels[i];
    for (size_t j = 0; j < w.size(); ++j)
      residual -= data.inputs[i * w.size() + j] * w[j];
    for (size_t j = 0; j < w.size(); ++j)
      gradient[j] += residual * data.inputs[i * w.size() + j] /
                     static_cast<double>(data.count);
  }
  double worst = 0;
  for (size_t j = 0; j < w.size(); ++j) {
    const double violation =
        w[j] == 0 ? std::fabs(gradient[j]) - alpha
                  : std::fabs(gradient[j] - std::copysign(alpha, w[j]));
    if (!(violation <= worst)) worst = violation;  // NaN stays
  }
  return worst;
}

TEST(LassoTest, MeetsTheOptimalityConditions) {
  for (const int64_t count : {1, 2, 7, 8, 9, 40}) {
    for (const double alpha : {1e-6, 1e-3, 0.1, 0.5}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const Data data = RandomData(count, 8, seed);
        EXPECT_LT(Violation(data, alpha, LassoWeights(data.examples(), alpha)),
                  1e-11)
            << count << " examples, alpha " << alpha << ", seed " << seed;
      }
    }
  }
}

// X'X / n = I: every weight of least squares shrinks by alpha, down to 0.
TEST(LassoTest, ShrinksTheWeightsOfOrthonormalInputs) {
  const double root = std::sqrt(3.0);
  const Data data{
      3, 3, {root, 0, 0, 0, root, 0, 0, 0, root}, {root * 2, root * -1, root}};
  const std::vector<double> w = LassoWeights(data.examples(), 1);
  EXPECT_NEAR(w[0], 1, 1e-14);
  EXPECT_EQ(w[1], 0);
  EXPECT_EQ(w[2], 0);
  const std::vector<double> v = LassoWeights(data.examples(), 0.25);
  EXPECT_NEAR(v[0], 1.75, 1e-14);
  EXPECT_NEAR(v[1], -0.75, 1e-14);
  EXPECT_NEAR(v[2], 0.75, 1e-14);
}

// Column 2 is column 0 and column 3 is their sum with column 1: the Gram matrix
// is singular and the minimiser is not unique.
TEST(LassoTest, FindsAMinimiserOfDependentColumns) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Data data = RandomData(6, 5, seed);
    for (size_t i = 0; i < 6; ++i) {
      double* x = &data.inputs[i * 5];
      x[2] = x[0];
      x[3] = x[0] + x[1];
    }
    for (const double alpha : {1e-4, 0.05}) {
      EXPECT_LT(Violation(data, alpha, LassoWeights(data.examples(), alpha)),
                1e-12)
          << seed;
    }
  }
}

TEST(LassoTest, IgnoresAColumnOfZeros) {
  const Data data{2, 2, {1, 0, 2, 0}, {1, 2}};
  const std::vector<double> w = LassoWeights(data.examples(), 0.25);
  EXPECT_NEAR(w[0], 0.9, 1e-15);  // (5/2 - 1/4) / (5/2)
  EXPECT_EQ(w[1], 0);
}

TEST(LassoTest, AnEmptyContextAndALargePenaltyGiveZero) {
  EXPECT_EQ(LassoWeights({nullptr, nullptr, 0, 2}, 1),
            (std::vector<double>{0, 0}));
  const Data data = RandomData(5, 2, 1);
  EXPECT_EQ(LassoWeights(data.examples(), 100), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace iclsweep
