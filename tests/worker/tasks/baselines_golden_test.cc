// Baselines against golden/linear_baselines (SciPy, float64; make.py there).
#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/worker/tasks/golden_files.h"
#include "worker/tasks/baselines.h"
#include "worker/tasks/lasso.h"

namespace iclsweep {
namespace {

using testing::GoldenFolder;
using testing::GoldenTensor;
using testing::ReadGoldenTensors;

using Predict =
    std::function<double(const Examples& context, const double* query)>;

struct Golden {
  std::map<std::string, GoldenTensor> batch =
      ReadGoldenTensors(GoldenFolder("linear_baselines") / "batch.safetensors");
  std::map<std::string, GoldenTensor> expected = ReadGoldenTensors(
      GoldenFolder("linear_baselines") / "expected.safetensors");
};

// Compares predictions at every index of every batch: index i is predicted from
// the i points before it. least squares is ill-conditioned at i = dims:
// `tolerance_at_dims` there.
void Check(const std::string& name, double tolerance, double tolerance_at_dims,
           const Predict& predict) {
  const Golden golden;
  int compared = 0;
  for (const std::string task : {"linear", "sparse", "noisy"}) {
    const auto expected = golden.expected.find(absl::StrCat(task, ".", name));
    if (expected == golden.expected.end()) continue;
    const GoldenTensor& xs = golden.batch.at(task + ".xs");
    const GoldenTensor& ys = golden.batch.at(task + ".ys");
    const int64_t points = xs.shape[1];
    const int64_t rows = expected->second.shape[0];  // may be fewer
    const auto dims = static_cast<int>(xs.shape[2]);
    for (int64_t k = 0; k < rows * points; ++k) {
      const int64_t row = k / points;
      const int64_t i = k % points;
      const Examples context{
          &xs.values[static_cast<size_t>(row * points * dims)],
          &ys.values[static_cast<size_t>(row * points)], i, dims};
      const double got =
          predict(context, &xs.values[static_cast<size_t>(k * dims)]);
      const double want = expected->second.values[static_cast<size_t>(k)];
      ASSERT_NEAR(got, want, i == dims ? tolerance_at_dims : tolerance)
          << task << "." << name << " row " << row << " index " << i
          << "; regenerate with golden/linear_baselines/make.py";
      ++compared;
    }
  }
  EXPECT_GT(compared, 0) << "the data set has no " << name;
}

double PredictWith(const std::vector<double>& weights, const double* query) {
  double out = 0;
  PredictLinear(weights, query, 1, &out);
  return out;
}

TEST(BaselinesGoldenTest, LeastSquaresAgreesWithLapack) {
  SKIP_WITHOUT_GOLDEN("linear_baselines");
  Check("least_squares", 1e-9, 1e-8, [](const Examples& c, const double* q) {
    return PredictWith(LeastSquaresWeights(c), q);
  });
}

TEST(BaselinesGoldenTest, AveragingAgrees) {
  SKIP_WITHOUT_GOLDEN("linear_baselines");
  Check("averaging", 1e-9, 1e-9, [](const Examples& c, const double* q) {
    return PredictWith(AveragingWeights(c), q);
  });
}

TEST(BaselinesGoldenTest, NearestThreeAgrees) {
  SKIP_WITHOUT_GOLDEN("linear_baselines");
  Check("nn3", 1e-9, 1e-9,
        [](const Examples& c, const double* q) { return NearestThree(c, q); });
}

// `exact` there is a LARS path and an exact solve; the smaller the penalty, the
// further scikit-learn's default tolerance is from it (up to 67 at 0.0001).
TEST(BaselinesGoldenTest, LassoAgreesWithTheExactMinimiser) {
  SKIP_WITHOUT_GOLDEN("linear_baselines");
  for (const auto& [name, alpha] : {std::pair{"1.0", 1.0},
                                    {"0.1", 0.1},
                                    {"0.01", 0.01},
                                    {"0.001", 0.001},
                                    {"0.0001", 0.0001}}) {
    Check(absl::StrCat("lasso_", name, ".exact"), 1e-9, 1e-9,
          [penalty = alpha](const Examples& c, const double* q) {
            return PredictWith(LassoWeights(c, penalty), q);
          });
  }
}

}  // namespace
}  // namespace iclsweep
