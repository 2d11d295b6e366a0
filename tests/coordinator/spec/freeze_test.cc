#include "coordinator/spec/freeze.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "coordinator/spec/cells.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SweepSpec Parse(const std::string& text) {
  auto spec = ParseSweep("name: t\n" + text, "s.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

std::string Hash(const std::string& text) { return Parse(text).hash_hex; }

TEST(FreezeTest, LayoutAndWrittenDefaultsDoNotChangeTheHash) {
  const std::string hash =
      Hash("train: {steps: 10}\ntheory: {}\ngrid: {seed: [0, 1, 2]}");
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(hash, Hash("# a comment\ngrid:\n  seed:\n  - 0\n  - 1\n  - "
                       "2\n\ntheory:\ntrain:\n  steps: 10   # ten\n"));
  EXPECT_EQ(hash, Hash("train: {steps: 10, points: 41, curriculum: "
                       "{}}\ntheory: {}\ndata: {dims: 20}\n"
                       "grid: {seed: {range: [0, 3]}}"));
  EXPECT_EQ(hash, Hash("train: {steps: 10}\ntheory: {}\ngrid: {seed: [0, 1, 1, "
                       "2]}\nlimits: {max_attempts: 3}"));
  EXPECT_EQ(hash, Hash("train: {steps: 10}\ntheory: {pretraining_noise_std: "
                       "0}\nprompt: {data: {dims: 20}}\n"
                       "grid: {seed: [0, 1, 2]}"));
}

TEST(FreezeTest, EveryChangeOfMeaningChangesTheHash) {
  const char* const texts[] = {
      "train:",
      "train:\ntheory:",
      "train:\nevaluate:",
      "train: {steps: 1}",
      "train:\nseed: 1",
      "train:\nlimits: {max_attempts: 1}",
      "train:\ndata: {noise_std: 0.5}",
      "train:\ngrid: {seed: [0]}",
      "train:\ngrid: {seed: [0, 1]}",
      "train:\ngrid: {seed: [1, 0]}",
      "train:\ngrid: {seed: [0, 1], model.layers: [2, 4]}",
      "train:\ngrid: {model.layers: [2, 4], seed: [0, 1]}",
      "train:\ngrid: {seed: {range: [0, 5000]}}",
      "train:\ngrid: {seed: {range: [0, 10000, 2]}}",
      "train:\nmodel: {size: tiny}",
      "train:\nmodel: {size: small}"};
  std::set<std::string> hashes;
  for (const char* text : texts) hashes.insert(Hash(text));
  EXPECT_EQ(hashes.size(), std::size(texts));
  EXPECT_NE(Hash("train:"), ParseSweep("name: u\ntrain:", "s.yaml")->hash_hex);
}

TEST(FreezeTest, AValueEqualToTheDefaultCountsWhereItWouldBeInherited) {
  EXPECT_NE(Hash("theory:\ndata: {dims: 3}\nprompt: {data: {dims: 20}}"),
            Hash("theory:\ndata: {dims: 3}"));
  EXPECT_EQ(Hash("theory:\ndata: {dims: 3}\nprompt: {data: {dims: 3}}"),
            Hash("theory:\ndata: {dims: 3}"));
  EXPECT_NE(Hash("train:\nevaluate:\nprompt: {data: {dims: 20}}\ngrid: "
                 "{data.dims: [10, 20]}"),
            Hash("train:\nevaluate:\ngrid: {data.dims: [10, 20]}"));
  EXPECT_NE(Hash("train:\nevaluate: {pretraining_noise_std: 0}\ndata: "
                 "{noise_std: 0.5}"),
            Hash("train:\nevaluate:\ndata: {noise_std: 0.5}"));
}

TEST(FreezeTest, TheStoredFormReadsBackToTheSameSweep) {
  const char* const texts[] = {
      "train:",
      "theory: {}\nprompt: {tasks: 3, geometry: angle}\n"
      "grid: {prompt.task_order: {permutations: all}, prompt.angle_degrees: "
      "[0, 0.1, 1e-5]}",
      "train: {learning_rate: 1e-3, schedule: cosine, curriculum: {dims_start: "
      "5}}\nmodel: {size: tiny}\n"
      "data: {dims: 2, eigenvalues: [0.5, 1e-7]}\nseed: "
      "9223372036854775807\nlimits: {max_attempts: 5}",
      "theory:\nprompt: {tasks: 8}\ngrid: {prompt.task_order: {permutations: "
      "all}}",
      "theory:\nprompt: {tasks: 8}\ngrid: {prompt.task_order: {sample: 2000, "
      "seed: 3}}",
      "theory:\nprompt: {tasks: 40}\ngrid: {prompt.task_order: {sample: 20, "
      "seed: 3}}",
      "noop:\ngrid: {noop.index: {range: [0, 5000, 3]}, noop.microseconds: [0, "
      "10]}",
      "train:\nevaluate:\nprompt: {allow_extrapolation: true, task_order: "
      "4-3-2-1-0, data: {dims: 5}}\n"
      "compare: {learning_rates: [0.5, 0.25], tasks: 4}"};
  for (const char* text : texts) {
    SCOPED_TRACE(text);
    const SweepSpec spec = Parse(text);
    const std::string stored = CanonicalJson(spec);
    EXPECT_TRUE(nlohmann::json::accept(stored)) << stored;
    EXPECT_EQ(stored.find('\n'), std::string::npos);
    ASSERT_OK_AND_ASSIGN(const SweepSpec back, ParseSweep(stored, "stored"));
    EXPECT_EQ(back.hash_hex, spec.hash_hex);
    EXPECT_EQ(CanonicalJson(back), stored);
    ASSERT_EQ(CellCount(back), CellCount(spec));
    const uint64_t last = CellCount(spec) - 1;
    ASSERT_OK_AND_ASSIGN(const Cell cell, ExpandCell(spec, last));
    ASSERT_OK_AND_ASSIGN(const Cell same, ExpandCell(back, last));
    EXPECT_EQ(cell.axes_json, same.axes_json);
    for (size_t i = 0; i < cell.jobs.size(); ++i)
      EXPECT_EQ(cell.jobs[i].key, same.jobs[i].key);
  }
}

TEST(FreezeTest, EqualSweepsHaveNoDifferences) {
  EXPECT_THAT(DiffSpecs(Parse("train: {points: 41}"), Parse("train:")),
              IsEmpty());
}

TEST(FreezeTest, DifferencesAreNamedLineByLine) {
  const SweepSpec before = Parse(R"(
train: {steps: 100, batch: 8}
prompt: {geometry: angle, tasks: 2}
evaluate: {}
data: {noise_std: 0.5}
grid:
  prompt.angle_degrees: [0, 45]
  seed: [0, 1]
  prompt.task_set: [fresh]
)");
  const SweepSpec after = Parse(R"(
train: {steps: 200, schedule: cosine}
prompt: {geometry: angle, tasks: 2, data: {noise_std: 0}}
evaluate: {}
theory: {}
data: {noise_std: 0.5}
seed: 3
grid:
  prompt.angle_degrees: [0, 45, 90]
  prompt.task_set: [fresh]
  prompt.examples_per_task: {range: [1, 4]}
)");
  EXPECT_THAT(
      DiffSpecs(before, after),
      ElementsAre(
          "theory: absent -> present", "train.steps: 100 -> 200",
          "train.batch: 8 -> 64", "train.schedule: constant -> cosine",
          "seed: (in the grid) -> 3", "prompt.data.noise_std: (inherited) -> 0",
          "grid prompt.angle_degrees: [0, 45] -> [0, 45, 90]",
          "grid seed: [0, 1] -> (not in the grid)",
          "grid prompt.examples_per_task: (not in the grid) -> [1, 2, 3]"));
}

TEST(FreezeTest, LongAxesAreCutAndReorderedOnesNamed) {
  EXPECT_THAT(DiffSpecs(Parse("train:\ngrid: {seed: {range: [0, 20]}}"),
                        Parse("train:\ngrid: {seed: {range: [0, 21]}}")),
              ElementsAre("grid seed: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "
                          "12, 13, 14, 15, ... 20 values] -> "
                          "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, "
                          "15, ... 21 values]"));
  EXPECT_THAT(
      DiffSpecs(Parse("train:\ngrid: {seed: [0], model.layers: [2]}"),
                Parse("train:\ngrid: {model.layers: [2], seed: [0]}")),
      ElementsAre("grid order: seed, model.layers -> model.layers, seed"));
}

}  // namespace
}  // namespace iclsweep
