// The metrics against golden/similarity_metrics (numpy, scipy, mpmath): every
// part that the comparison uses, tolerance 1e-12.
#include <cmath>

#include "tests/support/status_matchers.h"
#include "tests/worker/model/golden.h"
#include "worker/compare/metrics.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::GoldenPath;
using ::iclsweep::testing::ReadJson;
using nlohmann::json;

constexpr double kTolerance = 1e-12;

// A nested list as one array; "NaN" and "Infinity" are texts.
struct Array {
  std::vector<double> values;
  std::vector<int64_t> shape;

  explicit Array(const json& nested) { Add(nested, 0); }
  ArrayView view() const { return {values.data(), shape}; }
  // NOLINTNEXTLINE(google-explicit-constructor): reads like a call
  operator ArrayView() const { return view(); }

 private:
  void Add(const json& node, size_t depth) {
    if (node.is_array()) {
      if (shape.size() <= depth)
        shape.push_back(static_cast<int64_t>(node.size()));
      for (const json& child : node) Add(child, depth + 1);
    } else if (node.is_string()) {
      values.push_back(node == "NaN" ? std::nan("") : INFINITY);
    } else {
      values.push_back(node.get<double>());
    }
  }
};

void ExpectValue(const std::optional<double>& found, const json& expected,
                 const std::string& what) {
  ASSERT_EQ(found.has_value(), !expected.is_null()) << what;
  if (found) {
    EXPECT_NEAR(*found, expected.get<double>(), kTolerance) << what;
  }
}

void ExpectLayers(const absl::StatusOr<LayerValues>& found,
                  const json& per_layer, const json& overall,
                  const std::string& what) {
  ASSERT_OK(found) << what;
  ASSERT_EQ(found->per_layer.size(), per_layer.size()) << what;
  for (size_t l = 0; l < per_layer.size(); ++l)
    ExpectValue(found->per_layer[l], per_layer[l], what);
  if (!overall.is_discarded())
    ExpectValue(found->overall, overall, what + " overall");
}

const json kNoOverall(json::value_t::discarded);

class FixtureTest : public ::testing::Test {
 protected:
  static json Fixtures() {
    return ReadJson(GoldenPath("similarity_metrics") /
                    "fixtures.json")["fixtures"];
  }
};

TEST_F(FixtureTest, AttentionOutputMetricsMatch) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("similarity_metrics");
  for (const json& fixture : Fixtures()) {
    const json& in = fixture["inputs"];
    const json& out = fixture["expected"];
    SCOPED_TRACE(in["name"].get<std::string>());
    const Array zsl(in["h_zsl"]);
    const Array icl(in["h_icl"]);
    const Array ft(in["h_ft"]);
    const AttentionOutputs h{zsl, icl, ft};
    ExpectLayers(SimaouRaw(h), out["simaou_raw"]["per_layer"],
                 out["simaou_raw"]["overall"], "raw");
    EXPECT_EQ(json(SimaouRaw(h)->undefined_per_layer),
              out["simaou_raw"]["undefined_per_layer"]);
    ExpectLayers(SimaouNorm(h), out["simaou_norm"]["per_layer"],
                 out["simaou_norm"]["overall"], "norm");
    ExpectLayers(SimaouNull(h), out["simaou_null_per_layer"], kNoOverall,
                 "null");
    ExpectLayers(SimaouNormExcess(h), out["simaou_norm_excess_per_layer"],
                 kNoOverall, "excess");
    ExpectLayers(UpdateNormRatio(h),
                 out["update_norm_ratio_ft_over_icl_per_layer"], kNoOverall,
                 "ratio");
  }
}

TEST_F(FixtureTest, AttentionMapMetricsMatch) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("similarity_metrics");
  for (const json& fixture : Fixtures()) {
    const json& in = fixture["inputs"];
    const json& out = fixture["expected"];
    SCOPED_TRACE(in["name"].get<std::string>());
    const Array zsl(in["m_zsl"]);
    const Array icl(in["m_icl"]);
    const Array ft(in["m_ft"]);
    ExpectLayers(Simam(icl, zsl), out["simam_before"]["per_layer"],
                 out["simam_before"]["overall"], "before");
    ExpectLayers(Simam(icl, ft), out["simam_after"]["per_layer"],
                 out["simam_after"]["overall"], "after");
    ExpectLayers(SimamDelta(icl, ft, zsl), out["simam_delta"]["per_layer"],
                 out["simam_delta"]["overall"], "delta");
  }
}

TEST_F(FixtureTest, KendallOverDemonstrationTokensMatches) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("similarity_metrics");
  for (const json& fixture : Fixtures()) {
    const json& in = fixture["inputs"];
    const json& out = fixture["expected"];
    SCOPED_TRACE(in["name"].get<std::string>());
    const Array icl(out["kendall_demo_icl"]);
    const Array ft(out["kendall_demo_ft_qq"]);
    const std::vector<double> own_icl =
        DemoScoresIcl(Array(in["demo_logits_icl"]));
    const std::vector<double> own_ft =
        DemoScoresFt(Array(in["q_train"]), Array(in["q_query"]));
    ASSERT_EQ(own_icl.size(), icl.values.size());
    ASSERT_EQ(own_ft.size(), ft.values.size());
    for (size_t i = 0; i < own_icl.size(); ++i) {
      EXPECT_NEAR(own_icl[i], icl.values[i], kTolerance);
      EXPECT_NEAR(own_ft[i], ft.values[i], kTolerance);
    }
    const json& expected = out["kendall_qq"];
    const absl::StatusOr<LayerValues> found =
        KendallDemo({own_icl.data(), icl.shape}, {own_ft.data(), ft.shape});
    ExpectLayers(found, expected["tau_b_per_layer"], expected["tau_b"],
                 "tau_b");
    EXPECT_EQ(found->Undefined(), expected["undefined_tau_b"].get<int64_t>());
  }
}

TEST_F(FixtureTest, PredictionMetricsMatch) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("similarity_metrics");
  for (const json& fixture : Fixtures()) {
    const json& in = fixture["inputs"];
    const json& out = fixture["expected"]["continuous"];
    SCOPED_TRACE(in["name"].get<std::string>());
    const Array zsl(in["f_zsl"]);
    const Array ft(in["f_ft"]);
    const Array icl(in["f_icl"]);
    const Array label(in["y"]);
    const Predictions f{zsl, ft, icl, label};
    ASSERT_OK_AND_ASSIGN(const ImprovementCounts counts,
                         CountImprovements(f, out["delta"]));
    EXPECT_EQ(counts.excluded, out["excluded"].get<int64_t>());
    const Recovery recovery = RecoveryOf(counts, -1);
    ExpectValue(recovery.rec2ftp, out["rec2ftp_delta"], "rec2ftp");
    ExpectValue(recovery.base_rate, out["base_delta"], "base rate");
    ExpectValue(recovery.lift, out["lift"], "lift");
    const auto mean = [](const std::vector<double>& v) {
      double sum = 0;
      for (const double x : v) sum += x;
      return sum / static_cast<double>(v.size());
    };
    EXPECT_NEAR(mean(SignedAgreement(f)), out["signed_agreement"].get<double>(),
                kTolerance);
    const std::vector<std::optional<double>> cosines = FunctionUpdateCosine(f);
    ASSERT_EQ(cosines.size(), out["function_update_cosine_per_task"].size());
    for (size_t t = 0; t < cosines.size(); ++t)
      ExpectValue(cosines[t], out["function_update_cosine_per_task"][t],
                  "function update");
    ExpectValue(RelativePredictionDistance(ft, icl, -1), out["rpd_ft_icl"],
                "rpd_ft_icl");
    ExpectValue(RelativePredictionDistance(icl, ft, -1), out["rpd_icl_ft"],
                "rpd_icl_ft");
  }
}

// --- edge cases ---

class EdgeCaseTest : public ::testing::Test {
 protected:
  // Runs `check` on every case of one of `metrics`; at least one.
  static void ForEach(const std::vector<std::string>& metrics,
                      const std::function<void(const json&)>& check) {
    int seen = 0;
    const json file =
        ReadJson(GoldenPath("similarity_metrics") / "edge_cases.json");
    for (const json& test : file["cases"]) {
      if (std::find(metrics.begin(), metrics.end(), test["metric"]) ==
          metrics.end())
        continue;
      SCOPED_TRACE(test["metric"].get<std::string>() + ": " +
                   test["name"].get<std::string>());
      check(test);
      ++seen;
    }
    EXPECT_GT(seen, 0);
  }

  // True when an error was expected, which is then checked.
  static bool ExpectError(const json& expected, const absl::Status& status) {
    if (!expected.is_object() || !expected.contains("error")) return false;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), expected["error"].get<std::string>());
    return true;
  }
};

TEST_F(EdgeCaseTest, AttentionOutputs) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("similarity_metrics");
  ForEach({"simaou_raw", "simaou_norm", "simaou_null"}, [](const json& test) {
    const json& in = test["inputs"];
    const json& expected = test["expected"];
    const Array zsl(in["h_zsl"]);
    const Array icl(in["h_icl"]);
    const Array ft(in["h_ft"]);
    const AttentionOutputs h{zsl, icl, ft};
    const absl::StatusOr<LayerValues> found =
        test["metric"] == "simaou_raw"    ? SimaouRaw(h)
        : test["metric"] == "simaou_norm" ? SimaouNorm(h)
                                          : SimaouNull(h);
    if (ExpectError(expected, found.status())) return;
    ASSERT_OK(found);
    if (!expected.is_object())
      return ExpectValue(found->overall, expected, "overall");
    ExpectValue(found->overall, expected["overall"], "overall");
    if (expected.contains("undefined")) {
      EXPECT_EQ(found->Undefined(), expected["undefined"].get<int64_t>());
    }
    if (expected.contains("per_layer"))
      ExpectLayers(found, expected["per_layer"], kNoOverall, "layers");
    if (expected.contains("undefined_per_layer")) {
      EXPECT_EQ(json(found->undefined_per_layer),
                expected["undefined_per_layer"]);
    }
  });
}

TEST_F(EdgeCaseTest, AttentionMaps) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("similarity_metrics");
  ForEach({"simam"}, [](const json& test) {
    const absl::StatusOr<LayerValues> found =
        Simam(Array(test["inputs"]["m_a"]), Array(test["inputs"]["m_b"]));
    ASSERT_OK(found);
    ExpectValue(found->overall, test["expected"], "simam");
  });
}

TEST_F(EdgeCaseTest, KendallTaus) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("similarity_metrics");
  ForEach({"kendall"}, [](const json& test) {
    const absl::StatusOr<KendallTau> found = Kendall(
        Array(test["inputs"]["x"]).values, Array(test["inputs"]["y"]).values);
    if (ExpectError(test["expected"], found.status())) return;
    ASSERT_OK(found);
    ExpectValue(found->tau_a, test["expected"]["tau_a"], "tau_a");
    ExpectValue(found->tau_b, test["expected"]["tau_b"], "tau_b");
  });
}

TEST_F(EdgeCaseTest, FunctionUpdates) {
  ICLSWEEP_SKIP_WITHOUT_GOLDEN("similarity_metrics");
  ForEach({"function_update_cosine"}, [](const json& test) {
    const Array zsl(test["inputs"]["f_zsl"]);
    const Array icl(test["inputs"]["f_icl"]);
    const Array ft(test["inputs"]["f_ft"]);
    ExpectValue(FunctionUpdateCosine({zsl, ft, icl, zsl})[0], test["expected"],
                "cosine");
  });
}

}  // namespace
}  // namespace iclsweep
