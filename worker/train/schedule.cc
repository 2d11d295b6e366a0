#include "worker/train/schedule.h"

#include <algorithm>
#include <cmath>

namespace iclsweep {
namespace {

int64_t Grow(int64_t start, int64_t increment, int64_t interval, int64_t end,
             int64_t step) {
  return start == 0 ? end
                    : std::min(start + increment * (step / interval), end);
}

}  // namespace

double LearningRate(const v1::TrainParams& train, int64_t step) {
  const int64_t warmup = train.warmup_steps();
  const double rate = train.learning_rate();
  if (step < warmup)
    return rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (train.schedule() == v1::SCHEDULE_CONSTANT) return rate;
  const int64_t last = std::max<int64_t>(train.steps() - 1 - warmup, 1);
  return rate * 0.5 *
         (1 + std::cos(M_PI * static_cast<double>(step - warmup) /
                       static_cast<double>(last)));
}

Extent CurriculumAt(const v1::TrainParams& train, const v1::DataParams& data,
                    int64_t step) {
  const v1::Curriculum& c = train.curriculum();
  return {Grow(c.dims_start(), c.dims_increment(), c.dims_interval(),
               data.dims(), step),
          Grow(c.points_start(), c.points_increment(), c.points_interval(),
               train.points(), step)};
}

}  // namespace iclsweep
