#include "proto/base/clock.h"

#include <gtest/gtest.h>

namespace iclsweep {
namespace {

TEST(SimulatedClockTest, MovesOnlyWhenTold) {
  SimulatedClock clock;
  const int64_t monotonic = clock.MonotonicMicros();
  const int64_t wall = clock.WallMicros();
  EXPECT_EQ(clock.MonotonicMicros(), monotonic);
  EXPECT_EQ(clock.WallMicros(), wall);
  clock.Advance(250);
  EXPECT_EQ(clock.MonotonicMicros(), monotonic + 250);
  EXPECT_EQ(clock.WallMicros(), wall + 250);
}

TEST(SimulatedClockTest, SleepingAdvancesIt) {
  SimulatedClock clock;
  const int64_t before = clock.MonotonicMicros();
  clock.SleepMicros(3'600'000'000);  // returns at once
  EXPECT_EQ(clock.MonotonicMicros(), before + 3'600'000'000);
}

TEST(RealClockTest, NeverGoesBack) {
  int64_t last = RealClock()->MonotonicMicros();
  for (int i = 0; i < 10'000; ++i) {
    const int64_t now = RealClock()->MonotonicMicros();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(RealClockTest, WallClockCountsMicrosecondsSinceTheEpoch) {
  // After 2024-01-01 and before 2100-01-01, in microseconds.
  EXPECT_GT(RealClock()->WallMicros(), 1'704'067'200'000'000);
  EXPECT_LT(RealClock()->WallMicros(), 4'102'444'800'000'000);
}

}  // namespace
}  // namespace iclsweep
