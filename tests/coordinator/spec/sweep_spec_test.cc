#include "coordinator/spec/sweep_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/cells.h"
#include "coordinator/spec/orders.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<SweepSpec> Parse(const std::string& text) {
  return ParseSweep("name: t\n" + text, "s.yaml");
}

std::vector<std::string> Texts(const Axis& axis) {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < axis.size(); ++i) texts.push_back(axis.TextAt(i));
  return texts;
}

TEST(SweepSpecTest, AFileWithoutAGridIsOneCell) {
  ASSERT_OK_AND_ASSIGN(const SweepSpec spec, Parse("train:\n"));
  EXPECT_EQ(spec.name, "t");
  EXPECT_THAT(spec.stages, ElementsAre(Stage::kTrain));
  EXPECT_THAT(spec.axes, IsEmpty());
  EXPECT_EQ(CellCount(spec), 1u);
  EXPECT_THAT(spec.warnings, IsEmpty());
}

TEST(SweepSpecTest, StagesArePresentWhenTheirSectionsAre) {
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec all,
      Parse("theory: {}\ncompare: {}\nevaluate: {}\ntrain: {}\n"));
  EXPECT_THAT(all.stages, ElementsAre(Stage::kTrain, Stage::kEvaluate,
                                      Stage::kCompare, Stage::kTheory));
  ASSERT_OK_AND_ASSIGN(const SweepSpec theory,
                       Parse("theory: {pretraining_length: 101}\n"));
  EXPECT_THAT(theory.stages, ElementsAre(Stage::kTheory));
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec noop,
      Parse("noop:\ngrid: {noop.index: {range: [0, 100000]}}"));
  EXPECT_THAT(noop.stages, ElementsAre(Stage::kNoop));
  EXPECT_EQ(CellCount(noop), 100000u);
}

TEST(SweepSpecTest, AxesKeepTheOrderOfTheFile) {
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec spec,
      Parse("train: {}\ngrid:\n  seed: [3, 1]\n  model.size: [tiny]\n"));
  ASSERT_EQ(spec.axes.size(), 2u);
  EXPECT_EQ(spec.axes[0].path, "seed");
  EXPECT_THAT(Texts(spec.axes[0]), ElementsAre("3", "1"));
  EXPECT_EQ(spec.axes[1].path, "model.size");
  EXPECT_THAT(Texts(spec.axes[1]), ElementsAre("tiny"));
  EXPECT_EQ(spec.axes[1].JsonAt(0), "\"tiny\"");
}

TEST(SweepSpecTest, EveryDepthOfSectionCanVary) {
  ASSERT_OK_AND_ASSIGN(const SweepSpec spec, Parse(R"(
train: {}
evaluate: {}
prompt: {tasks: 2}
grid:
  train.curriculum.points_start: [0, 11]
  prompt.data.dims: [5, 10]
  prompt.allow_extrapolation: [false, true]
  train.learning_rate: [1e-4, 3.0e-4, 1]
)"));
  EXPECT_THAT(Texts(spec.axes[2]), ElementsAre("false", "true"));
  EXPECT_EQ(spec.axes[2].JsonAt(1), "true");
  EXPECT_THAT(Texts(spec.axes[3]), ElementsAre("0.0001", "0.0003", "1"));
}

TEST(SweepSpecTest, RangesAreHalfOpen) {
  ASSERT_OK_AND_ASSIGN(const SweepSpec spec, Parse(R"(
train: {}
grid:
  seed: {range: [2, 5]}
  train.batch: {range: [8, 21, 4]}
  train.steps: {range: [100, 104, 4]}
)"));
  EXPECT_THAT(Texts(spec.axes[0]), ElementsAre("2", "3", "4"));
  EXPECT_THAT(Texts(spec.axes[1]), ElementsAre("8", "12", "16", "20"));
  EXPECT_THAT(Texts(spec.axes[2]), ElementsAre("100"));
}

TEST(SweepSpecTest, TheLargestSeedsCanBeARange) {
  ASSERT_OK_AND_ASSIGN(const SweepSpec spec,
                       Parse("train:\ngrid: {seed: {range: "
                             "[9223372036854775805, 9223372036854775807]}}"));
  EXPECT_THAT(Texts(spec.axes[0]),
              ElementsAre("9223372036854775805", "9223372036854775806"));
}

TEST(SweepSpecTest, OrdersAreListedGeneratedOrSampled) {
  const std::string rest = "theory: {}\nprompt: {tasks: 3}\n";
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec all,
      Parse(rest + "grid: {prompt.task_order: {permutations: all}}"));
  EXPECT_THAT(Texts(all.axes[0]), ElementsAre("0-1-2", "0-2-1", "1-0-2",
                                              "1-2-0", "2-0-1", "2-1-0"));
  EXPECT_EQ(all.axes[0].JsonAt(1), "\"0-2-1\"");
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec listed,
      Parse(rest + "grid: {prompt.task_order: [[2, 1, 0], 0-1-2]}"));
  EXPECT_THAT(Texts(listed.axes[0]), ElementsAre("2-1-0", "0-1-2"));
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec some,
      Parse(rest + "grid: {prompt.task_order: {sample: 4, seed: 1}}"));
  ASSERT_OK_AND_ASSIGN(const SweepSpec more,
                       Parse(rest + "grid: {prompt.task_order: {permutations: "
                                    "all, sample: 6, seed: 1}}"));
  const auto sampled = Texts(some.axes[0]);
  EXPECT_EQ(sampled.size(), 4u);
  EXPECT_TRUE(
      std::equal(sampled.begin(), sampled.end(), Texts(more.axes[0]).begin()));
  EXPECT_THAT(Texts(more.axes[0]),
              ::testing::UnorderedElementsAreArray(Texts(all.axes[0])));
  ASSERT_OK_AND_ASSIGN(const SweepSpec lengthy,
                       Parse("theory: {}\nprompt: {tasks: 30}\ngrid: "
                             "{prompt.task_order: {sample: 5}}"));
  EXPECT_EQ(lengthy.axes[0].size(), 5u);
}

TEST(SweepSpecTest, RepeatedValuesAreDroppedWithAWarning) {
  ASSERT_OK_AND_ASSIGN(const SweepSpec spec, Parse(R"(theory: {}
prompt: {tasks: 2, geometry: angle}
grid:
  prompt.angle_degrees: [0, 45, 4.5e1,
                         -0.0]
  prompt.task_order: [0-1, [0, 1], 1-0]
)"));
  EXPECT_THAT(Texts(spec.axes[0]), ElementsAre("0", "45"));
  EXPECT_THAT(Texts(spec.axes[1]), ElementsAre("0-1", "1-0"));
  EXPECT_THAT(
      spec.warnings,
      ElementsAre(
          HasSubstr("s.yaml:5:33: axis prompt.angle_degrees has 45 twice "
                    "(first at line 5)"),
          HasSubstr("s.yaml:6:26: axis prompt.angle_degrees has 0 twice"),
          HasSubstr("s.yaml:7:28: axis prompt.task_order has 0-1 twice")));
}

TEST(SweepSpecTest, SectionsThatNoStageReadsAreAWarning) {
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec spec,
      Parse("theory: {}\nmodel: {layers: 2}\ndata: {dims: 3}\n"));
  EXPECT_THAT(spec.warnings,
              ElementsAre(HasSubstr("s.yaml:3:1: model has no effect")));
}

TEST(SweepSpecTest, AnAngleMayMeetOtherGeometries) {
  EXPECT_OK(
      Parse("theory: {}\ngrid: {prompt.geometry: [independent, angle], "
            "prompt.angle_degrees: [0, 60]}"));
}

TEST(SweepSpecTest, TheLongestPromptsThatFitAreAccepted) {
  EXPECT_OK(
      Parse("train: {points: 16}\nprompt: {tasks: 3, examples_per_task: "
            "4}\nevaluate: {}\ncompare: {anchors: 3}"));
  EXPECT_OK(
      Parse("train: {points: 10}\nmodel: {positions: 16}\n"
            "prompt: {tasks: 3, examples_per_task: 4, allow_extrapolation: "
            "true}\nevaluate: {}"));
  EXPECT_OK(
      Parse("prompt: {tasks: 5, geometry: angle, angle_degrees: 90, data: "
            "{dims: 5}}\ntheory: {}"));
  EXPECT_OK(Parse("model: {size: tiny, layers: 3, width: 64}\ntrain: {}"));
}

TEST(SweepSpecTest, AGridOfMillionsIsReadWithoutWalkingIt) {
  // 9,979,200 cells; the checks look at the combinations of what they read
  // only.
  ASSERT_OK_AND_ASSIGN(const SweepSpec spec, Parse(R"(
train: {points: 101}
evaluate: {}
prompt: {tasks: 9, geometry: angle}
grid:
  prompt.task_order: {permutations: all}
  prompt.angle_degrees: [0, 30, 60, 90, 45]
  prompt.examples_per_task: [1, 2, 3, 5, 7]
)"));
  EXPECT_EQ(CellCount(spec), 362880u * 25u);
}

TEST(SweepSpecTest, EmptyZipAndExcludeAreNothing) {
  EXPECT_OK(Parse("theory: {}\nzip: []\nexclude:\ngrid: {}\n"));
}

}  // namespace
}  // namespace iclsweep
