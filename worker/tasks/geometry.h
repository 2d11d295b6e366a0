// Tasks of a prompt (worker/tasks/family.h): independent, at a controlled
// angle, or in two clusters. Not the inputs (prompt.h) and not the order in
// which tasks appear (order.h). Angles are those between weight vectors, so
// only families whose tasks are dense weight vectors have them
// (proto/families.h).
//
// Draws are keyed by a task's identity, so sets are nested: the set of T tasks
// is the beginning of the set of T + 1, and one base direction and one set of
// offsets serve every angle. The angle generator is the corrected one of Li,
// Ding and Hu (arXiv 2605.28705, section 5): w_0 = r b, w_t = r (cos(angle) b +
// sin(angle) o_t) with b, o_t unit vectors, o_t orthogonal to b, r^2 = dims.
// Later tasks meet each other at cos^2(angle) on average, except at 90 degrees,
// where Gram-Schmidt on the same draws makes the whole set orthogonal (and so
// needs tasks <= dims).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/base/streams.h"

namespace iclsweep {

// Addresses one task set.
struct TaskSetDraw {
  uint64_t seed = 0;
  uint64_t prompt = 0;              // 0 for a fixed set
  Purpose set = Purpose::kTaskSet;  // stream of w and of the base direction
  Purpose offset = Purpose::kTaskOffset;  // stream of the offsets o_t
};

// The tasks, [tasks][TaskFamily::Size()] row-major by task identity. No libm:
// the same bits on every x86-64 machine. Errors: InvalidArgument for more
// orthogonal tasks than dimensions, for an angle in one dimension or between
// tasks that are no dense weight vectors, for an angle outside 0 .. 90, and
// those of CheckFamily.
absl::StatusOr<std::vector<double>> DrawTaskSet(const v1::PromptParams& prompt,
                                                const TaskSetDraw& draw);

// E[w_i' w_j] / dims over task sets, [tasks][tasks], for dense weights w: for
// every geometry E[w_i w_j'] is this number times the identity (the laws are
// rotation invariant). Input of the random-task closed form. Errors as
// DrawTaskSet.
absl::StatusOr<std::vector<double>> TaskCorrelations(
    const v1::PromptParams& prompt);

struct CosSin {
  double cos = 1;
  double sin = 0;
};
// Cosine and sine of an angle in degrees by own arithmetic (error at most 2
// units in the last place; exact at 0 and 90). REQUIRES: 0 <= degrees <= 90.
CosSin CosSinDegrees(double degrees);

}  // namespace iclsweep
