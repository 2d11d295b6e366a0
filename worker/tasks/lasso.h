// Lasso (Tibshirani 1996) as a baseline for sparse tasks, in scikit-learn's
// scaling, as Garg et al. 2022 (arXiv 2208.01066, appendix A.3) use it. In
// double precision, own arithmetic: the same bits on every x86-64 machine.
#pragma once

#include <vector>

#include "worker/tasks/baselines.h"

namespace iclsweep {

// argmin |Xw - y|^2 / (2 count) + alpha |w|_1, no intercept; 0 for an empty
// context. Coordinate descent; after every sweep the weights that are not zero
// are moved to their common minimum, so it ends in finitely many sweeps, at a
// point that meets the optimality conditions up to rounding. (The original's
// solver stops at a relative tolerance of 1e-4, far from the minimiser for
// small alpha.) Where there are several minimisers, it is one of them. NaN in
// the case, never met, that 10,000 sweeps do not suffice. REQUIRES: alpha > 0.
std::vector<double> LassoWeights(const Examples& context, double alpha);

}  // namespace iclsweep
