#include "worker/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace iclsweep {
namespace {

// The linear regression curriculum of Garg et al.: dims 5 -> 20 by 1, points 11
// -> 41 by 2, every 2000 steps.
TEST(CurriculumTest, GargStagesAreAtTheirSteps) {
  v1::TrainParams train;
  v1::DataParams data;
  train.mutable_curriculum()->set_dims_start(5);
  train.mutable_curriculum()->set_points_start(11);
  EXPECT_EQ(CurriculumAt(train, data, 0), (Extent{5, 11}));
  EXPECT_EQ(CurriculumAt(train, data, 1999), (Extent{5, 11}));
  EXPECT_EQ(CurriculumAt(train, data, 2000), (Extent{6, 13}));
  EXPECT_EQ(CurriculumAt(train, data, 29999), (Extent{19, 39}));
  EXPECT_EQ(CurriculumAt(train, data, 30000), (Extent{20, 41}));
  EXPECT_EQ(CurriculumAt(train, data, 499999), (Extent{20, 41}));
}

TEST(CurriculumTest, WithoutAStartEverythingIsLiveFromTheBeginning) {
  EXPECT_EQ(CurriculumAt(v1::TrainParams(), v1::DataParams(), 0),
            (Extent{20, 41}));
}

TEST(CurriculumTest, AStartBeyondTheEndIsTheEnd) {
  v1::TrainParams train;
  train.mutable_curriculum()->set_dims_start(30);
  EXPECT_EQ(CurriculumAt(train, v1::DataParams(), 0), (Extent{20, 41}));
}

v1::TrainParams Params(int64_t steps, int64_t warmup, v1::Schedule schedule) {
  v1::TrainParams train;
  train.set_steps(steps);
  train.set_warmup_steps(warmup);
  train.set_schedule(schedule);
  train.set_learning_rate(0.5);
  return train;
}

TEST(LearningRateTest, WarmUpIsLinearAndReachesTheFullRate) {
  const v1::TrainParams train = Params(100, 4, v1::SCHEDULE_CONSTANT);
  EXPECT_DOUBLE_EQ(LearningRate(train, 0), 0.125);
  EXPECT_DOUBLE_EQ(LearningRate(train, 1), 0.25);
  EXPECT_DOUBLE_EQ(LearningRate(train, 3), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(train, 4), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(train, 99), 0.5);
}

TEST(LearningRateTest, WithoutWarmUpTheFirstStepHasTheFullRate) {
  EXPECT_DOUBLE_EQ(LearningRate(Params(10, 0, v1::SCHEDULE_CONSTANT), 0), 0.5);
}

TEST(LearningRateTest, CosineFallsToZeroAtTheLastStep) {
  const v1::TrainParams train = Params(105, 4, v1::SCHEDULE_COSINE);
  EXPECT_DOUBLE_EQ(LearningRate(train, 3), 0.5);
  EXPECT_DOUBLE_EQ(LearningRate(train, 4), 0.5);
  EXPECT_NEAR(LearningRate(train, 54), 0.25, 1e-12);
  EXPECT_NEAR(LearningRate(train, 29), 0.25 * (1 + std::sqrt(0.5)), 1e-12);
  EXPECT_NEAR(LearningRate(train, 104), 0, 1e-12);
}

TEST(LearningRateTest, ACosineOfOneStepHasTheFullRate) {
  EXPECT_DOUBLE_EQ(LearningRate(Params(1, 0, v1::SCHEDULE_COSINE), 0), 0.5);
}

}  // namespace
}  // namespace iclsweep
