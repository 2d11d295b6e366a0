// Axes that advance together, excluded points, spaced values, shuffled order.
#include "coordinator/spec/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <string>

#include "coordinator/spec/cell_order.h"
#include "coordinator/spec/cells.h"
#include "coordinator/spec/freeze.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::StatusIs;

SweepSpec Parse(const std::string& text) {
  auto spec = ParseSweep("name: t\n" + text, "s.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

std::vector<std::string> Cells(const SweepSpec& spec) {
  std::vector<std::string> cells;
  CellExpander expander(spec);
  for (uint64_t i = 0; i < CellCount(spec); ++i) {
    const Cell cell = expander.Expand(i).value();
    EXPECT_EQ(cell.index, i);
    cells.push_back(cell.axes_json);
  }
  return cells;
}

// ---- zip

TEST(ZipTest, ListsAdvanceTogetherAndVaryFastest) {
  EXPECT_THAT(
      Cells(Parse("train:\nzip: [{train.steps: [10, 20], train.batch: [64, "
                  "32]}]\ngrid: {seed: [0, 1]}")),
      ElementsAre(R"({"seed":0,"train.steps":10,"train.batch":64})",
                  R"({"seed":0,"train.steps":20,"train.batch":32})",
                  R"({"seed":1,"train.steps":10,"train.batch":64})",
                  R"({"seed":1,"train.steps":20,"train.batch":32})"));
}

TEST(ZipTest, GroupsMultiplyAndMayGenerateTheirValues) {
  EXPECT_THAT(
      Cells(Parse("train:\nzip:\n- {seed: {range: [0, 2]}, train.steps: [5, "
                  "5]}\n- {train.batch: [1, 2]}")),
      ElementsAre(R"({"seed":0,"train.steps":5,"train.batch":1})",
                  R"({"seed":0,"train.steps":5,"train.batch":2})",
                  R"({"seed":1,"train.steps":5,"train.batch":1})",
                  R"({"seed":1,"train.steps":5,"train.batch":2})"));
}

TEST(ZipTest, PlacesThatSayTheSameAreOneCell) {
  const SweepSpec spec = Parse(
      "train:\nzip: [{train.steps: [10, 20, 10], train.batch: [1, 1, 1]}]");
  EXPECT_THAT(Cells(spec),
              ElementsAre(R"({"train.steps":10,"train.batch":1})",
                          R"({"train.steps":20,"train.batch":1})"));
  EXPECT_THAT(spec.warnings,
              ElementsAre(HasSubstr("s.yaml:3:8: zip: place 3 of train.steps "
                                    "and its companions repeats")));
}

TEST(ZipTest, OrdersFitTheTasksOfTheirPlace) {
  EXPECT_THAT(Cells(Parse("theory:\nzip: [{prompt.tasks: [2, 3], "
                          "prompt.task_order: [[1, 0], 2-1-0]}]")),
              SizeIs(2));
  EXPECT_THAT(
      ParseSweep("name: t\ntheory:\nzip: [{prompt.tasks: [2, 3], "
                 "prompt.task_order: [2-1-0, 1-0]}]",
                 "s.yaml"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("permutation")));
}

TEST(ZipTest, CellsKeepTheirIdentity) {
  const SweepSpec zipped =
      Parse("train:\nzip: [{train.steps: [10, 20], seed: [3, 4]}]");
  const SweepSpec plain =
      Parse("train:\ngrid: {seed: [3, 4], train.steps: [10, 20]}");
  EXPECT_EQ(ExpandCell(zipped, 1)->key_hex, ExpandCell(plain, 3)->key_hex);
}

// ---- exclude

TEST(ExcludeTest, CellsThatMatchAllOfAnEntryAreDropped) {
  const SweepSpec spec = Parse(
      "train:\ngrid: {seed: [0, 1, 2], model.size: [tiny, small]}\nexclude:\n"
      "- {model.size: small, seed: [1, 2]}\n- {seed: 0, model.size: tiny}");
  EXPECT_THAT(Cells(spec), ElementsAre(R"({"seed":0,"model.size":"small"})",
                                       R"({"seed":1,"model.size":"tiny"})",
                                       R"({"seed":2,"model.size":"tiny"})"));
  EXPECT_THAT(spec.warnings, IsEmpty());
}

TEST(ExcludeTest, NamesOrdersInEveryForm) {
  const std::string grid =
      "theory:\nprompt: {tasks: 3}\n"
      "grid: {prompt.task_order: {permutations: all}}\nexclude: "
      "[{prompt.task_order: ";
  EXPECT_EQ(CellCount(Parse(grid + "0-1-2}]")), 5U);
  EXPECT_EQ(CellCount(Parse(grid + "[0, 1, 2]}]")), 5U);
  EXPECT_EQ(CellCount(Parse(grid + "[0-1-2, 2-1-0]}]")), 4U);
  EXPECT_EQ(CellCount(Parse(grid + "[[0, 1, 2], [2, 1, 0]]}]")), 4U);
}

TEST(ExcludeTest, MatchesZippedAxesWhereverTheValueStands) {
  EXPECT_THAT(
      Cells(Parse("train:\nzip: [{train.steps: [10, 20, 10], train.batch: [1, "
                  "2, 3]}]\nexclude: [{train.steps: 10}]")),
      ElementsAre(R"({"train.steps":20,"train.batch":2})"));
}

TEST(ExcludeTest, EntryThatMatchesNothingIsAWarning) {
  const SweepSpec spec = Parse(
      "train:\nzip: [{seed: [0, 1], train.steps: [1, 2]}]\nexclude:\n"
      "- {seed: 0, train.steps: 2}");
  EXPECT_THAT(spec.warnings,
              ElementsAre("s.yaml:5:3: exclude: no cell matches this entry"));
  EXPECT_EQ(CellCount(spec), 2U);
}

TEST(ExcludeTest, ExcludedCellsNeedNotMakeSense) {
  const std::string heads =
      "train:\nmodel: {layers: 1, width: 64}\ngrid: {model.heads: [2, 3], "
      "seed: [0, 1]}\n";
  EXPECT_THAT(ParseSweep("name: t\n" + heads, "s.yaml"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("heads")));
  EXPECT_EQ(CellCount(Parse(heads + "exclude: [{model.heads: 3}]")), 2U);
  EXPECT_FALSE(
      ParseSweep("name: t\n" + heads + "exclude: [{model.heads: 3, seed: 1}]",
                 "s.yaml")
          .ok());
}

TEST(ExcludeTest, OnlyWhatIsLeftCountsAgainstTheLimit) {
  const std::string text =
      "name: t\ntrain:\ngrid: {seed: {range: [0, 100]}, train.steps: [1, "
      "2]}\nexclude: [{train.steps: 2}]";
  EXPECT_OK(ParseSweep(text, "s.yaml", ParseOptions{100}));
  EXPECT_THAT(ParseSweep(text, "s.yaml", ParseOptions{99}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("after exclude 100")));
}

TEST(CellMapTest, NumbersCellsWithoutGaps) {
  CellMap map;
  std::vector<uint64_t> cells;
  for (uint64_t point = 0; point < 1000; ++point) {
    const bool is_cell = point % 7 == 3 || (point > 300 && point < 460);
    map.Add(is_cell);
    if (is_cell) cells.push_back(point);
  }
  ASSERT_EQ(map.cells(), cells.size());
  for (uint64_t cell = 0; cell < cells.size(); ++cell) {
    ASSERT_EQ(map.PointOf(cell), cells[cell]);
    ASSERT_TRUE(map.IsCell(cells[cell]));
  }
  EXPECT_FALSE(map.IsCell(0));
}

// ---- spaced values

std::vector<double> Values(const std::string& form) {
  const SweepSpec spec =
      Parse("train:\ngrid: {train.learning_rate: " + form + "}");
  std::vector<double> values;
  for (uint64_t i = 0; i < spec.axes[0].size(); ++i)
    values.push_back(std::get<double>(spec.axes[0].ValueAt(i)));
  return values;
}

TEST(SpacedTest, LinspaceHasEqualDifferences) {
  EXPECT_THAT(Values("{linspace: [0.5, 1.5, 5]}"),
              ElementsAre(0.5, 0.75, 1.0, 1.25, 1.5));
}

TEST(SpacedTest, LogspaceHasEqualRatiosAndItsEndsExactly) {
  const std::vector<double> values = Values("{logspace: [1e-4, 0.1, 7]}");
  ASSERT_THAT(values, SizeIs(7));
  EXPECT_EQ(values.front(), 1e-4);
  EXPECT_EQ(values.back(), 0.1);
  for (size_t i = 1; i < values.size(); ++i)
    EXPECT_NEAR(values[i] / values[i - 1], std::sqrt(10.0), 1e-13);
}

// ---- order

TEST(CellOrderTest, IsAPermutationOfEverySize) {
  for (const int64_t seed :
       {int64_t{1}, int64_t{2}, int64_t{9'000'000'000'000}}) {
    for (uint64_t cells = 1; cells < 300; ++cells) {
      const CellOrder order(cells, seed);
      std::set<uint64_t> seen;
      for (uint64_t place = 0; place < cells; ++place) {
        const uint64_t cell = order.At(place);
        ASSERT_LT(cell, cells);
        seen.insert(cell);
      }
      ASSERT_EQ(seen.size(), cells) << seed;
    }
  }
}

TEST(CellOrderTest, SeedZeroIsTheNumbersOrder) {
  const CellOrder order(5, 0);
  for (uint64_t place = 0; place < 5; ++place)
    EXPECT_EQ(order.At(place), place);
}

// Stored sweeps go on where they stopped: the order may never change.
TEST(CellOrderTest, IsTheSameForEver) {
  std::vector<uint64_t> cells;
  const CellOrder order(1'000'000, 7);
  for (uint64_t place = 0; place < 5; ++place) cells.push_back(order.At(place));
  EXPECT_THAT(cells, ElementsAre(213032, 251985, 129420, 295229, 757908));
}

// The beginning is a random sample: the first 1,000 of 100,000 places fall into
// ten equal parts of the grid as a multinomial draw does (chi-square with nine
// degrees of freedom, 99.9 % quantile 27.9).
TEST(CellOrderTest, BeginningIsSpreadOverTheGrid) {
  for (const int64_t seed : {1, 2, 3, 4}) {
    const CellOrder order(100'000, seed);
    std::array<int, 10> parts{};
    for (uint64_t place = 0; place < 1'000; ++place)
      ++parts[order.At(place) / 10'000];
    double chi_square = 0;
    for (const int count : parts)
      chi_square += (count - 100.0) * (count - 100.0) / 100;
    EXPECT_LT(chi_square, 27.9) << seed;
  }
}

// ---- the frozen form

TEST(FrozenGridTest, ReadsBackToTheSameSweep) {
  for (const char* text :
       {"train:\nzip: [{train.steps: [1, 2], seed: {range: [0, 2]}}, "
        "{train.batch: [8, 16]}]",
        "theory:\nprompt: {tasks: 3}\ngrid: {prompt.task_order: "
        "{permutations: all}}\nexclude: [{prompt.task_order: [0, 1, 2]}]",
        "train:\nshuffle: 5\ngrid: {seed: [0, 1], model.size: [tiny, "
        "small]}\nexclude: [{seed: 1, model.size: tiny}]"}) {
    const SweepSpec spec = Parse(text);
    const auto again = ParseSweep(CanonicalJson(spec), "stored");
    ASSERT_OK(again);
    EXPECT_EQ(again->hash_hex, spec.hash_hex);
    EXPECT_EQ(Cells(*again), Cells(spec));
  }
}

TEST(FrozenGridTest, DifferencesAreNamed) {
  const std::string base = "train:\ngrid: {seed: [0, 1]}\n";
  const SweepSpec before = Parse(base + "zip: [{train.steps: [1, 2]}]");
  EXPECT_THAT(DiffSpecs(before, Parse(base + "zip: [{train.steps: [1, 2]}]\n"
                                             "exclude: [{seed: 1}]")),
              ElementsAre("exclude: none -> {seed: [1]}"));
  EXPECT_THAT(DiffSpecs(before, Parse(base + "zip: [{train.steps: [1, 2]}]\n"
                                             "shuffle: 3")),
              ElementsAre("shuffle: 0 -> 3"));
  EXPECT_THAT(
      DiffSpecs(before,
                Parse("train:\ngrid: {seed: [0, 1], train.steps: [1, 2]}")),
      ElementsAre("zip: train.steps -> none"));
  EXPECT_EQ(Parse(base).hash_hex, Parse(base + "shuffle: 0").hash_hex);
}

}  // namespace
}  // namespace iclsweep
