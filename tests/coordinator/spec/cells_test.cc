#include "coordinator/spec/cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "proto/base/sha256.h"
#include "proto/canonical.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SweepSpec Parse(const std::string& text) {
  auto spec = ParseSweep("name: t\n" + text, "s.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

constexpr char kSweep[] = R"(
grid:
  model.size: [tiny, small]
  prompt.task_order: {permutations: all}
  prompt.angle_degrees: [0, 45, 0.1]
  seed: {range: [5, 7]}
data: {dims: 3}
prompt: {tasks: 3, geometry: angle, examples_per_task: 2}
train: {}
evaluate: {}
compare: {}
theory: {}
)";

TEST(CellsTest, TheFirstAxisVariesSlowest) {
  const SweepSpec spec = Parse(kSweep);
  EXPECT_EQ(CellCount(spec), 2u * 6 * 3 * 2);
  CellExpander expander(spec);
  const auto axes = [&](uint64_t index) {
    return expander.Expand(index)->axes_json;
  };
  EXPECT_EQ(
      axes(0),
      R"({"model.size":"tiny","prompt.task_order":"0-1-2","prompt.angle_degrees":0,"seed":5})");
  EXPECT_EQ(
      axes(1),
      R"({"model.size":"tiny","prompt.task_order":"0-1-2","prompt.angle_degrees":0,"seed":6})");
  EXPECT_EQ(
      axes(2),
      R"({"model.size":"tiny","prompt.task_order":"0-1-2","prompt.angle_degrees":45,"seed":5})");
  EXPECT_EQ(
      axes(6),
      R"({"model.size":"tiny","prompt.task_order":"0-2-1","prompt.angle_degrees":0,"seed":5})");
  EXPECT_EQ(
      axes(71),
      R"({"model.size":"small","prompt.task_order":"2-1-0","prompt.angle_degrees":0.1,"seed":6})");
}

TEST(CellsTest, ACellsJobsFollowTheirDependencies) {
  const SweepSpec spec = Parse(kSweep);
  ASSERT_OK_AND_ASSIGN(const Cell cell, ExpandCell(spec, 71));
  ASSERT_EQ(cell.jobs.size(), 4u);
  EXPECT_EQ(cell.jobs[0].stage, Stage::kTrain);
  EXPECT_EQ(cell.jobs[1].stage, Stage::kEvaluate);
  EXPECT_EQ(cell.jobs[2].stage, Stage::kCompare);
  EXPECT_EQ(cell.jobs[3].stage, Stage::kTheory);
  EXPECT_THAT(cell.jobs[0].depends_on, IsEmpty());
  EXPECT_THAT(cell.jobs[1].depends_on, ElementsAre(0));
  EXPECT_THAT(cell.jobs[2].depends_on, ElementsAre(0));
  EXPECT_THAT(cell.jobs[3].depends_on, IsEmpty());
}

TEST(CellsTest, KeysAreThoseOfTheInputsThatWorkersReceive) {
  const SweepSpec spec = Parse(kSweep);
  ASSERT_OK_AND_ASSIGN(const Cell cell, ExpandCell(spec, 71));
  v1::TrainInputs train;
  ASSERT_TRUE(train.ParseFromString(cell.jobs[0].inputs));
  EXPECT_EQ(train.ShortDebugString(),
            "model { layers: 6 heads: 4 width: 128 positions: 41 } data { "
            "dims: 3 } seed: 6");
  EXPECT_EQ(ComputeJobKey(Stage::kTrain, train, {}).value(), cell.jobs[0].key);
  v1::EvaluateInputs evaluate;
  ASSERT_TRUE(evaluate.ParseFromString(cell.jobs[1].inputs));
  EXPECT_EQ(evaluate.ShortDebugString(),
            "prompt { tasks: 3 examples_per_task: 2 geometry: GEOMETRY_ANGLE "
            "angle_degrees: 0.1 task_order: 2 "
            "task_order: 1 task_order: 0 data { dims: 3 } } evaluate { "
            "pretraining_length: 41 }");
  EXPECT_EQ(
      ComputeJobKey(Stage::kEvaluate, evaluate, {cell.jobs[0].key}).value(),
      cell.jobs[1].key);
  v1::TheoryInputs theory;
  ASSERT_TRUE(theory.ParseFromString(cell.jobs[3].inputs));
  EXPECT_EQ(ComputeJobKey(Stage::kTheory, theory, {}).value(),
            cell.jobs[3].key);
}

TEST(CellsTest, AnOrderOfVisitsDoesNotMatter) {
  const SweepSpec spec = Parse(kSweep);
  CellExpander forward(spec);
  CellExpander backward(spec);
  std::vector<Cell> cells;
  for (uint64_t i = 0; i < CellCount(spec); ++i)
    cells.push_back(forward.Expand(i).value());
  for (uint64_t i = CellCount(spec); i-- > 0;) {
    const Cell cell = backward.Expand(i).value();
    EXPECT_EQ(cell.key_hex, cells[i].key_hex);
    EXPECT_EQ(cell.axes_json, cells[i].axes_json);
    for (size_t j = 0; j < cell.jobs.size(); ++j) {
      EXPECT_EQ(cell.jobs[j].key, cells[i].jobs[j].key);
      EXPECT_EQ(cell.jobs[j].inputs, cells[i].jobs[j].inputs);
    }
  }
}

TEST(CellsTest, CellKeysAreDistinctAndIgnoreTheOrderOfAxes) {
  const SweepSpec spec = Parse(kSweep);
  std::set<std::string> keys;
  CellExpander expander(spec);
  for (uint64_t i = 0; i < CellCount(spec); ++i)
    keys.insert(expander.Expand(i)->key_hex);
  EXPECT_EQ(keys.size(), CellCount(spec));
  const SweepSpec one =
      Parse("train:\ngrid: {seed: [1, 2], model.layers: [2, 4]}");
  const SweepSpec other =
      Parse("train:\ngrid: {model.layers: [4, 2], seed: [1, 2]}");
  EXPECT_EQ(ExpandCell(one, 2)->key_hex,
            ExpandCell(other, 3)->key_hex);  // seed 2, 2 layers
  EXPECT_EQ(ExpandCell(one, 2)->key_hex,
            Sha256Hex("\"model.layers\":2\n\"seed\":2\n"));
}

TEST(CellsTest, AxisValuesAreJson) {
  const SweepSpec spec = Parse(
      "train:\nevaluate:\nprompt: {tasks: 2}\ngrid: {seed: "
      "[9223372036854775807], train.learning_rate: [1e-5], "
      "prompt.allow_extrapolation: [true], prompt.task_order: [1-0], "
      "train.schedule: [cosine]}");
  ASSERT_OK_AND_ASSIGN(const Cell cell, ExpandCell(spec, 0));
  const auto json = nlohmann::json::parse(cell.axes_json);
  EXPECT_EQ(json["seed"], INT64_MAX);
  EXPECT_EQ(json["train.learning_rate"], 1e-5);
  EXPECT_EQ(json["prompt.allow_extrapolation"], true);
  EXPECT_EQ(json["prompt.task_order"], "1-0");
  EXPECT_EQ(json["train.schedule"], "cosine");
}

TEST(CellsTest, ASweepWithoutAGridHasOneCell) {
  const SweepSpec spec = Parse("train:");
  ASSERT_OK_AND_ASSIGN(const Cell cell, ExpandCell(spec, 0));
  EXPECT_EQ(cell.axes_json, "{}");
  EXPECT_EQ(cell.jobs.size(), 1u);
}

TEST(CellsTest, AnIndexBeyondTheGridIsAnError) {
  const SweepSpec spec = Parse(kSweep);
  EXPECT_THAT(ExpandCell(spec, 72), StatusIs(absl::StatusCode::kOutOfRange,
                                             HasSubstr("cell 72 of sweep t")));
}

TEST(CellsTest, LimitsAndTheNameAreNotInAnyKey) {
  const Cell plain = ExpandCell(Parse("train:"), 0).value();
  const auto other =
      ParseSweep("name: other\nlimits: {max_attempts: 9}\ntrain:", "s.yaml");
  ASSERT_OK(other);
  EXPECT_EQ(ExpandCell(*other, 0)->jobs[0].key, plain.jobs[0].key);
}

TEST(CellsTest, AnOverlappingSweepSharesKeys) {
  const SweepSpec one =
      Parse("train:\nevaluate:\ngrid: {prompt.examples_per_task: [1, 2]}");
  const SweepSpec other = Parse(
      "train: {steps: 500000}\nevaluate:\ntheory:\ngrid: {seed: [0, 1], "
      "prompt.examples_per_task: [2, 3]}");
  EXPECT_EQ(ExpandCell(one, 1)->jobs[0].key, ExpandCell(other, 0)->jobs[0].key);
  EXPECT_EQ(ExpandCell(one, 1)->jobs[1].key, ExpandCell(other, 0)->jobs[1].key);
  EXPECT_NE(ExpandCell(one, 1)->jobs[1].key,
            ExpandCell(other, 2)->jobs[1].key);  // another seed
}

}  // namespace
}  // namespace iclsweep
