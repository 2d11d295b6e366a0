// Pretrained one-layer linear attention as a predictor on concrete prompts: LSA
// (every point sees every point) and MSA (causally masked), in the reduced form
// of Li, Ding, Hu, arXiv 2605.28705, Lemma 4.1 and Theorem 4.3. Not a trained
// network: its weights are the limit of pretraining on single-task prompts, W*
// and V* of their appendix A, whose only trace in predictions is Gamma.
// Expected errors over prompts are worker/theory's.
//
// With S_s = sum_i x_i y_i over the examples of the task at position s
// (0-based):
//   LSA, any query:              x_q' Gamma^-1 (sum of all S) / M
//   MSA, query at column c >= 1: x_q' Gamma^-1 (sum of S before c) / c
// so MSA divides by (s+1)(M+1) at an own query and by T(M+1)+1 at a final one;
// query slots count in the divisor although their label 0 adds nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/tasks/prompt.h"

namespace iclsweep {

// Gamma = scale * Lambda + shift * I.
struct GammaTerms {
  double scale = 1;
  double shift = 0;
};
// Gamma = (1 + 1/N) Lambda + (tr Lambda + noise_variance)/N I, N the number of
// examples in a pretraining prompt (0 = infinite: Gamma = Lambda),
// noise_variance that of the pretraining labels.
GammaTerms GammaOf(double trace, int64_t pretraining_length,
                   double noise_variance);

// The diagonal of Gamma for Lambda = diag(eigenvalues).
std::vector<double> GammaDiagonal(const std::vector<double>& eigenvalues,
                                  int64_t pretraining_length,
                                  double noise_variance);

// REQUIRES: gamma has prompt.dims positive values. LSA sees no positions: its
// `own` and `last` are equal.
QueryPredictions PredictLsa(const OrderedPrompt& prompt,
                            const std::vector<double>& gamma);
QueryPredictions PredictMsa(const OrderedPrompt& prompt,
                            const std::vector<double>& gamma);

}  // namespace iclsweep
