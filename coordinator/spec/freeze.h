// The frozen form of a sweep: what is stored at submit, its hash, and the
// difference between two of them. Only what the sweep means is in it: comments,
// layout, defaults written out, values that would be inherited anyway, and [0,
// 1, 2] instead of {range: [0, 3]} change nothing. The order of the axes does
// (it numbers the cells).
#pragma once

#include <string>
#include <vector>

#include "coordinator/spec/sweep_spec.h"

namespace iclsweep {

// One line of JSON, which is YAML too: ParseSweep reads it back to a spec with
// the same hash.
std::string CanonicalJson(const SweepSpec& spec);

// SHA-256 of a version and CanonicalJson: 64 hexadecimal digits. Stored;
// changing it needs a schema version.
std::string SpecHash(const SweepSpec& spec);

// One line per difference, parameters first, such as "train.steps: 100 -> 200",
// "theory: absent -> present", "grid prompt.angle_degrees: [0, 45] -> [0, 45,
// 90]". Empty iff the hashes agree.
std::vector<std::string> DiffSpecs(const SweepSpec& before,
                                   const SweepSpec& after);

}  // namespace iclsweep
