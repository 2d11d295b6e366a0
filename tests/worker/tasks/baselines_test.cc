#include "worker/tasks/baselines.h"

#include <cmath>

#include "proto/base/streams.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/tasks/prompts.h"

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

// X'(y - Xw) for every coordinate: 0 at a least-squares solution.
std::vector<double> Gradient(const Data& data, const std::vector<double>& w) {
  std::vector<double> gradient(w.size(), 0.0);
  for (size_t i = 0; i < data.labels.size(); ++i) {
    double residual = data.labels[i];
    for (size_t j = 0; j < w.size(); ++j)
      residual -= data.inputs[i * w.size() + j] * w[j];
    for (size_t j = 0; j < w.size(); ++j)
      gradient[j] += residual * data.inputs[i * w.size() + j];
  }
  return gradient;
}

TEST(BaselinesTest, LeastSquaresLeavesNoGradient) {
  for (const int64_t count : {1, 3, 5, 6, 20}) {
    const Data data = RandomData(count, 5, 1);
    for (const double g : Gradient(data, LeastSquaresWeights(data.examples())))
      EXPECT_NEAR(g, 0, 1e-12) << count;
  }
}

// Minimum norm = in the row space: w = X'a. With fewer examples than dimensions
// a = (XX')^-1 y; two examples by hand.
TEST(BaselinesTest, LeastSquaresHasMinimumNormWithFewExamples) {
  const Data data{2, 3, {1, 2, 2, 0, 3, -1}, {5, 1}};
  // XX' = [9 4; 4 10], inverse [10 -4; -4 9] / 74, a = (46, -11) / 74.
  const std::vector<double> w = LeastSquaresWeights(data.examples());
  EXPECT_NEAR(w[0], 46.0 / 74, 1e-14);
  EXPECT_NEAR(w[1], (2 * 46.0 - 3 * 11.0) / 74, 1e-14);
  EXPECT_NEAR(w[2], (2 * 46.0 + 11.0) / 74, 1e-14);
}

// Five examples on one line: the weights lie on that line although there are
// more examples than dimensions.
TEST(BaselinesTest, LeastSquaresHasMinimumNormWhenExamplesAreDependent) {
  Data data{5, 3, {}, {}};
  for (const double scale : {1.0, -2.0, 0.5, 3.0, 1.5}) {
    for (const double part : {1.0, 2.0, -1.0})
      data.inputs.push_back(scale * part);
    data.labels.push_back(scale * 12);
  }
  const std::vector<double> w = LeastSquaresWeights(data.examples());
  EXPECT_NEAR(w[0], 2, 1e-13);
  EXPECT_NEAR(w[1], 4, 1e-13);
  EXPECT_NEAR(w[2], -2, 1e-13);
}

TEST(BaselinesTest, LeastSquaresOfInputsThatAreZeroIsZero) {
  const Data data{2, 2, {0, 0, 0, 0}, {1, 2}};
  EXPECT_EQ(LeastSquaresWeights(data.examples()), (std::vector<double>{0, 0}));
}

TEST(BaselinesTest, RidgeSolvesItsNormalEquations) {
  for (const int64_t count : {2, 5, 12}) {
    for (const double lambda : {1e-6, 0.25, 10.0}) {
      const Data data = RandomData(count, 5, 2);
      const std::vector<double> w = RidgeWeights(data.examples(), lambda);
      const std::vector<double> gradient = Gradient(data, w);
      for (size_t j = 0; j < w.size(); ++j)
        EXPECT_NEAR(gradient[j], lambda * w[j], 1e-12)
            << count << " " << lambda;
    }
  }
}

TEST(BaselinesTest, RidgeWithoutPenaltyIsLeastSquares) {
  const Data data = RandomData(4, 6, 3);
  EXPECT_EQ(RidgeWeights(data.examples(), 0),
            LeastSquaresWeights(data.examples()));
}

TEST(BaselinesTest, AnEmptyContextPredictsZero) {
  const Data data = RandomData(0, 2, 1);
  const double query[] = {1, 2};
  EXPECT_EQ(LeastSquaresWeights(data.examples()), (std::vector<double>{0, 0}));
  EXPECT_EQ(RidgeWeights(data.examples(), 1), (std::vector<double>{0, 0}));
  EXPECT_EQ(AveragingWeights(data.examples()), (std::vector<double>{0, 0}));
  EXPECT_EQ(NearestThree(data.examples(), query), 0);
}

TEST(BaselinesTest, NearestThreeAveragesTheClosestLabels) {
  const Data data{5, 1, {0, 10, 1, 2, -20}, {1, 100, 2, 6, 1000}};
  const double query[] = {0.4};
  EXPECT_EQ(NearestThree(data.examples(), query), 3);
  EXPECT_EQ(NearestThree({data.inputs.data(), data.labels.data(), 2, 1}, query),
            50.5);
}

// The rule that counts what it may see: contexts are the pairs of the blocks so
// far, query slots left out.
TEST(BaselinesTest, QueriesSeeTheLabelledPairsBeforeThem) {
  const OrderedPrompt prompt = InOrder(
      *DrawPrompts(testing::MakePrompt(3, 4, 2), 1, 0, 1), 0, {0, 1, 2});
  const auto sum_labels = [](const Examples& context, const double* /*queries*/,
                             int64_t count, double* out) {
    double sum = 0;
    for (int64_t i = 0; i < context.count; ++i) sum += context.labels[i];
    std::fill(out, out + count, sum);
  };
  const QueryPredictions got = PredictQueries(prompt, sum_labels);
  double seen = 0;
  for (size_t s = 0; s < 3; ++s) {
    double block = 0;
    for (size_t m = 0; m < 4; ++m) block += prompt.labels[s * 4 + m];
    seen += block;
    EXPECT_NEAR(got.single[s], block, 1e-14);
    EXPECT_NEAR(got.own[s], seen, 1e-14);
  }
  for (size_t s = 0; s < 3; ++s) EXPECT_NEAR(got.last[s], seen, 1e-14);
}

TEST(BaselinesTest, EveryQueryIsAnsweredAtItsOwnInput) {
  const OrderedPrompt prompt = InOrder(
      *DrawPrompts(testing::MakePrompt(3, 4, 2), 1, 0, 1), 0, {2, 0, 1});
  const auto first_coordinate = [](const Examples& /*context*/,
                                   const double* queries, int64_t count,
                                   double* out) {
    PredictLinear({1, 0}, queries, count, out);
  };
  const QueryPredictions got = PredictQueries(prompt, first_coordinate);
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(got.own[s], prompt.queries[s * 2]);
    EXPECT_EQ(got.last[s], prompt.queries[s * 2]);
    EXPECT_EQ(got.single[s], prompt.queries[s * 2]);
  }
}

}  // namespace
}  // namespace iclsweep
