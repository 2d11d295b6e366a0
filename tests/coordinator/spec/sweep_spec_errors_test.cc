// Bad sweep files: each is refused with one line that names the place and the
// reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/spec/sweep_spec.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::StatusIs;
using ::testing::HasSubstr;

struct BadCase {
  const char* name;
  std::string text;  // after the line `name: t`
  const char* message;
};

class SweepSpecErrorTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(SweepSpecErrorTest, IsRefusedInOneLine) {
  const auto spec = ParseSweep("name: t\n" + GetParam().text, "s.yaml");
  ASSERT_THAT(spec, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(GetParam().message)));
  const std::string message(spec.status().message());
  EXPECT_TRUE(absl::StartsWith(message, "s.yaml:")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

const auto kTestName = [](const auto& test) {
  return std::string(test.param.name);
};

INSTANTIATE_TEST_SUITE_P(
    Families, SweepSpecErrorTest,
    ::testing::Values(
        BadCase{"UnknownFamily", "data: {family: sparse}\ntrain:",
                "s.yaml:2:16: data.family takes one of"},
        BadCase{"SparsityOfLinear", "data:\n  sparsity: 2\ntrain:",
                "s.yaml:3:3: data.sparsity has no effect without data.family: "
                "sparse_linear; remove it"},
        BadCase{"HiddenOfATree",
                "data: {family: decision_tree, hidden: 10}\ntrain:",
                "s.yaml:2:31: data.hidden has no effect without data.family: "
                "relu_2nn; remove it"},
        BadCase{"DepthAxisOfNoTree",
                "train:\ngrid:\n  data.family: [linear, relu_2nn]\n  "
                "data.depth: [3, 4]",
                "s.yaml:5:3: data.depth has no effect without data.family: "
                "decision_tree; remove it"},
        BadCase{"SparsityThatPromptsOverride",
                "data:\n  sparsity: 2\ntrain:\nevaluate: {}\nprompt: {data: "
                "{family: sparse_linear, sparsity: 4}}",
                "s.yaml:3:3: data.sparsity has no effect without data.family: "
                "sparse_linear"},
        BadCase{"SparsityOfLinearPrompts",
                "data: {family: sparse_linear}\ntrain:\nevaluate: {}\nprompt: "
                "{data: {family: linear, sparsity: 2}}",
                "s.yaml:5:33: prompt.data.sparsity has no effect without "
                "prompt.data.family: sparse_linear"},
        BadCase{"SparsityOverDims",
                "data: {family: sparse_linear, dims: 5, sparsity: 6}\ntrain:",
                "s.yaml:2:40: data.sparsity 6 exceeds data.dims 5; lower the "
                "sparsity"},
        BadCase{"DefaultSparsityOverTheDimsOfOneCell",
                "data: {family: sparse_linear}\ntrain:\ngrid: {data.dims: [4, "
                "2]}",
                "s.yaml:4:8: data.sparsity 3 exceeds data.dims 2"},
        BadCase{"PromptSparsityOverDims",
                "data: {dims: 2}\ntrain:\nevaluate: {}\nprompt: {data: "
                "{family: sparse_linear}}",
                "s.yaml:2:8: prompt.data.sparsity 3 exceeds prompt.data.dims "
                "2"},
        BadCase{"CurriculumBelowSparsity",
                "data: {family: sparse_linear}\ntrain:\n  curriculum: "
                "{dims_start: 2}",
                "s.yaml:4:16: train.curriculum.dims_start 2 is less than "
                "data.sparsity 3; start with at least as many dims"},
        BadCase{"NoisyWithoutNoise", "data: {family: noisy_linear}\ntrain:",
                "s.yaml:2:8: family noisy_linear needs data.noise_std above "
                "0, such as 1"},
        BadCase{"NoisyPromptsWithoutNoise",
                "train:\nevaluate: {}\nprompt: {data: {family: noisy_linear}}",
                "s.yaml:4:17: family noisy_linear needs prompt.data.noise_std "
                "above 0"},
        BadCase{"AngleBetweenTrees",
                "data: {family: decision_tree}\ntrain:\nevaluate: {}\nprompt: "
                "{geometry: angle, angle_degrees: 30}",
                "s.yaml:5:10: geometry angle needs tasks that are dense weight "
                "vectors (linear, noisy_linear, quadratic), not decision_tree; "
                "use independent or clustered"},
        BadCase{"AngleBetweenSparseTasksOfOneCell",
                "train:\nevaluate: {}\nprompt: {geometry: angle}\ngrid: "
                "{data.family: [quadratic, sparse_linear]}",
                "s.yaml:4:10: geometry angle needs tasks that are dense weight "
                "vectors (linear, noisy_linear, quadratic), not sparse_linear"},
        BadCase{"TheoryOfReluNetworks", "data: {family: relu_2nn}\ntheory: {}",
                "s.yaml:3:1: theory covers the families linear and "
                "noisy_linear, not relu_2nn; remove the theory section"},
        BadCase{"TheoryOfOneCell",
                "theory: {}\ngrid: {data.family: [linear, quadratic]}",
                "s.yaml:2:1: theory covers the families linear and "
                "noisy_linear, not quadratic"}),
    kTestName);

INSTANTIATE_TEST_SUITE_P(
    Grid, SweepSpecErrorTest,
    ::testing::Values(
        BadCase{"UnknownTopLevelKey", "theory: {}\ngrids: {}",
                "s.yaml:3:1: unknown key 'grids'; did you mean 'grid'?"},
        BadCase{
            "GridIsAList", "train:\ngrid: [1]",
            "s.yaml:3:7: grid takes a mapping (axis: [values]), not a list"},
        BadCase{"UnknownAxis", "train:\ngrid:\n  train.stepz: [1]",
                "s.yaml:4:3: unknown axis 'train.stepz'; did you mean "
                "'train.steps'?"},
        BadCase{"AxisWithoutSection", "train:\ngrid: {dims: [1]}",
                "unknown axis 'dims'; did you mean 'data.dims'?"},
        BadCase{"AxisBelowAScalar", "train:\ngrid: {train.steps.x: [1]}",
                "unknown axis 'train.steps.x'"},
        BadCase{"AxisEndsInADot", "train:\ngrid: {train.: [1]}",
                "unknown axis 'train.'"},
        BadCase{"AxisIsASection", "train:\ngrid: {model: {size: [tiny]}}",
                "s.yaml:3:8: axis model is a section; an axis names one "
                "parameter, such as model.size"},
        BadCase{"AxisIsAList", "train:\ngrid: {data.eigenvalues: [[1]]}",
                "is a list and cannot be an axis"},
        BadCase{"NameAsAxis", "train:\ngrid: {name: [a, b]}",
                "name cannot be an axis"},
        BadCase{"LimitsAsAxis", "train:\ngrid: {limits.max_attempts: [1, 2]}",
                "limits.max_attempts cannot be an axis"},
        BadCase{"DuplicateAxis", "train:\ngrid:\n  seed: [1]\n  seed: [2]",
                "s.yaml:5:3: 'seed' is set twice"},
        BadCase{"EmptyList", "train:\ngrid: {seed: []}",
                "s.yaml:3:8: axis seed has no values"},
        BadCase{"NoList", "train:\ngrid:\n  seed:\n",
                "s.yaml:4:3: axis seed has no values"},
        BadCase{"EmptyMapping", "train:\ngrid: {seed: {}}",
                "axis seed has no values"},
        BadCase{"OneValue", "train:\ngrid: {seed: 3}",
                "axis seed takes a list of values, not '3'; write [3]"},
        BadCase{"NaNValue", "train:\ngrid: {data.noise_std: [0, nan]}",
                "s.yaml:3:28: data.noise_std must not be NaN"},
        BadCase{"WrongTypeValue", "train:\ngrid: {seed: [1, x]}",
                "s.yaml:3:18: seed takes a whole number, not 'x'"},
        BadCase{"OutOfRangeValue", "train:\ngrid: {train.steps: [0]}",
                "train.steps must be at least 1"},
        BadCase{"NestedList", "train:\ngrid: {seed: [[1, 2]]}",
                "seed takes a whole number, not a list"},
        BadCase{"NullValue", "train:\ngrid: {seed: [1, ~]}",
                "seed takes a whole number, not nothing"},
        BadCase{"LinspaceOfWholeNumbers",
                "train:\ngrid: {seed: {linspace: [0, 1, 3]}}",
                "s.yaml:3:15: linspace generates real numbers; seed takes "
                "whole ones: {range: [first, end, step]}, or a list"},
        BadCase{"LinspaceOfTwo",
                "train:\ngrid: {train.learning_rate: {linspace: [0, 1]}}",
                "s.yaml:3:40: linspace of axis train.learning_rate takes "
                "[first, last, number of values], not a list"},
        BadCase{"LinspaceOfOneValue",
                "train:\ngrid: {data.noise_std: {linspace: [0, 1, 1]}}",
                "s.yaml:3:42: linspace of axis data.noise_std takes 2 to "},
        BadCase{"LinspaceBackwards",
                "train:\ngrid: {data.noise_std: {linspace: [1, 0, 3]}}",
                "the first value must be below the last one"},
        BadCase{"LinspaceTooClose",
                "train:\ngrid: {data.noise_std: {linspace: [1, "
                "1.0000000000000002, 3]}}",
                "are too close to tell apart"},
        BadCase{"LogspaceFromZero",
                "train:\ngrid: {data.noise_std: {logspace: [0, 1, 3]}}",
                "s.yaml:3:36: logspace of axis data.noise_std: both ends must "
                "be above 0"},
        BadCase{"ZipIsAMapping", "train:\nzip: {train.steps: [1, 2]}",
                "s.yaml:3:6: zip takes a list of mappings"},
        BadCase{"ZipOfAList", "train:\nzip: [[1]]",
                "s.yaml:3:7: zip takes mappings (axis: [values], axis: "
                "[values]), not a list"},
        BadCase{"ZipOfDifferentLengths",
                "train:\nzip:\n- train.steps: [1, 2]\n  train.batch: [8]",
                "s.yaml:5:3: zip: train.batch has 1 values, but train.steps "
                "(line 4) has 2; lists that advance together are equally "
                "long"},
        BadCase{"ZipOfAnAxis",
                "train:\ngrid: {seed: [0, 1]}\nzip: [{seed: [2, 3]}]",
                "s.yaml:4:8: seed is an axis already, at line 3; keep one"},
        BadCase{"ZipOfASetParameter",
                "train: {steps: 3}\nzip: [{train.steps: [2, 3]}]",
                "s.yaml:3:8: train.steps is an axis here and also set at line "
                "2; keep one"},
        BadCase{"ZipWithoutEffect",
                "train:\nzip: [{seed: [0, 1], evaluate.prompts: [2, 3]}]",
                "axis evaluate.prompts has no effect"},
        BadCase{"ExcludeIsAMapping",
                "train:\ngrid: {seed: [0, 1]}\nexclude: {seed: 1}",
                "s.yaml:4:10: exclude takes a list of mappings"},
        BadCase{"ExcludeOfAList", "train:\ngrid: {seed: [0, 1]}\nexclude: [1]",
                "s.yaml:4:11: exclude takes mappings (axis: value, axis: "
                "[values]), not '1'"},
        BadCase{"ExcludeOfNoAxis",
                "train:\ngrid: {train.steps: [1, 2]}\nexclude: "
                "[{train.stepz: 1}]",
                "s.yaml:4:12: exclude: 'train.stepz' is no axis of this grid; "
                "did you mean 'train.steps'?"},
        BadCase{"ExcludeOfNoValue",
                "train:\ngrid: {model.size: [tiny, small]}\nexclude: "
                "[{model.size: [tiny, standard]}]",
                "s.yaml:4:31: exclude: standard is no value of axis model.size "
                "(tiny, small)"},
        BadCase{"ExcludeOfNothing",
                "train:\ngrid: {seed: [0, 1]}\nexclude: [{seed: []}]",
                "exclude: seed has no value here"},
        BadCase{"ExcludeOfAnotherType",
                "train:\ngrid: {seed: [0, 1]}\nexclude: [{seed: x}]",
                "s.yaml:4:18: seed takes a whole number, not 'x'"},
        BadCase{"ExcludeOfEverything",
                "train:\ngrid: {seed: [0, 1]}\nexclude: [{seed: [0, 1]}]",
                "s.yaml:4:1: exclude leaves no cell"},
        BadCase{"ShuffleAsAxis", "train:\ngrid: {shuffle: [1, 2]}",
                "shuffle cannot be an axis"},
        BadCase{"NegativeShuffle", "train:\nshuffle: -1",
                "shuffle must be at least 0"},
        BadCase{"RangeOfDoubles",
                "train:\ngrid: {train.learning_rate: {range: [0, 1]}}",
                "range generates whole numbers; train.learning_rate needs a "
                "list of values"},
        BadCase{"RangeMisspelt", "train:\ngrid: {seed: {rang: [0, 1]}}",
                "unknown key 'rang' in axis seed; did you mean 'range'?"},
        BadCase{"EmptyRange", "train:\ngrid: {seed: {range: [3, 3]}}",
                "axis seed has no values: range [3, 3) is empty"},
        BadCase{"BackwardRange", "train:\ngrid: {seed: {range: [3, 1]}}",
                "range [3, 1) is empty"},
        BadCase{"ZeroStep", "train:\ngrid: {seed: {range: [0, 3, 0]}}",
                "the step of a range must be at least 1"},
        BadCase{"RangeOfOne", "train:\ngrid: {seed: {range: [3]}}",
                "takes [first, end] or [first, end, step]"},
        BadCase{"RangeOfWords", "train:\ngrid: {seed: {range: [a, b]}}",
                "takes a whole number, not 'a'"},
        BadCase{"RangeOutOfBounds",
                "train:\ngrid: {train.steps: {range: [0, 3]}}",
                "train.steps must be at least 1"},
        BadCase{"RangeOverInt32",
                "train:\ngrid: {data.dims: {range: [1, 5000000000]}}",
                "takes a whole number up to 2147483647"},
        BadCase{"PermutationsOfSeeds",
                "train:\ngrid: {seed: {permutations: all}}",
                "for the axis prompt.task_order"},
        BadCase{"SetTwice", "train: {steps: 5}\ngrid:\n  train.steps: [5, 6]",
                "s.yaml:4:3: train.steps is an axis here and also set at line "
                "2; keep one"},
        BadCase{"StageIsAbsent", "train:\ngrid: {evaluate.prompts: [2, 4]}",
                "s.yaml:3:8: axis evaluate.prompts has no effect: no stage of "
                "this sweep (train) reads it"},
        BadCase{"TrainIsAbsent", "theory:\ngrid: {seed: [1, 2]}",
                "axis seed has no effect: no stage of this sweep (theory)"},
        BadCase{"PromptIsNotRead", "train:\ngrid: {prompt.tasks: [1, 2]}",
                "axis prompt.tasks has no effect"},
        BadCase{"ShadowedData",
                "theory:\nprompt: {data: {dims: 3}}\ngrid: {data.dims: [1, 2]}",
                "axis data.dims has no effect"},
        BadCase{"TooManyCells",
                "train:\ngrid:\n  seed: {range: [0, 10000]}\n  train.steps: "
                "{range: [1, 1002]}",
                "s.yaml:3:1: the grid has seed 10000 x train.steps 1001 = "
                "10010000 cells, more than the limit of 10000000"},
        BadCase{"CountOverflows",
                "train:\ngrid:\n  seed: {range: [0, 9223372036854775807]}\n  "
                "train.steps: {range: [1, 1002]}",
                "train.steps 1001 = over 10^19 cells"},
        BadCase{"OrdersOverflow",
                "theory:\nprompt: {tasks: 30}\ngrid: {prompt.task_order: "
                "{permutations: all}}",
                "prompt.task_order (over 10^19)"}),
    kTestName);

INSTANTIATE_TEST_SUITE_P(
    Orders, SweepSpecErrorTest,
    ::testing::Values(
        BadCase{"NotAPermutation",
                "theory:\nprompt: {tasks: 3}\ngrid:\n  prompt.task_order: [[0, "
                "1, 2], [0, 1, 1]]",
                "s.yaml:5:34: order '0-1-1' is not a permutation of the tasks "
                "0 .. 2 (prompt.tasks is 3)"},
        BadCase{"TooShort",
                "theory:\nprompt: {tasks: 3}\ngrid: {prompt.task_order: [0-1]}",
                "order '0-1' is not a permutation"},
        BadCase{"EmptyOrder", "theory:\ngrid: {prompt.task_order: [[]]}",
                "order '' is not a permutation"},
        BadCase{"OneOrderWithoutList",
                "theory:\ngrid: {prompt.task_order: 0-1-2}",
                "takes a list of values"},
        BadCase{
            "FlatList",
            "theory:\nprompt: {tasks: 3}\ngrid: {prompt.task_order: [0, 2, 1]}",
            "order '0' is not a permutation"},
        BadCase{"InTheSection",
                "theory:\nprompt: {tasks: 3, task_order: [0, 1, 3]}",
                "s.yaml:3:20: order '0-1-3' is not a permutation"},
        BadCase{"TasksAreAnAxis",
                "theory:\ngrid: {prompt.tasks: [2, 3], prompt.task_order: "
                "{permutations: all}}",
                "generates orders, so prompt.tasks must have one value; it is "
                "an axis"},
        BadCase{
            "ListedWithTasksAxis",
            "theory:\ngrid: {prompt.tasks: [2, 3], prompt.task_order: [0-1]}",
            "order '0-1' is not a permutation of the tasks 0 .. 2"},
        BadCase{"SomePermutations",
                "theory:\ngrid: {prompt.task_order: {permutations: 24}}",
                "permutations takes all, not '24'; {sample: 24, seed: 1} draws "
                "some of them"},
        BadCase{
            "SampleTooLarge",
            "theory:\nprompt: {tasks: 3}\ngrid: {prompt.task_order: {sample: "
            "7, seed: 1}}",
            "s.yaml:4:28: a sample of 7 orders, but 3 tasks have only 3! = 6"},
        BadCase{"SampleOfNone",
                "theory:\ngrid: {prompt.task_order: {sample: 0}}",
                "axis prompt.task_order has no values"},
        BadCase{"HugeSample",
                "theory:\nprompt: {tasks: 20}\ngrid: {prompt.task_order: "
                "{sample: 20000000}}",
                "more than the limit of 10000000"},
        BadCase{"SeedAlone", "theory:\ngrid: {prompt.task_order: {seed: 1}}",
                "seed needs sample"},
        BadCase{
            "SeedOfAll",
            "theory:\ngrid: {prompt.task_order: {permutations: all, seed: 1}}",
            "seed has no effect"},
        BadCase{"SampleMisspelt",
                "theory:\ngrid: {prompt.task_order: {samples: 3}}",
                "did you mean 'sample'?"}),
    kTestName);

INSTANTIATE_TEST_SUITE_P(
    Together, SweepSpecErrorTest,
    ::testing::Values(
        BadCase{"NoStage", "model: {layers: 2}",
                "s.yaml: nothing to do: no section train, evaluate, compare or "
                "theory"},
        BadCase{
            "EvaluateAlone", "evaluate: {}",
            "s.yaml:2:1: evaluate needs a trained model: add a train section"},
        BadCase{"CompareAlone", "theory:\ncompare: {}",
                "s.yaml:3:1: compare needs a trained model"},
        BadCase{"AngleWithoutGeometry", "theory:\nprompt:\n  angle_degrees: 45",
                "s.yaml:4:3: prompt.angle_degrees has no effect without "
                "prompt.geometry: angle"},
        BadCase{"AngleAxisWithoutGeometry",
                "theory:\ngrid: {prompt.angle_degrees: [0, 45]}",
                "s.yaml:3:8: prompt.angle_degrees has no effect without"},
        BadCase{"AngleWithOtherGeometries",
                "theory:\ngrid: {prompt.geometry: [independent, clustered], "
                "prompt.angle_degrees: [0]}",
                "prompt.angle_degrees has no effect"},
        BadCase{"RightAngleInTooFewDims",
                "theory:\ndata: {dims: 3}\nprompt: {tasks: 4, geometry: "
                "angle}\ngrid: {prompt.angle_degrees: [0, 90]}",
                "s.yaml:5:8: at 90 degrees all tasks are orthogonal, which "
                "needs prompt.tasks <= dims, but 4 > 3"},
        BadCase{"AngleInOneDim",
                "theory:\ndata: {dims: 1}\nprompt: {tasks: 2, geometry: angle, "
                "angle_degrees: 10}",
                "needs at least 2 dims"},
        BadCase{
            "EvaluateTooLong",
            "train: {points: 41}\nprompt:\n  examples_per_task: 19\nevaluate:",
            "s.yaml:4:3: evaluate needs T(M+1)+1 = 5*20+1 = 101 points, but "
            "train.points is 41"},
        BadCase{"OneCellTooLong",
                "train: {points: 16}\nprompt: {tasks: 3}\nevaluate:\ngrid: "
                "{prompt.examples_per_task: [1, 4, 5]}",
                "s.yaml:5:8: evaluate needs T(M+1)+1 = 3*6+1 = 19 points, but "
                "train.points is 16"},
        BadCase{"CompareTooLong",
                "train: {points: 16}\nprompt: {tasks: 3, examples_per_task: "
                "4}\ncompare: {anchors: 4}",
                "compare needs T*M+anchors+1 = 3*4+4+1 = 17 points, but "
                "train.points is 16"},
        BadCase{"OverPositions",
                "train: {points: 16}\nprompt: {tasks: 3, examples_per_task: 5, "
                "allow_extrapolation: true}\nevaluate:",
                "evaluate needs T(M+1)+1 = 3*6+1 = 19 points, but the model "
                "has room for 16 (model.positions"},
        BadCase{"PositionsBelowPoints",
                "model:\n  positions: 8\ntrain: {points: 16}",
                "s.yaml:3:3: model.positions 8 is less than train.points 16"},
        BadCase{"HeadsDoNotDivide", "model: {heads: 3, width: 64}\ntrain:",
                "s.yaml:2:9: model.heads must divide model.width: 64 / 3 is "
                "not whole"},
        BadCase{"HeadsOfOneCell",
                "model: {width: 64}\ntrain:\ngrid: {model.heads: [2, 5]}",
                "64 / 5 is not whole"},
        BadCase{"PresetAndShape", "model: {size: tiny, layers: 4}\ntrain:",
                "s.yaml:2:9: model.size means 3 layers, 2 heads and width 64; "
                "leave out"},
        BadCase{
            "PresetOfOneCell",
            "model: {layers: 12}\ntrain:\ngrid: {model.size: [standard, tiny]}",
            "s.yaml:4:8: model.size means 3 layers"},
        BadCase{
            "Eigenvalues", "data:\n  dims: 3\n  eigenvalues: [1, 2]\ntrain:",
            "s.yaml:4:3: data.eigenvalues has 2 values, but data.dims is 3"},
        BadCase{
            "InheritedEigenvalues",
            "data: {dims: 2, eigenvalues: [1, 2]}\nprompt: {data: {dims: "
            "3}}\ntheory:",
            "prompt.data.eigenvalues has 2 values, but prompt.data.dims is 3"}),
    kTestName);

TEST(SweepNameTest, IsRequiredAndPlain) {
  EXPECT_THAT(ParseSweep("train:", "s.yaml"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("s.yaml: a sweep needs a name")));
  for (const std::string bad :
       {"\"two words\"", "a/b", "\"\"", "é", "'a\tb'"}) {
    EXPECT_THAT(ParseSweep(absl::StrCat("name: ", bad, "\ntrain:"), "s.yaml"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")))
        << bad;
  }
  EXPECT_OK(
      ParseSweep("name: " + std::string(128, 'x') + "\ntrain:", "s.yaml"));
  EXPECT_THAT(
      ParseSweep("name: " + std::string(129, 'x') + "\ntrain:", "s.yaml"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 128")));
  EXPECT_OK(ParseSweep("name: A.b_c-1\ntrain:", "s.yaml"));
}

TEST(SweepLimitTest, IsTheCallers) {
  const std::string text =
      "name: t\nnoop:\ngrid: {noop.index: {range: [0, 11]}}";
  EXPECT_OK(ParseSweep(text, "s.yaml", {.max_cells = 11}));
  EXPECT_THAT(
      ParseSweep(text, "s.yaml", {.max_cells = 10}),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("noop.index 11 = 11 cells, more than the limit of 10")));
}

// Bytes of a good file deleted, doubled, swapped or overwritten: whatever comes
// out is read or refused in one line.
TEST(SweepJunkTest, DamagedFilesAreReadOrRefusedInOneLine) {
  const std::string good =
      "name: t\ngrid:\n  model.size: [tiny, small]\n  seed: {range: [0, 3]}\n  "
      "prompt.task_order: {sample: 3, seed: 1}\n  prompt.angle_degrees: [0, "
      "4.5e1]\ntrain: &t {points: 41, curriculum: {dims_start: 5}}\nprompt: "
      "{tasks: 3, geometry: angle, data: {eigenvalues: [1, 2, 3], dims: 3}}\n"
      "evaluate: {}\ntheory:\n  pretraining_length: 7\n";
  EXPECT_OK(ParseSweep(good, "s.yaml"));
  const std::string bytes =
      std::string(1, '\0') + "\t\n\"'#&*!|>%@`[]{}:,-?~<.0129ae\xc3\xff";
  std::mt19937 random(7);
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = good;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      const char byte = bytes[random() % bytes.size()];
      switch (random() % 4) {
        case 0:
          text.erase(at, 1 + random() % 4);
          break;
        case 1:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
          break;
        case 2:
          text.insert(at, 1, byte);
          break;
        default:
          text[at] = byte;
      }
    }
    const auto spec = ParseSweep(text, "s.yaml");
    if (spec.ok()) continue;
    ++refused;
    const std::string message(spec.status().message());
    ASSERT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
    ASSERT_TRUE(absl::StartsWith(message, "s.yaml:")) << message;
    ASSERT_EQ(message.find('\n'), std::string::npos) << message;
    ASSERT_LT(message.size(), 500u) << message;
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace iclsweep
