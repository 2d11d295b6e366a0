// The closed form against golden/theory (60-digit mpmath; make.py there), 1e-10
// relative to the total.
#include <cmath>

#include "tests/worker/tasks/golden_files.h"
#include "worker/theory/closed_form.h"

namespace iclsweep {
namespace {

using Json = nlohmann::json;

std::vector<double> Flat(const Json& rows) {
  std::vector<double> values;
  for (const Json& row : rows) {
    for (const Json& value : row) values.push_back(value.get<double>());
  }
  return values;
}

void ExpectClose(double got, const Json& want, double total,
                 const std::string& what) {
  EXPECT_NEAR(got, want.get<double>(), 1e-10 * std::fabs(total))
      << what << "; regenerate with golden/theory/make.py";
}

void ExpectError(const ErrorParts& got, const Json& want,
                 const std::string& what) {
  const double total = want["total"];
  ExpectClose(got.irreducible, want["irreducible"], total,
              what + ".irreducible");
  ExpectClose(got.variance_own, want["var_own"], total, what + ".var_own");
  ExpectClose(got.variance_other, want["var_other"], total,
              what + ".var_other");
  ExpectClose(got.bias_own, want["bias_own"], total, what + ".bias_own");
  ExpectClose(got.interference, want["interference"], total,
              what + ".interference");
  ExpectClose(got.Total(), want["total"], total, what + ".total");
}

void ExpectCell(const Json& cell) {
  const int examples = cell["M"];
  const int64_t length = cell["N"].is_null() ? 0 : cell["N"].get<int64_t>();
  const auto covariance = InputCovariance::Dense(
      Flat(cell["Lambda"]), cell["d"],
      {.length = length, .noise_variance = cell["sigma2_pretrain"]});
  ASSERT_TRUE(covariance.ok()) << covariance.status();
  const TaskMoments m = FixedTasks(*covariance, Flat(cell["w"]),
                                   cell["sigma2"].get<std::vector<double>>());
  double own = 0;
  double last = 0;
  double drifts = 0;
  for (int t = 0; t < m.tasks; ++t) {
    const Json& want = cell["expected"]["per_task"][static_cast<size_t>(t)];
    const std::string where =
        "cell " + cell["id"].dump() + " t " + std::to_string(t + 1);
    const ErrorParts g = MsaOwnError(m, examples, t);
    const ErrorParts e = MsaFinalError(m, examples, t);
    const ErrorParts single = MsaSingleError(m, examples, t);
    const DriftParts drift = MsaDrift(m, examples, t);
    ExpectError(g, want["G"], where + " G");
    ExpectError(e, want["E_final"], where + " E_final");
    ExpectError(LsaError(m, examples, t), want["LSA"], where + " LSA");
    ExpectClose(drift.variance, want["F"]["variance"], want["F"]["total"],
                where + " F.variance");
    ExpectClose(drift.mean, want["F"]["mean"], want["F"]["total"],
                where + " F.mean");
    ExpectClose(drift.Total(), want["F"]["total"], want["F"]["total"],
                where + " F.total");
    ExpectClose(single.Total(), want["G_single"], want["G_single"],
                where + " G_single");
    ExpectClose(g.Total() - single.Total(), want["NT"], want["G"]["total"],
                where + " NT");
    ExpectClose(e.Total() - g.Total(), want["delta_E"], want["G"]["total"],
                where + " delta_E");
    own += g.Total() / m.tasks;
    last += e.Total() / m.tasks;
    drifts += drift.Total() / m.tasks;
  }
  const Json& averages = cell["expected"]["averages"];
  ExpectClose(own, averages["G_mean"], averages["G_mean"], "G_mean");
  ExpectClose(last, averages["E_mean"], averages["E_mean"], "E_mean");
  ExpectClose(drifts, averages["F_bar"], averages["F_bar"], "F_bar");
}

TEST(ClosedFormGoldenTest, EveryCellAgrees) {
  SKIP_WITHOUT_GOLDEN("theory");
  int cells = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::GoldenFolder("theory"))) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const Json document = Json::parse(file);
    if (!document.contains("cells")) continue;
    for (const Json& cell : document["cells"]) {
      ExpectCell(cell);
      ++cells;
    }
  }
  EXPECT_GT(cells, 0);
}

}  // namespace
}  // namespace iclsweep
