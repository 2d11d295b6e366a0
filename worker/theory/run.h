// Stage `theory`: the closed form of what `evaluate` measures for the
// linear-attention predictors `msa` and `lsa`, on the same task set in the same
// order (worker/theory/closed_form.h). No prompts are drawn; nothing is
// estimated.
//
// Measurements, n = 0 and no standard error. Per task (identity and position):
// G, G_single, NT, E_final, delta_E, F, the parts G_irreducible,
// G_variance_own, G_variance_other, G_bias_own, G_interference (and
// E_final_...), F_variance, F_mean. Averages over tasks (task and position not
// applicable): G, E_final, delta_E, F. For `lsa` the own and the final query
// are answered alike: E_final = G, delta_E = F = 0. With prompt.task_set
// `fixed` the numbers hold for the one task set of prompt.seed, with `fresh`
// for the average over task sets. theory.pretraining_length is N of Gamma; 0
// means an infinite one (sweeps resolve 0 to train.points before). Families:
// linear, and noisy_linear, which is linear with scaled tasks and noise.
#pragma once

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"

namespace iclsweep {

// Errors: InvalidArgument (never retry), Cancelled (context.stop).
absl::StatusOr<StageResult> RunTheory(const v1::TheoryInputs& inputs,
                                      const StageContext& context);

}  // namespace iclsweep
