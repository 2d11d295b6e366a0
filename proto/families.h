// What the coordinator's checks and the workers both need to know of a family
// of tasks; its definition is worker/tasks/family.h.
#pragma once

#include "iclsweep/v1/params.pb.h"

namespace iclsweep {

// Labels are linear in the inputs with w ~ N(0, I), up to one factor: what the
// closed form of `theory` covers.
inline bool HasClosedForm(v1::Family family) {
  return family == v1::FAMILY_LINEAR || family == v1::FAMILY_NOISY_LINEAR;
}

// A task is a weight vector w ~ N(0, I), so that an angle between two of them
// means something.
inline bool HasDenseWeights(v1::Family family) {
  return HasClosedForm(family) || family == v1::FAMILY_QUADRATIC;
}

// Lasso's penalty on prompts of a family, 0 = no lasso: evaluate.lasso_alpha,
// or else the one that Garg et al. (2022, appendix A.3) plot for sparse
// weights.
inline double LassoAlpha(const v1::EvaluateParams& evaluate,
                         v1::Family family) {
  if (evaluate.lasso_alpha() > 0) return evaluate.lasso_alpha();
  return family == v1::FAMILY_SPARSE_LINEAR ? 0.01 : 0;
}

}  // namespace iclsweep
