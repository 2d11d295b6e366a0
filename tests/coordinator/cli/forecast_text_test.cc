#include "coordinator/cli/forecast_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Forecast Two() {
  Forecast forecast;
  forecast.stages = {
      {Stage::kTrain, "cpu/avx2", 2, 7200, 3600, 10800, 4000, 6, false},
      {Stage::kTheory, "cpu/avx2", 9, 0.5, 0.2, 1, 0.1, 4, true}};
  forecast.checkpoints = 2;
  forecast.checkpoint_bytes = 2'064'000;
  forecast.database_bytes = 999;
  return forecast;
}

TEST(ForecastTextTest, TableWallTimeAndDisk) {
  const std::string text = ForecastText(Two(), 2, "./data");
  EXPECT_THAT(
      static_cast<std::vector<std::string>>(absl::StrSplit(text, '\n')),
      ElementsAre(
          "",
          "stage      on                       device-hours         90 % "
          "interval  longest job  jobs measured",
          "train      cpu/avx2                            2                "
          "1 .. 3        1h06m              6",
          "theory     cpu/avx2                      < 0.001                  "
          "               1s            4 *",
          "all        cpu/avx2                            2                "
          "1 .. 3        1h06m           10 *",
          "* some of these jobs are much smaller or larger than any that was "
          "measured: the interval is twice as wide",
          "wall time with 2 workers on cpu/avx2: 1h06m (33m20s .. 1h40m)",
          "disk: 2 checkpoints, 2.06 MB; database about 999 B", ""));
}

TEST(ForecastTextTest, WhatIsNotKnownIsNamedWithTheCommandThatBringsIt) {
  Forecast forecast = Two();
  forecast.unknown = {Stage::kEvaluate, Stage::kCompare};
  const std::string text = ForecastText(forecast, 1, "./data");
  EXPECT_THAT(text, HasSubstr("no time is known for evaluate, compare: ./data "
                              "has no such results yet"));
  EXPECT_THAT(text, HasSubstr("\n  iclsweep run deploy/sweeps/calibration.yaml "
                              "--data ./data\n"));
  EXPECT_THAT(text, Not(HasSubstr("wall time")));  // it would be too short
  EXPECT_EQ(ForecastJson(forecast, 1)["wall_s"], nlohmann::json::object());
  EXPECT_EQ(ForecastText(Forecast(), 1, "./data"), "");
}

TEST(ForecastTextTest, JsonHasTheNumbers) {
  const nlohmann::json document = ForecastJson(Two(), 4);
  EXPECT_EQ(document["checkpoint_bytes"], 2'064'000);
  EXPECT_EQ(document["database_bytes"], 999);
  EXPECT_EQ(document["workers"], 4);
  EXPECT_EQ(document["wall_s"]["cpu/avx2"], 4000);
  EXPECT_EQ(document["unknown"], nlohmann::json::array());
  ASSERT_EQ(document["stages"].size(), 2U);
  EXPECT_EQ(document["stages"][0], (nlohmann::json{{"stage", "train"},
                                                   {"device_kind", "cpu/avx2"},
                                                   {"jobs", 2},
                                                   {"expected_s", 7200.0},
                                                   {"low_s", 3600.0},
                                                   {"high_s", 10800.0},
                                                   {"longest_s", 4000.0},
                                                   {"jobs_measured", 6},
                                                   {"beyond", false}}));
}

}  // namespace
}  // namespace iclsweep
