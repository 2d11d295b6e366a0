// What changes from step to step of training, as pure functions of the 0-based
// step: learning rate and curriculum (Garg et al. 2022, appendix A.2; their
// repository's curriculum.py).
#pragma once

#include <cstdint>

#include "iclsweep/v1/params.pb.h"

namespace iclsweep {

// Linear warm-up (step + 1) / warmup_steps, then constant, or cosine from the
// full rate down to zero at the last step. When the warm-up leaves only one
// step for the cosine, that step has the full rate.
double LearningRate(const v1::TrainParams& train, int64_t step);

struct Extent {
  int64_t dims = 0;    // live input coordinates; the others are zero
  int64_t points = 0;  // points of each prompt
  friend bool operator==(const Extent&, const Extent&) = default;
};

// min(start + increment * floor(step / interval), end) for both; a start of 0
// means the end from the beginning.
Extent CurriculumAt(const v1::TrainParams& train, const v1::DataParams& data,
                    int64_t step);

}  // namespace iclsweep
