// Stage `compare`: is in-context learning like finetuning? Dai et al. 2023
// (arXiv 2212.10559) on regression, with the controls their critics ask for
// (Deutch et al. 2024, arXiv 2311.07772). The anchored protocol: m anchor pairs
// of the last task in the order precede every query,
//   ZSL = [anchors, x_q]    ICL = [demonstrations, anchors, x_q]
//   FT  = one SGD step per demonstration on the key and value projections of
//         every layer, on [anchors, x_i] with the loss at x_i, then [anchors,
//         x_q]
// with the T M pairs of a continual prompt, in its order and without its query
// slots, as demonstrations. A replicate is one task set; compare.tasks of them
// are measured, other ones choose the learning rate (lowest mean FT error).
//
// Predictors: `model`; `wrong_task`, finetuned on the same inputs with labels
// of another task set; `untrained`, the initial weights at the same rate;
// `least_squares` on demonstrations and anchors (error_icl only). Names:
// worker/compare/table.h. `model` further has learning_rate,
// learning_rate_at_edge (1: the chosen one is the smallest or largest of
// several candidates) and tune_error per candidate (position = its index).
//
// Everything runs in float64 on context.device, in chunks of a fixed number of
// replicates, so no number depends on how many are asked for. A checkpoint
// marked non-finite is not run: the same rows, all NaN.
#pragma once

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/domain.h"
#include "proto/base/stage.h"
#include "worker/model/checkpoints.h"

namespace iclsweep {

// Errors: InvalidArgument (never retry), Cancelled (context.stop),
// ResourceExhausted (out of memory), Internal, Unavailable (disk).
absl::StatusOr<StageResult> Compare(const v1::CompareInputs& inputs,
                                    const StageContext& context,
                                    Checkpoints* checkpoints);

}  // namespace iclsweep
