#include "worker/tasks/family.h"

#include <cmath>
#include <map>
#include <set>

#include "tests/support/status_matchers.h"
#include "worker/tasks/baselines.h"

namespace iclsweep {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

v1::DataParams Data(v1::Family family, int dims, double noise_std = 0) {
  v1::DataParams data;
  data.set_family(family);
  data.set_dims(dims);
  data.set_noise_std(noise_std);
  return data;
}

std::vector<double> DrawTask(const TaskFamily& family, uint64_t prompt,
                             int64_t live,
                             Purpose purpose = Purpose::kTrainTask) {
  std::vector<double> task(static_cast<size_t>(family.Size()));
  family.Draw({.seed = 5, .purpose = purpose, .prompt = prompt}, live,
              task.data());
  return task;
}

std::vector<double> Normals(const DrawAddress& address, int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  FillNormal(address, count, out.data());
  return out;
}

// The label of x without noise (noise_std is 0).
double Value(const TaskFamily& family, const std::vector<double>& task,
             const std::vector<double>& x) {
  return family.Label(task.data(), x.data(), {});
}

// --- definitions, by hand
// -----------------------------------------------------

TEST(FamilyTest, DenseWeightsAreThoseOfTheStream) {
  const std::vector<double> w =
      Normals({.seed = 5, .purpose = Purpose::kTrainTask, .prompt = 3}, 4);
  for (const v1::Family family :
       {v1::FAMILY_LINEAR, v1::FAMILY_NOISY_LINEAR, v1::FAMILY_QUADRATIC})
    EXPECT_EQ(DrawTask(TaskFamily(Data(family, 4, 1)), 3, 4), w);
}

TEST(FamilyTest, LinearIsAnInnerProduct) {
  const TaskFamily family(Data(v1::FAMILY_LINEAR, 2));
  EXPECT_EQ(Value(family, {2, -3}, {0.5, 4}), -11);
}

TEST(FamilyTest, QuadraticSquaresTheInputs) {
  const TaskFamily family(Data(v1::FAMILY_QUADRATIC, 2));
  EXPECT_NEAR(Value(family, {2, -3}, {-0.5, 4}), (0.5 - 48) / std::sqrt(3),
              1e-14);
}

TEST(FamilyTest, ReluAddsUpItsUnits) {
  v1::DataParams data = Data(v1::FAMILY_RELU_2NN, 2);
  data.set_hidden(3);
  const TaskFamily family(data);
  ASSERT_EQ(family.Size(), 3 * (1 + 2));
  // v, then u_0, u_1, u_2: inputs of the units 1, -1 and 4.
  EXPECT_NEAR(Value(family, {2, 100, -5, 1, 0, -1, 0, 2, 1}, {1, 2}),
              std::sqrt(2.0 / 3) * (2 * 1 - 5 * 4), 1e-14);
}

TEST(FamilyTest, TheTreeGoesToTheSecondChildWhereTheTestedInputIsPositive) {
  v1::DataParams data = Data(v1::FAMILY_DECISION_TREE, 3);
  data.set_depth(2);
  const TaskFamily family(data);
  // Leaves from left to right, then the inputs tested at the root, at its first
  // and at its second child.
  const std::vector<double> task = {10, 11, 12, 13, 2, 0, 1};
  ASSERT_EQ(family.Size(), static_cast<int64_t>(task.size()));
  EXPECT_EQ(Value(family, task, {-1, 1, -1}), 10);
  EXPECT_EQ(Value(family, task, {1, -1, -1}), 11);
  EXPECT_EQ(Value(family, task, {1, -1, 1}), 12);
  EXPECT_EQ(Value(family, task, {-1, 1, 1}), 13);
  EXPECT_EQ(Value(family, task, {0, 0, 0}), 10);  // 0 is not positive
}

TEST(FamilyTest, NoiseIsAddedToEveryFamily) {
  for (const v1::Family f :
       {v1::FAMILY_LINEAR, v1::FAMILY_SPARSE_LINEAR, v1::FAMILY_RELU_2NN,
        v1::FAMILY_QUADRATIC, v1::FAMILY_DECISION_TREE}) {
    const TaskFamily clean(Data(f, 4));
    const TaskFamily noisy(Data(f, 4, 0.5));
    const std::vector<double> task = DrawTask(clean, 1, 4);
    EXPECT_EQ(DrawTask(noisy, 1, 4), task);
    const std::vector<double> x = {1, -2, 0.5, 3};
    const DrawAddress noise{.seed = 2, .purpose = Purpose::kTrainNoise};
    EXPECT_EQ(noisy.Label(task.data(), x.data(), noise),
              clean.Label(task.data(), x.data(), noise) + 0.5 * Normal(noise))
        << f;
    EXPECT_EQ(noisy.LabelScale(), 1) << f;
  }
}

// sqrt(dims / (tr Lambda + sigma^2)) = sqrt(2 / (2.5 + 1.5)).
TEST(FamilyTest, NoisyLinearScalesSignalAndNoise) {
  v1::DataParams data = Data(v1::FAMILY_NOISY_LINEAR, 2, std::sqrt(1.5));
  data.add_eigenvalues(2);
  data.add_eigenvalues(0.5);
  const TaskFamily family(data);
  EXPECT_NEAR(family.LabelScale(), std::sqrt(0.5), 1e-15);
  const std::vector<double> w = {2, -3};
  const std::vector<double> x = {0.5, 4};
  const DrawAddress noise{.seed = 2, .purpose = Purpose::kTrainNoise};
  EXPECT_NEAR(family.Label(w.data(), x.data(), noise),
              std::sqrt(0.5) * (-11 + std::sqrt(1.5) * Normal(noise)), 1e-14);
}

// --- draws
// --------------------------------------------------------------------

TEST(FamilyTest, SparseTasksKeepAUniformSubsetOfTheDenseWeights) {
  v1::DataParams data = Data(v1::FAMILY_SPARSE_LINEAR, 6);
  data.set_sparsity(2);
  const TaskFamily family(data);
  constexpr int tasks = 15000;
  std::map<std::pair<size_t, size_t>, int> counts;
  for (uint64_t prompt = 0; prompt < tasks; ++prompt) {
    const std::vector<double> w = DrawTask(family, prompt, 6);
    const std::vector<double> dense = Normals(
        {.seed = 5, .purpose = Purpose::kTrainTask, .prompt = prompt}, 6);
    std::vector<size_t> kept;
    for (size_t i = 0; i < 6; ++i) {
      if (w[i] == 0) continue;
      kept.push_back(i);
      ASSERT_EQ(w[i], dense[i]);
    }
    ASSERT_EQ(kept.size(), 2U);
    ++counts[{kept[0], kept[1]}];
  }
  ASSERT_EQ(counts.size(), 15U);  // pairs of 6
  double chi_square = 0;
  for (const auto& [pair, count] : counts)
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi_square, 36.1);  // 14 degrees of freedom: P = 0.001
}

TEST(FamilyTest, SparseTasksLieAmongTheLiveCoordinates) {
  const TaskFamily family(Data(v1::FAMILY_SPARSE_LINEAR, 20));
  std::set<size_t> seen;
  for (uint64_t prompt = 0; prompt < 200; ++prompt) {
    const std::vector<double> w = DrawTask(family, prompt, 5);
    for (size_t i = 0; i < w.size(); ++i) {
      if (w[i] != 0) seen.insert(i);
    }
  }
  EXPECT_EQ(seen, (std::set<size_t>{0, 1, 2, 3, 4}));
}

TEST(FamilyTest, UnitsNestInWidthAndDims) {
  v1::DataParams data = Data(v1::FAMILY_RELU_2NN, 3);
  data.set_hidden(4);
  const std::vector<double> wide = DrawTask(TaskFamily(data), 9, 3);
  data.set_hidden(2);
  data.set_dims(2);
  const std::vector<double> narrow = DrawTask(TaskFamily(data), 9, 2);
  EXPECT_EQ(narrow, (std::vector<double>{wide[0], wide[1], wide[4], wide[5],
                                         wide[7], wide[8]}));
  // Every number is a draw of its own.
  EXPECT_EQ(std::set<double>(wide.begin(), wide.end()).size(), wide.size());
}

TEST(FamilyTest, TreesTestEveryCoordinateEquallyOften) {
  const TaskFamily family(Data(v1::FAMILY_DECISION_TREE, 5));
  ASSERT_EQ(family.Size(), 16 + 15);
  std::vector<int> counts(5);
  for (uint64_t prompt = 0; prompt < 1000; ++prompt) {
    const std::vector<double> tree = DrawTask(family, prompt, 5);
    for (size_t node = 16; node < 31; ++node)
      ++counts.at(static_cast<size_t>(tree[node]));
  }
  double chi_square = 0;
  for (const int count : counts)
    chi_square += (count - 3000.0) * (count - 3000.0) / 3000;
  EXPECT_LT(chi_square, 18.5);  // 4 degrees of freedom: P = 0.001
}

TEST(FamilyTest, EveryStreamHasAStructureOfItsOwn) {
  for (const v1::Family f : {v1::FAMILY_SPARSE_LINEAR, v1::FAMILY_RELU_2NN,
                             v1::FAMILY_DECISION_TREE}) {
    const TaskFamily family(Data(f, 20));
    std::set<std::vector<double>> structures;
    for (const Purpose purpose :
         {Purpose::kTrainTask, Purpose::kValidationTask, Purpose::kTaskSet,
          Purpose::kTuneTaskSet, Purpose::kCompareTaskSet,
          Purpose::kWrongTaskSet}) {
      std::vector<double> task = DrawTask(family, 1, 20, purpose);
      if (f == v1::FAMILY_SPARSE_LINEAR) {  // which weights are kept
        for (double& w : task) w = w == 0 ? 0 : 1;
      } else {  // behind the weights or leaves
        task.erase(task.begin(),
                   task.begin() + (f == v1::FAMILY_RELU_2NN ? 100 : 16));
      }
      structures.insert(task);
    }
    EXPECT_EQ(structures.size(), 6U) << f;
  }
}

// --- errors of estimators, against Garg et al.
// --------------------------------

struct MeanError {
  double sum = 0;
  double squares = 0;
  int n = 0;
  void Add(double error) {
    sum += error;
    squares += error * error;
    ++n;
  }
  double Mean() const { return sum / n; }
  double StandardError() const {
    return std::sqrt((squares / n - Mean() * Mean()) / (n - 1));
  }
};

struct Errors {
  MeanError zero, least_squares, averaging, nearest;
};

constexpr int kDims = 20;

// Squared errors at the point after `examples`, divided by `norm`, over prompts
// with a task each.
Errors Measure(const v1::DataParams& data, int examples, double norm,
               int prompts) {
  const TaskFamily family(data);
  Errors errors;
  for (int p = 0; p < prompts; ++p) {
    const auto prompt = static_cast<uint64_t>(p);
    const std::vector<double> task = DrawTask(family, prompt, kDims);
    std::vector<double> xs;
    std::vector<double> ys;
    for (int i = 0; i <= examples; ++i) {
      DrawAddress address{.seed = 5,
                          .purpose = Purpose::kTrainInput,
                          .prompt = prompt,
                          .example = static_cast<uint32_t>(i)};
      const std::vector<double> x = Normals(address, kDims);
      address.purpose = Purpose::kTrainNoise;
      ys.push_back(family.Label(task.data(), x.data(), address));
      xs.insert(xs.end(), x.begin(), x.end());
    }
    const double* query = &xs[static_cast<size_t>(examples) * kDims];
    const Examples context{xs.data(), ys.data(), examples, kDims};
    const auto add = [&](double prediction, MeanError* mean) {
      mean->Add((prediction - ys.back()) * (prediction - ys.back()) / norm);
    };
    const auto linear = [&](const std::vector<double>& w) {
      double prediction = 0;
      PredictLinear(w, query, 1, &prediction);
      return prediction;
    };
    add(0, &errors.zero);
    add(linear(LeastSquaresWeights(context)), &errors.least_squares);
    add(linear(AveragingWeights(context)), &errors.averaging);
    add(NearestThree(context, query), &errors.nearest);
  }
  return errors;
}

// `rounding`: how exact the expected value is.
void ExpectMean(const MeanError& mean, double expected, double rounding) {
  EXPECT_NEAR(mean.Mean(), expected, 4 * mean.StandardError() + rounding);
}

constexpr int kPrompts = 3000;
// Values of Garg et al.'s tasks.py known from simulation, to two digits.
constexpr double kSimulated = 0.02;

TEST(FamilyErrorsTest, LinearHasItsClosedForms) {
  for (const auto& [i, nearest] :
       {std::pair{1, 2.03}, {5, 1.07}, {10, 0.89}, {15, 0.84}}) {
    SCOPED_TRACE(i);
    const Errors e = Measure(Data(v1::FAMILY_LINEAR, kDims), i, 20, kPrompts);
    ExpectMean(e.zero, 1, 0);
    ExpectMean(e.least_squares, 1 - i / 20.0, 0);
    ExpectMean(e.averaging, 21.0 / i, 0);
    ExpectMean(e.nearest, nearest, kSimulated);
  }
}

// Least squares and averaging do not see that weights are sparse.
TEST(FamilyErrorsTest, SparseLinearHasTheErrorsOfLinearByItsWeights) {
  v1::DataParams data = Data(v1::FAMILY_SPARSE_LINEAR, kDims);
  for (const int sparsity : {3, 7}) {
    SCOPED_TRACE(sparsity);
    data.set_sparsity(sparsity);
    const Errors e = Measure(data, 10, sparsity, kPrompts);
    ExpectMean(e.zero, 1, 0);
    ExpectMean(e.least_squares, 0.5, 0);
    ExpectMean(e.averaging, 2.1, 0);
  }
}

// Against noisy labels, sigma = 1: least squares from i < d examples errs by
// d - i + (1 + i / (d - i - 1)), from i > d by 1 + d / (i - d - 1), averaging
// by (d (d + 1) + d) / i + 1; all times s^2 = d / (d + 1).
TEST(FamilyErrorsTest, NoisyLinearHasItsClosedForms) {
  const v1::DataParams data = Data(v1::FAMILY_NOISY_LINEAR, kDims, 1);
  for (const auto& [i, least_squares, nearest] :
       {std::tuple{10, 10 + 1 + 10 / 9.0, 0.93},
        {25, 1 + 20 / 4.0, 0.78},
        {40, 1 + 20 / 19.0, 0.74}}) {
    SCOPED_TRACE(i);
    const Errors e = Measure(data, i, 20, kPrompts);
    ExpectMean(e.zero, 1, 0);
    ExpectMean(e.least_squares, least_squares / 21, 0);
    ExpectMean(e.averaging, (440.0 / i + 1) / 21, 0);
    ExpectMean(e.nearest, nearest, kSimulated);
  }
}

// y is even in x, so averaging learns nothing: its prediction is a mean of i
// uncorrelated terms y x'x_q, of mean square E[y^2 |x|^2] = d (d + 4) each.
TEST(FamilyErrorsTest, QuadraticHasItsClosedForm) {
  const Errors e = Measure(Data(v1::FAMILY_QUADRATIC, kDims), 10, 20, 20000);
  ExpectMean(e.zero, 1, 0);
  ExpectMean(e.averaging, 1 + 24.0 / 10, 0);
}

TEST(FamilyErrorsTest, ReluHasItsPublishedErrors) {
  for (const auto& [i, least_squares, averaging, nearest] :
       {std::tuple{10, 1.24, 2.74, 0.69},
        {40, 1.08, 1.07, 0.55},
        {100, 0.64, 0.72, 0.48}}) {
    SCOPED_TRACE(i);
    const Errors e = Measure(Data(v1::FAMILY_RELU_2NN, kDims), i, 20, 2000);
    ExpectMean(e.zero, 1, 0);
    ExpectMean(e.least_squares, least_squares, kSimulated);
    ExpectMean(e.averaging, averaging, kSimulated);
    ExpectMean(e.nearest, nearest, kSimulated);
  }
}

TEST(FamilyErrorsTest, DecisionTreesHaveTheirPublishedErrors) {
  for (const auto& [i, least_squares, averaging, nearest] :
       {std::tuple{40, 1.66, 1.30, 1.09}, {100, 1.02, 1.01, 1.00}}) {
    SCOPED_TRACE(i);
    const Errors e =
        Measure(Data(v1::FAMILY_DECISION_TREE, kDims), i, 1, kPrompts);
    ExpectMean(e.zero, 1, 0);
    ExpectMean(e.least_squares, least_squares, kSimulated);
    ExpectMean(e.averaging, averaging, kSimulated);
    ExpectMean(e.nearest, nearest, kSimulated);
  }
}

// --- refusals
// -----------------------------------------------------------------

TEST(FamilyTest, RefusesWhatDoesNotFit) {
  const auto code = absl::StatusCode::kInvalidArgument;
  v1::DataParams data = Data(v1::FAMILY_SPARSE_LINEAR, 2);
  EXPECT_THAT(
      CheckFamily(data, "data"),
      StatusIs(code, HasSubstr("data.sparsity = 3 exceeds data.dims = 2")));
  data.set_sparsity(0);
  EXPECT_THAT(CheckFamily(data, "data"),
              StatusIs(code, HasSubstr("data.sparsity = 0")));
  EXPECT_THAT(CheckFamily(Data(v1::FAMILY_NOISY_LINEAR, 2), "prompt.data"),
              StatusIs(code, HasSubstr("prompt.data.noise_std = 0")));
  data = Data(v1::FAMILY_RELU_2NN, 2);
  data.set_hidden(0);
  EXPECT_THAT(CheckFamily(data, "data"),
              StatusIs(code, HasSubstr("data.hidden = 0")));
  data = Data(v1::FAMILY_DECISION_TREE, 2);
  for (const int depth : {0, 17}) {
    data.set_depth(depth);
    EXPECT_THAT(CheckFamily(data, "data"),
                StatusIs(code, HasSubstr("data.depth = ")));
  }
  EXPECT_THAT(CheckFamily(Data(v1::FAMILY_LINEAR, 0), "data"),
              StatusIs(code, HasSubstr("data.dims = 0")));
}

}  // namespace
}  // namespace iclsweep
