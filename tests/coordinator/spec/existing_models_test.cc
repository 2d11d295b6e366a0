#include "coordinator/spec/existing_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/cells.h"
#include "coordinator/spec/freeze.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kSumA(64, 'a');
const std::string kSumB(64, 'b');

// Folders a and copy-of-a hold one model, b another one, odd a larger one.
absl::StatusOr<ModelFacts> ReadModel(const std::string& checkpoint) {
  if (checkpoint == "a" || checkpoint == "copy-of-a" ||
      checkpoint == "sha256:" + kSumA)
    return ModelFacts{kSumA, 3, 2, 64, 50, 5, 31};
  if (checkpoint == "b") return ModelFacts{kSumB, 3, 2, 64, 50, 5, 41};
  if (checkpoint == "odd")
    return ModelFacts{std::string(64, 'c'), 6, 4, 128, 50, 5, 41};
  return absl::InvalidArgumentError("there is no folder " + checkpoint);
}

absl::StatusOr<SweepSpec> Parse(const std::string& text) {
  ParseOptions options;
  options.read_model = ReadModel;
  return ParseSweep("name: t\n" + text, "s.yaml", options);
}

TEST(ExistingModelsTest, SumTakesThePlaceOfTheFolder) {
  ASSERT_OK_AND_ASSIGN(const SweepSpec spec, Parse("train: {checkpoint: a}"));
  EXPECT_TRUE(spec.TakesModels());
  EXPECT_EQ(spec.base.train().checkpoint(), "sha256:" + kSumA);
  ASSERT_OK_AND_ASSIGN(const SweepSpec copy,
                       Parse("train: {checkpoint: copy-of-a}"));
  EXPECT_EQ(copy.hash_hex, spec.hash_hex);
  ASSERT_OK_AND_ASSIGN(const SweepSpec other, Parse("train: {checkpoint: b}"));
  EXPECT_NE(other.hash_hex, spec.hash_hex);
  EXPECT_FALSE(Parse("train: {steps: 5}")->TakesModels());
}

TEST(ExistingModelsTest, UnwrittenSizesAreTheModels) {
  ASSERT_OK_AND_ASSIGN(const SweepSpec spec, Parse("train: {checkpoint: a}"));
  EXPECT_EQ(spec.base.model().layers(), 3);
  EXPECT_EQ(spec.base.model().heads(), 2);
  EXPECT_EQ(spec.base.model().width(), 64);
  EXPECT_EQ(spec.base.model().positions(), 50);
  EXPECT_EQ(spec.base.data().dims(), 5);
  EXPECT_EQ(spec.base.train().points(), 31);
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec written,
      Parse("model: {size: tiny}\ndata: {dims: 5}\ntrain: {points: 20, "
            "checkpoint: a}"));
  EXPECT_EQ(written.base.train().points(), 20);
}

TEST(ExistingModelsTest, StoredFormReadsBackWithoutTheFolder) {
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec spec,
      Parse("train:\nevaluate:\nprompt: {tasks: 3}\nseed: 4\n"
            "grid: {train.checkpoint: [a, b], prompt.examples_per_task: [1, 2]}"
            "\nexclude: [{train.checkpoint: b, prompt.examples_per_task: 2}]"));
  EXPECT_EQ(CellCount(spec), 3u);
  ASSERT_OK_AND_ASSIGN(const SweepSpec stored,
                       ParseStoredSweep(CanonicalJson(spec), "t"));
  EXPECT_EQ(stored.hash_hex, spec.hash_hex);
  ASSERT_OK_AND_ASSIGN(const Cell before, ExpandCell(spec, 2));
  ASSERT_OK_AND_ASSIGN(const Cell after, ExpandCell(stored, 2));
  EXPECT_EQ(before.axes_json, after.axes_json);
  EXPECT_EQ(before.jobs[0].key, after.jobs[0].key);
  EXPECT_EQ(before.jobs[1].key, after.jobs[1].key);
}

TEST(ExistingModelsTest, JobIsTheModelAndWhatIsMeasuredOfIt) {
  const auto key = [](const std::string& text) {
    auto spec = Parse(text);
    EXPECT_OK(spec.status());
    return ExpandCell(*spec, 0)->jobs[0].key;
  };
  std::set<JobKey> keys;
  for (const char* text :
       {"train: {checkpoint: a}", "train: {checkpoint: b, points: 31}",
        "train: {checkpoint: a, points: 30}",
        "train: {checkpoint: a, validation_prompts: 9}",
        "train: {checkpoint: a}\nseed: 1", "train: {points: 31}"}) {
    EXPECT_TRUE(keys.insert(key(text)).second) << text;
  }
  EXPECT_EQ(key("train: {checkpoint: a}"),
            key("model: {size: tiny}\ntrain: {checkpoint: copy-of-a}"));
}

TEST(ExistingModelsTest, ModelsOfSeveralSizesAreZippedWithThem) {
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec spec,
      Parse("train: {points: 31}\nzip: [{train.checkpoint: [a, odd], "
            "model.size: [tiny, small]}]"));
  EXPECT_EQ(CellCount(spec), 2u);
  EXPECT_THAT(
      Parse("train: {points: 31}\ngrid: {train.checkpoint: [a, odd]}"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("has model.layers 3, not 12; leave it out, or give "
                         "each model its own (zip)")));
}

TEST(ExistingModelsTest, EqualModelsOfAnAxisAreOne) {
  ASSERT_OK_AND_ASSIGN(
      const SweepSpec spec,
      Parse("train:\ngrid: {train.checkpoint: [a, copy-of-a]}"));
  EXPECT_EQ(CellCount(spec), 1u);
  EXPECT_THAT(spec.warnings, ElementsAre(HasSubstr("twice")));
}

TEST(ExistingModelsTest, WhatCannotBeIsRefusedAtItsPlace) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"train:\n  checkpoint: nowhere",
       "s.yaml:3:15: train.checkpoint: there is no folder nowhere"},
      {"train:\ngrid:\n  train.checkpoint: [a, nowhere]",
       "s.yaml:4:25: train.checkpoint: there is no folder nowhere"},
      {"train: {checkpoint: ''}", "s.yaml:2:21: train.checkpoint: the name"},
      {"train: {checkpoint: sha256:12}", "takes 64 digits of 0-9 a-f"},
      {"train: {checkpoint: a, steps: 5}",
       "s.yaml:2:24: train.steps is not read: train.checkpoint takes an "
       "existing model; remove one of them"},
      {"train: {checkpoint: a, curriculum: {dims_start: 2}}",
       "train.curriculum.dims_start is not read"},
      {"train: {checkpoint: a}\ngrid: {train.learning_rate: [0.1, 0.2]}",
       "s.yaml:3:8: train.learning_rate is not read"},
      {"model: {layers: 4}\ntrain: {checkpoint: a}",
       "s.yaml:2:9: the model sha256:aaaaaaaaaaaa... has model.layers 3, not "
       "4"},
      {"model: {size: small}\ntrain: {checkpoint: a}",
       "s.yaml:2:9: the model sha256:aaaaaaaaaaaa... has model.layers 3, not "
       "6"},
      {"data: {dims: 4}\ntrain: {checkpoint: a}",
       "s.yaml:2:8: the model sha256:aaaaaaaaaaaa... has data.dims 5, not 4"},
      {"train: {checkpoint: a, points: 60}",
       "model.positions 50 is less than train.points 60"},
  };
  for (const auto& bad : cases) {
    EXPECT_THAT(Parse(bad.text), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr(bad.message)));
  }
  EXPECT_THAT(ParseSweep("name: t\ntrain: {checkpoint: a}", "s.yaml"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("a folder cannot be read here")));
}

}  // namespace
}  // namespace iclsweep
