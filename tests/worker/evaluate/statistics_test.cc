#include "worker/evaluate/statistics.h"

#include <cmath>
#include <limits>

#include "tests/worker/evaluate/rows.h"

namespace iclsweep {
namespace {

using testing::ByKey;

TEST(StatisticsTest, MeanAndStandardErrorAgreeWithTheirDefinition) {
  RunningMean mean;
  for (const double value : {2.0, 4.0, 4.0, 5.0, 10.0}) mean.Add(value);
  EXPECT_DOUBLE_EQ(mean.Mean(), 5);
  // Squared differences 9 + 1 + 1 + 0 + 25 = 36; 36 / 4 / 5.
  EXPECT_DOUBLE_EQ(mean.StandardError(), std::sqrt(1.8));
  EXPECT_EQ(mean.Count(), 5);
}

TEST(StatisticsTest, ALargeOffsetDoesNotSwallowTheSpread) {
  RunningMean mean;
  for (int i = 0; i < 1000; ++i) mean.Add(1e9 + i % 2);
  EXPECT_NEAR(mean.StandardError(), std::sqrt(0.25 / 999), 1e-9);
}

TEST(StatisticsTest, OneValueHasNoStandardErrorAndNaNStays) {
  RunningMean mean;
  mean.Add(1);
  EXPECT_TRUE(std::isnan(mean.StandardError()));
  mean.Add(std::numeric_limits<double>::quiet_NaN());
  mean.Add(1);
  EXPECT_TRUE(std::isnan(mean.Mean()));
  EXPECT_TRUE(std::isnan(mean.StandardError()));
}

TEST(StatisticsTest, DifferencesArePairedWithinAPrompt) {
  // G and E_final vary between prompts, delta_E and NT do not.
  ErrorTable table("model", 1, ErrorTable::Rows::kAll);
  table.Add({.own = {1}, .last = {std::sqrt(2)}, .single = {0}}, {0});
  table.Add({.own = {2}, .last = {std::sqrt(5)}, .single = {std::sqrt(3)}},
            {0});
  std::vector<Measurement> out;
  table.AppendTo({0}, &out);
  const auto rows = ByKey(out);
  EXPECT_DOUBLE_EQ(rows.at({"model", "G", 0, 0}).value, 2.5);
  EXPECT_DOUBLE_EQ(rows.at({"model", "G", 0, 0}).standard_error,
                   1.5);  // sd of (1, 4) / sqrt 2
  EXPECT_NEAR(rows.at({"model", "delta_E", 0, 0}).value, 1, 1e-14);
  EXPECT_NEAR(rows.at({"model", "delta_E", 0, 0}).standard_error, 0, 1e-14);
  EXPECT_NEAR(rows.at({"model", "NT", 0, 0}).value, 1, 1e-14);
  EXPECT_NEAR(rows.at({"model", "NT", 0, 0}).standard_error, 0, 1e-14);
}

TEST(StatisticsTest, RowsNameTaskAndPositionAndAveragesNeither) {
  ErrorTable table("msa", 2, ErrorTable::Rows::kAll);
  table.Add({.own = {1, 2}, .last = {3, 2}, .single = {1, 1}}, {0, 0});
  table.Add({.own = {1, 2}, .last = {3, 2}, .single = {1, 1}}, {0, 0});
  std::vector<Measurement> out;
  table.AppendTo({1, 0}, &out);
  const auto rows = ByKey(out);
  EXPECT_EQ(rows.size(), 2U * 6 + 4);
  EXPECT_EQ(rows.at({"msa", "G", 1, 0}).value, 1);
  EXPECT_EQ(rows.at({"msa", "G", 0, 1}).value, 4);
  EXPECT_EQ(rows.at({"msa", "F", 1, 0}).value, 4);
  EXPECT_EQ(rows.at({"msa", "G", -1, -1}).value, 2.5);
  EXPECT_EQ(rows.at({"msa", "delta_E", -1, -1}).value, 4);
  EXPECT_EQ(rows.at({"msa", "F", -1, -1}).n, 2);
}

TEST(StatisticsTest, ErrorsOnlyLeavesTheRestOut) {
  ErrorTable table("zero", 1, ErrorTable::Rows::kErrorsOnly);
  table.Add({.own = {0}, .last = {0}, .single = {0}}, {3});
  std::vector<Measurement> out;
  table.AppendTo({0}, &out);
  const auto rows = ByKey(out);
  EXPECT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows.at({"zero", "E_final", 0, 0}).value, 9);
}

}  // namespace
}  // namespace iclsweep
