// Turns one predictor's passes over many replicates into measurements: means
// over replicates with their standard errors. No LibTorch.
//
// Per layer (layer = l) and over layers (layer not applicable): simaou_raw,
// simaou_norm, simaou_null, simaou_norm_excess, simam_before, simam_after,
// simam_delta, kendall_demo, update_norm_ratio. Over everything: rec2ftp (a
// share, not percent), rec2ftp_base_rate, rec2ftp_lift, function_update_cosine,
// signed_agreement, rpd_ft_icl, error_zsl, error_ft, error_icl (raw squared
// errors). Definitions: worker/compare/metrics.h.
//
// A replicate's value is its mean over defined queries; n counts replicates,
// but for rec2ftp and its kin the queries behind the denominator. Standard
// errors are over replicates: sample standard deviation / sqrt(n), for ratios
// of sums the jackknife. `NAME_undefined` counts what was left out: queries,
// but replicates for function_update_cosine and signed_agreement. A number
// nothing is behind is NaN with n = 0. A replicate whose passes are not finite
// is left out of everything but the errors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/domain.h"
#include "worker/compare/metrics.h"

namespace iclsweep {

// Values, one per replicate. Not thread-safe.
class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  int64_t Count() const { return static_cast<int64_t>(values_.size()); }
  double Mean() const;           // NaN without values
  double StandardError() const;  // NaN below two values

 private:
  std::vector<double> values_;
};

// Everything the metrics need of one replicate.
struct ReplicateArrays {
  AttentionOutputs outputs;                // [L, Q, E]
  ArrayView maps_zsl, maps_icl, maps_ft;   // [L, Q, H, 2m + 1]: anchors, query
  ArrayView demo_logits;                   // [L, Q, H, 2K], of ICL
  ArrayView train_queries, query_queries;  // [L, 2K, E], [L, Q, E], of FT
  Predictions predictions;                 // [1, Q]
};

class ComparisonTable {
 public:
  ComparisonTable(absl::string_view predictor, int layers, double improvement);

  void Add(const ReplicateArrays& replicate);
  void AppendTo(std::vector<Measurement>* out) const;

 private:
  struct Layered {
    std::string name;
    std::vector<Samples> values;     // per layer, then over layers
    std::vector<int64_t> undefined;  // likewise
  };

  void AddLayered(size_t index, const absl::StatusOr<LayerValues>& values,
                  int64_t queries);
  void AppendPredictions(std::vector<Measurement>* out) const;
  void AppendRecovery(const Predictions& f,
                      std::vector<Measurement>* out) const;
  Measurement Row(const std::string& name) const;

  std::string predictor_;
  double improvement_;
  std::vector<Layered> layered_;
  // Predictions of finite replicates, [replicates][Q].
  std::vector<double> zsl_, ft_, icl_, label_;
  int64_t queries_ = 0;
  int64_t finite_ = 0;
  int64_t non_finite_ = 0;
  Samples error_zsl_, error_ft_, error_icl_;
};

// A row of `samples`; NaN and n = 0 without values.
Measurement SampleRow(absl::string_view predictor, absl::string_view name,
                      const Samples& samples);

}  // namespace iclsweep
