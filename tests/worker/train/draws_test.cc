#include "worker/train/draws.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ATen/ATen.h"
#include "tests/worker/tasks/prompts.h"

namespace iclsweep {
namespace {

v1::DataParams Data(int dims, double noise = 0) {
  v1::DataParams data;
  data.set_dims(dims);
  data.set_noise_std(noise);
  return data;
}

TEST(TrainingPromptsTest, DoNotDependOnHowTheyAreBatched) {
  for (const v1::Family family : testing::kAllFamilies) {
    v1::DataParams data = Data(4, 0.5);
    data.set_family(family);
    const Batch whole = DrawTrainingPrompts(data, {9}, 100, 8, {3, 5});
    const Batch first = DrawTrainingPrompts(data, {9}, 100, 3, {3, 5});
    const Batch rest = DrawTrainingPrompts(data, {9}, 103, 5, {3, 5});
    EXPECT_TRUE(at::equal(whole.xs, at::cat({first.xs, rest.xs}))) << family;
    EXPECT_TRUE(at::equal(whole.ys, at::cat({first.ys, rest.ys}))) << family;
  }
}

// At 2 of 6 live dims, both kept weights belong to live inputs: E[y^2] = 2.
TEST(TrainingPromptsTest, TheCurriculumKeepsSparseWeightsAmongLiveInputs) {
  v1::DataParams data = Data(6);
  data.set_family(v1::FAMILY_SPARSE_LINEAR);
  data.set_sparsity(2);
  const at::Tensor squares =
      DrawTrainingPrompts(data, {5}, 0, 20000, {2, 1}).ys.square();
  EXPECT_NEAR(squares.mean().item<double>(), 2,
              4 * squares.std().item<double>() / std::sqrt(20000.0));
}

TEST(TrainingPromptsTest, LongerPromptsBeginWithTheShorterOnes) {
  const Batch shorter = DrawTrainingPrompts(Data(3, 0.5), {9}, 0, 4, {3, 5});
  const Batch longer = DrawTrainingPrompts(Data(3, 0.5), {9}, 0, 4, {3, 9});
  EXPECT_TRUE(at::equal(shorter.ys, longer.ys.narrow(1, 0, 5)));
}

TEST(TrainingPromptsTest, SeedsAndStreamsAreIndependent) {
  const Batch a = DrawTrainingPrompts(Data(3), {1}, 0, 500, {3, 5});
  const Batch b = DrawTrainingPrompts(Data(3), {2}, 0, 500, {3, 5});
  const Batch c =
      DrawTrainingPrompts(Data(3),
                          {1, Purpose::kValidationInput,
                           Purpose::kValidationTask, Purpose::kValidationNoise},
                          0, 500, {3, 5});
  const double limit = 4 / std::sqrt(500 * 5 * 3);
  EXPECT_NEAR((a.xs * b.xs).mean().item<double>(), 0, limit);
  EXPECT_NEAR((a.xs * c.xs).mean().item<double>(), 0, limit);
}

TEST(TrainingPromptsTest, CurriculumZeroesCoordinatesButKeepsTheOthers) {
  const Batch all = DrawTrainingPrompts(Data(4), {1}, 0, 6, {4, 5});
  const Batch live = DrawTrainingPrompts(Data(4), {1}, 0, 6, {2, 5});
  EXPECT_TRUE(at::equal(live.xs.narrow(2, 0, 2), all.xs.narrow(2, 0, 2)));
  EXPECT_EQ(live.xs.narrow(2, 2, 2).abs().max().item<double>(), 0);
}

TEST(TrainingPromptsTest, InputsHaveTheAskedCovariance) {
  v1::DataParams data = Data(2);
  data.add_eigenvalues(4);
  data.add_eigenvalues(0.25);
  const at::Tensor xs =
      DrawTrainingPrompts(data, {5}, 0, 4000, {2, 5}).xs.view({-1, 2});
  const double tolerance =
      4 * std::sqrt(2.0 / 20000);  // relative, of a variance over 20000 draws
  EXPECT_NEAR(xs.select(1, 0).square().mean().item<double>() / 4, 1, tolerance);
  EXPECT_NEAR(xs.select(1, 1).square().mean().item<double>() / 0.25, 1,
              tolerance);
  EXPECT_NEAR((xs.select(1, 0) * xs.select(1, 1)).mean().item<double>(), 0,
              4 / std::sqrt(20000.0));
}

TEST(TrainingPromptsTest, NoiseIsAddedToTheNoiselessLabels) {
  const Batch clean = DrawTrainingPrompts(Data(3), {5}, 0, 4000, {3, 5});
  const Batch noisy = DrawTrainingPrompts(Data(3, 0.5), {5}, 0, 4000, {3, 5});
  EXPECT_TRUE(at::equal(clean.xs, noisy.xs));
  const at::Tensor noise = noisy.ys - clean.ys;
  EXPECT_NEAR(noise.square().mean().item<double>() / 0.25, 1,
              4 * std::sqrt(2.0 / 20000));
  EXPECT_NEAR((noise * clean.ys).mean().item<double>(), 0,
              4 * 0.5 * std::sqrt(3.0 / 20000));
}

TEST(TrainingPromptsTest, LabelsAreLinearInOneTaskPerPrompt) {
  const Batch batch = DrawTrainingPrompts(Data(3), {5}, 0, 20, {3, 7});
  const at::Tensor w = std::get<0>(
      at::linalg_lstsq(batch.xs.narrow(1, 0, 4),
                       batch.ys.narrow(1, 0, 4).unsqueeze(-1), {}, "gelsy"));
  EXPECT_LT((at::matmul(batch.xs, w).squeeze(-1) - batch.ys)
                .abs()
                .max()
                .item<double>(),
            1e-9);
}

}  // namespace
}  // namespace iclsweep
