// Similarity of in-context learning (ICL) and finetuning (FT), both against the
// zero-shot state (ZSL): Dai et al. 2023 (arXiv 2212.10559, section 3) with the
// corrections of Deutch et al. 2024 (arXiv 2311.07772) and continuous forms for
// regression. Pure functions of doubles on plain arrays, for one replicate at a
// time unless stated; no LibTorch, no averaging over replicates (table.h).
//
// Shapes: L layers, Q queries, E width, H heads, P positions, N demonstration
// tokens. Where a number is undefined it is left out of means and counted,
// never 0 and never NaN. Errors: InvalidArgument whose message begins with
// non_finite_input, shape_mismatch, empty_input or length_mismatch.
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

namespace iclsweep {

// A row-major array, not owned.
struct ArrayView {
  const double* data = nullptr;
  std::vector<int64_t> shape;
  int64_t size() const;
};

struct LayerValues {
  std::vector<std::optional<double>> per_layer;  // mean over defined queries
  std::vector<int64_t> undefined_per_layer;
  std::optional<double> overall;  // mean over defined layers
  int64_t Undefined() const;
};

// Attention-output updates, each array [L, Q, E]: output of the attention block
// at the query token, after its projection, before the residual.
struct AttentionOutputs {
  ArrayView zsl, icl, ft;
};

// cos(ICL - ZSL, FT - ZSL). Undefined where either update is at most 1e-8 of
// |ZSL|. 0 for unrelated updates.
absl::StatusOr<LayerValues> SimaouRaw(const AttentionOutputs& h);
// As published: every state divided by its length (+ 1e-20) first, a zero
// update counts as 0. Positive for unrelated updates: see SimaouNull.
absl::StatusOr<LayerValues> SimaouNorm(const AttentionOutputs& h);
// What SimaouNorm gives for unrelated updates of the measured lengths:
// sqrt((1-a)(1-b)) / 2 with a = 1 / sqrt(1 + rho^2), rho = |update| / |ZSL|.
absl::StatusOr<LayerValues> SimaouNull(const AttentionOutputs& h);
// SimaouNorm - SimaouNull.
absl::StatusOr<LayerValues> SimaouNormExcess(const AttentionOutputs& h);
// |FT - ZSL| / |ICL - ZSL|. Undefined where ICL changes nothing.
absl::StatusOr<LayerValues> UpdateNormRatio(const AttentionOutputs& h);

// Attention maps [L, Q, H, P] (logits before the softmax): cosine per head
// (denominator + 1e-20), mean over heads, then queries.
absl::StatusOr<LayerValues> Simam(const ArrayView& a, const ArrayView& b);
// The same of (a - zero) and (b - zero).
absl::StatusOr<LayerValues> SimamDelta(const ArrayView& a, const ArrayView& b,
                                       const ArrayView& zero);

struct KendallTau {
  std::optional<double> tau_a;  // undefined for fewer than two entries
  std::optional<double> tau_b;  // also for a constant input
};
// Kendall's rank correlation in O(n log n) (Knight 1966). -0 equals 0.
absl::StatusOr<KendallTau> Kendall(const std::vector<double>& x,
                                   const std::vector<double>& y);
// tau-b of every query's two rankings of the demonstration tokens, [L, Q, N].
absl::StatusOr<LayerValues> KendallDemo(const ArrayView& icl,
                                        const ArrayView& ft);
// Rankings, rounded to 10 decimals so that ties do not hang on rounding noise.
// ICL: logits of the query token to the demonstration tokens [L, Q, H, N],
// summed over heads -> [L, Q, N].
std::vector<double> DemoScoresIcl(const ArrayView& logits);
// FT: dot products of the training tokens' queries [L, N, E] and the query
// token's [L, Q, E] -> [L, Q, N].
std::vector<double> DemoScoresFt(const ArrayView& train,
                                 const ArrayView& query);

// Predictions and labels of several replicates, each [replicates, Q].
struct Predictions {
  ArrayView zsl, ft, icl, label;
};

// Squared errors e. Queries with e_ZSL < 0.01 var(label) are excluded; a query
// is improved when e <= (1 - improvement) e_ZSL. Sums per replicate.
struct ImprovementCounts {
  std::vector<int64_t> ft, icl, both, kept;
  int64_t excluded = 0;
};
absl::StatusOr<ImprovementCounts> CountImprovements(const Predictions& f,
                                                    double improvement);

// Of one selection of replicates: the share of queries improved by FT that ICL
// improves too, its base rate (among all kept queries) and their ratio. Nothing
// where a denominator is 0.
struct Recovery {
  std::optional<double> rec2ftp, base_rate, lift;
};
// Leaves out replicate `without` (-1: none).
Recovery RecoveryOf(const ImprovementCounts& counts, int64_t without);

// Share of queries whose two predictions moved in the same direction.
std::vector<double> SignedAgreement(const Predictions& f);
// Cosine of the two updates of the predictions over a replicate's queries.
std::vector<std::optional<double>> FunctionUpdateCosine(const Predictions& f);
// mean (a - b)^2 / mean (b - mean b)^2 over all entries but those of replicate
// `without` (-1: none); nothing when b is constant.
std::optional<double> RelativePredictionDistance(const ArrayView& a,
                                                 const ArrayView& b,
                                                 int64_t without);

// Standard error of a statistic by leaving out one replicate at a time
// (jackknife). REQUIRES: at least two values.
double JackknifeStandardError(const std::vector<double>& left_out);

}  // namespace iclsweep
