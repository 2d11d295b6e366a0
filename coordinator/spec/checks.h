// What the parameters of a sweep must satisfy together, in every cell: lengths
// against what was trained and what the model has room for, angles against
// dimensions, shapes, orders. Each check looks only at the combinations of the
// axes it reads, so a grid of millions of cells is checked in moments.
#pragma once

#include "absl/status/status.h"
#include "coordinator/spec/place.h"
#include "coordinator/spec/sweep_spec.h"

namespace iclsweep {

// InvalidArgument for the first violation, at the place of a parameter
// involved, with the arithmetic.
absl::Status CheckSpec(const SweepSpec& spec, const Places& places);

}  // namespace iclsweep
