// Estimators that need no training, on the examples a query may look at: least
// squares, ridge, averaging, three nearest neighbours (Garg et al. 2022, arXiv
// 2208.01066, appendix A). In double precision, own arithmetic, no LAPACK: the
// same bits on every x86-64 machine and for every thread count. The zero
// predictor needs no code.
//
// In a continual prompt the context of a query is every labelled pair before
// it, in prompt order; query slots are left out (an estimator knows that their
// label 0 is no label). The `single` context is the task's own block.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "worker/tasks/prompt.h"

namespace iclsweep {

// Labelled pairs, not owned: inputs [count][dims], labels [count].
struct Examples {
  const double* inputs = nullptr;
  const double* labels = nullptr;
  int64_t count = 0;
  int dims = 0;
};

// Each returns weights w [dims], 0 for an empty context; a prediction is <w,
// x>.

// argmin |Xw - y|, the one of minimum norm where several exist. Complete
// orthogonal decomposition (as LAPACK's gelsy); pivots below max(count, dims) *
// 2^-52 of the largest count as 0.
std::vector<double> LeastSquaresWeights(const Examples& context);
// argmin |Xw - y|^2 + lambda |w|^2; lambda 0 is least squares. REQUIRES: lambda
// >= 0.
std::vector<double> RidgeWeights(const Examples& context, double lambda);
// Mean of y x.
std::vector<double> AveragingWeights(const Examples& context);

// Mean label of the min(3, count) examples nearest to the query [dims]
// (Euclidean; earlier ones win ties); 0 for none.
double NearestThree(const Examples& context, const double* query);

// Writes predictions for `count` queries [count][dims] that share one context.
using ContextRule =
    absl::FunctionRef<void(const Examples& context, const double* queries,
                           int64_t count, double* out)>;
// Applies a rule to every query of a prompt. The last task's own query and its
// final one have the same context, so their predictions agree.
QueryPredictions PredictQueries(const OrderedPrompt& prompt, ContextRule rule);
// The rule of a weight vector.
void PredictLinear(const std::vector<double>& weights, const double* queries,
                   int64_t count, double* out);

}  // namespace iclsweep
