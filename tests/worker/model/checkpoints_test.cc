#include "worker/model/checkpoints.h"

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/worker/model/scratch.h"

namespace iclsweep {
namespace {

using testing::StatusIs;

class CheckpointsTest : public testing::Scratch {
 protected:
  // A checkpoint folder of that name, and where a job would find it.
  StageContext Publish(const std::string& name, uint64_t seed) {
    const Gpt2 model = Gpt2::Initialize({.layers = 1,
                                         .heads = 1,
                                         .width = 8,
                                         .positions = 4,
                                         .dims = 2,
                                         .init_std = 0.2},
                                        seed);
    const CheckpointContent content{.model = &model,
                                    .initial = &model,
                                    .trained_points = 4,
                                    .inputs = {},
                                    .key = "k",
                                    .non_finite = false};
    const absl::StatusOr<Artifact> artifact =
        PublishCheckpoint(content, Path("artifacts"), name);
    EXPECT_TRUE(artifact.ok()) << artifact.status();
    StageContext context;
    context.checkpoint_dir = Path("artifacts/" + name);
    if (artifact.ok()) context.checkpoint_sha256 = artifact->sha256;
    return context;
  }
  void Remove(const StageContext& context) {
    std::filesystem::remove_all(context.checkpoint_dir);
  }
  Checkpoints checkpoints_;
};

TEST_F(CheckpointsTest, WhatWasLoadedIsKeptForTheNextJob) {
  const StageContext context = Publish("a", 1);
  ASSERT_OK_AND_ASSIGN(const Checkpoints::Loaded first,
                       checkpoints_.Get(context, kModelFile, at::kFloat));
  Remove(context);  // the file is not looked at again
  ASSERT_OK_AND_ASSIGN(const Checkpoints::Loaded second,
                       checkpoints_.Get(context, kModelFile, at::kFloat));
  EXPECT_EQ(first, second);
}

TEST_F(CheckpointsTest, EveryFileAndTypeIsLoadedByItself) {
  const StageContext context = Publish("a", 1);
  ASSERT_OK_AND_ASSIGN(const Checkpoints::Loaded single,
                       checkpoints_.Get(context, kModelFile, at::kFloat));
  ASSERT_OK_AND_ASSIGN(const Checkpoints::Loaded twice,
                       checkpoints_.Get(context, kModelFile, at::kDouble));
  ASSERT_OK_AND_ASSIGN(const Checkpoints::Loaded initial,
                       checkpoints_.Get(context, kInitialFile, at::kDouble));
  EXPECT_EQ(single->model.parameters()[0].scalar_type(), at::kFloat);
  EXPECT_EQ(twice->model.parameters()[0].scalar_type(), at::kDouble);
  EXPECT_NE(twice, initial);
}

TEST_F(CheckpointsTest, AnotherCheckpointTakesItsPlace) {
  const StageContext a = Publish("a", 1);
  const StageContext b = Publish("b", 2);
  ASSERT_OK(checkpoints_.Get(a, kModelFile, at::kFloat));
  ASSERT_OK(checkpoints_.Get(b, kModelFile, at::kFloat));
  Remove(a);
  EXPECT_THAT(checkpoints_.Get(a, kModelFile, at::kFloat),
              StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
}

TEST_F(CheckpointsTest, SameFolderWithOtherWeightsIsReadAnew) {
  StageContext context = Publish("a", 1);
  ASSERT_OK(checkpoints_.Get(context, kModelFile, at::kFloat));
  context.checkpoint_sha256[0] =
      context.checkpoint_sha256[0] == '0' ? '1' : '0';
  EXPECT_THAT(checkpoints_.Get(context, kModelFile, at::kFloat),
              StatusIs(absl::StatusCode::kUnavailable,
                       ::testing::HasSubstr("is not what was trained")));
}

TEST_F(CheckpointsTest, OneWithoutARecordedSumIsNotKept) {
  StageContext context = Publish("a", 1);
  context.checkpoint_sha256.clear();
  ASSERT_OK(checkpoints_.Get(context, kModelFile, at::kFloat));
  Remove(context);
  EXPECT_FALSE(checkpoints_.Get(context, kModelFile, at::kFloat).ok());
}

}  // namespace
}  // namespace iclsweep
