#include "worker/compare/table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

namespace iclsweep {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// In the order of ComparisonTable::Add.
constexpr absl::string_view kLayered[] = {
    "simaou_raw",         "simaou_norm",  "simaou_null",
    "simaou_norm_excess", "simam_before", "simam_after",
    "simam_delta",        "kendall_demo", "update_norm_ratio"};

double MeanSquaredError(const ArrayView& f, const ArrayView& label) {
  double sum = 0;
  for (int64_t i = 0; i < f.size(); ++i) {
    sum += (f.data[i] - label.data[i]) * (f.data[i] - label.data[i]);
  }
  return sum / static_cast<double>(f.size());
}

bool IsFinite(const ArrayView& view) {
  return std::all_of(view.data, view.data + view.size(),
                     [](double v) { return std::isfinite(v); });
}

void Append(const ArrayView& view, std::vector<double>* to) {
  to->insert(to->end(), view.data, view.data + view.size());
}

// Jackknife over replicates; NaN when a statistic is undefined without one.
double JackknifeOf(
    int64_t replicates,
    absl::FunctionRef<std::optional<double>(int64_t without)> statistic) {
  if (replicates < 2) return kNaN;
  std::vector<double> left_out;
  for (int64_t r = 0; r < replicates; ++r) {
    const std::optional<double> value = statistic(r);
    if (!value) return kNaN;
    left_out.push_back(*value);
  }
  return JackknifeStandardError(left_out);
}

}  // namespace

double Samples::Mean() const {
  if (values_.empty()) return kNaN;
  double sum = 0;
  for (const double value : values_) sum += value;
  return sum / static_cast<double>(values_.size());
}

double Samples::StandardError() const {
  if (values_.size() < 2) return kNaN;
  const double mean = Mean();
  const auto n = static_cast<double>(values_.size());
  double squares = 0;
  for (const double value : values_) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (n - 1) / n);
}

Measurement SampleRow(absl::string_view predictor, absl::string_view name,
                      const Samples& samples) {
  Measurement row{.predictor = std::string(predictor),
                  .name = std::string(name)};
  row.value = samples.Mean();
  row.standard_error = samples.StandardError();
  row.n = samples.Count();
  return row;
}

ComparisonTable::ComparisonTable(absl::string_view predictor, int layers,
                                 double improvement)
    : predictor_(predictor), improvement_(improvement) {
  const size_t rows = static_cast<size_t>(layers) + 1;
  for (const absl::string_view name : kLayered) {
    layered_.push_back({std::string(name), std::vector<Samples>(rows),
                        std::vector<int64_t>(rows, 0)});
  }
}

void ComparisonTable::AddLayered(size_t index,
                                 const absl::StatusOr<LayerValues>& values,
                                 int64_t queries) {
  Layered& layered = layered_[index];
  const size_t layers = layered.values.size() - 1;
  if (!values.ok()) {  // not finite
    for (size_t l = 0; l < layers; ++l) layered.undefined[l] += queries;
    layered.undefined[layers] += queries * static_cast<int64_t>(layers);
    return;
  }
  for (size_t l = 0; l < layers; ++l) {
    if (values->per_layer[l]) layered.values[l].Add(*values->per_layer[l]);
    layered.undefined[l] += values->undefined_per_layer[l];
  }
  if (values->overall) layered.values[layers].Add(*values->overall);
  layered.undefined[layers] += values->Undefined();
}

void ComparisonTable::Add(const ReplicateArrays& r) {
  queries_ = r.predictions.label.size();
  error_zsl_.Add(MeanSquaredError(r.predictions.zsl, r.predictions.label));
  error_ft_.Add(MeanSquaredError(r.predictions.ft, r.predictions.label));
  error_icl_.Add(MeanSquaredError(r.predictions.icl, r.predictions.label));

  const ArrayView& demo = r.demo_logits;
  const std::vector<int64_t> ranks = {demo.shape[0], demo.shape[1],
                                      demo.shape[3]};
  const std::vector<double> icl_scores = DemoScoresIcl(demo);
  const std::vector<double> ft_scores =
      DemoScoresFt(r.train_queries, r.query_queries);
  const absl::StatusOr<LayerValues> values[] = {
      SimaouRaw(r.outputs),
      SimaouNorm(r.outputs),
      SimaouNull(r.outputs),
      SimaouNormExcess(r.outputs),
      Simam(r.maps_icl, r.maps_zsl),
      Simam(r.maps_icl, r.maps_ft),
      SimamDelta(r.maps_icl, r.maps_ft, r.maps_zsl),
      KendallDemo({icl_scores.data(), ranks}, {ft_scores.data(), ranks}),
      UpdateNormRatio(r.outputs)};
  static_assert(std::size(values) == std::size(kLayered));
  for (size_t i = 0; i < std::size(values); ++i) {
    AddLayered(i, values[i], queries_);
  }

  const Predictions& f = r.predictions;
  if (!IsFinite(f.zsl) || !IsFinite(f.ft) || !IsFinite(f.icl)) {
    ++non_finite_;
    return;
  }
  ++finite_;
  Append(f.zsl, &zsl_);
  Append(f.ft, &ft_);
  Append(f.icl, &icl_);
  Append(f.label, &label_);
}

Measurement ComparisonTable::Row(const std::string& name) const {
  Measurement row{.predictor = predictor_, .name = name};
  row.value = kNaN;
  return row;
}

void ComparisonTable::AppendRecovery(const Predictions& f,
                                     std::vector<Measurement>* out) const {
  using Part = std::optional<double> Recovery::*;
  ImprovementCounts counts;
  if (finite_ > 0) counts = *CountImprovements(f, improvement_);
  const auto total = [](const std::vector<int64_t>& sums) {
    int64_t sum = 0;
    for (const int64_t value : sums) sum += value;
    return sum;
  };
  const std::pair<const char*, Part> parts[] = {
      {"rec2ftp", &Recovery::rec2ftp},
      {"rec2ftp_base_rate", &Recovery::base_rate},
      {"rec2ftp_lift", &Recovery::lift}};
  for (const auto& [name, part] : parts) {
    Measurement row = Row(name);
    if (const std::optional<double> value = RecoveryOf(counts, -1).*part) {
      row.value = *value;
      row.n = total(part == &Recovery::base_rate ? counts.kept : counts.ft);
      row.standard_error =
          JackknifeOf(finite_, [&, part = part](int64_t without) {
            return RecoveryOf(counts, without).*part;
          });
    }
    out->push_back(std::move(row));
  }
  Measurement undefined = Row("rec2ftp_undefined");
  undefined.value =
      static_cast<double>(counts.excluded + non_finite_ * queries_);
  out->push_back(std::move(undefined));
}

void ComparisonTable::AppendPredictions(std::vector<Measurement>* out) const {
  const std::vector<int64_t> shape = {finite_, queries_};
  const Predictions f{{zsl_.data(), shape},
                      {ft_.data(), shape},
                      {icl_.data(), shape},
                      {label_.data(), shape}};
  AppendRecovery(f, out);

  Samples cosine;
  for (const std::optional<double>& value : FunctionUpdateCosine(f)) {
    if (value) cosine.Add(*value);
  }
  out->push_back(SampleRow(predictor_, "function_update_cosine", cosine));
  Measurement undefined = Row("function_update_cosine_undefined");
  undefined.value = static_cast<double>(finite_ - cosine.Count() + non_finite_);
  out->push_back(undefined);

  Samples agreement;
  for (const double value : SignedAgreement(f)) agreement.Add(value);
  out->push_back(SampleRow(predictor_, "signed_agreement", agreement));
  undefined = Row("signed_agreement_undefined");
  undefined.value = static_cast<double>(non_finite_);
  out->push_back(undefined);

  Measurement distance = Row("rpd_ft_icl");
  if (const auto value = RelativePredictionDistance(f.ft, f.icl, -1)) {
    distance.value = *value;
    distance.n = f.icl.size();
    distance.standard_error = JackknifeOf(finite_, [&](int64_t without) {
      return RelativePredictionDistance(f.ft, f.icl, without);
    });
  }
  out->push_back(std::move(distance));
  out->push_back(SampleRow(predictor_, "error_zsl", error_zsl_));
  out->push_back(SampleRow(predictor_, "error_ft", error_ft_));
  out->push_back(SampleRow(predictor_, "error_icl", error_icl_));
}

void ComparisonTable::AppendTo(std::vector<Measurement>* out) const {
  for (const Layered& layered : layered_) {
    const size_t layers = layered.values.size() - 1;
    for (size_t l = 0; l <= layers; ++l) {
      Measurement row = SampleRow(predictor_, layered.name, layered.values[l]);
      row.layer = l == layers ? kNotApplicable : static_cast<int>(l);
      Measurement undefined = Row(absl::StrCat(layered.name, "_undefined"));
      undefined.layer = row.layer;
      undefined.value = static_cast<double>(layered.undefined[l]);
      out->push_back(std::move(row));
      out->push_back(std::move(undefined));
    }
  }
  AppendPredictions(out);
}

}  // namespace iclsweep
