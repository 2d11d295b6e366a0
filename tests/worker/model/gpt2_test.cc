#include "worker/model/gpt2.h"

#include <cmath>

#include "ATen/ATen.h"
#include "c10/core/GradMode.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/model/golden.h"
#include "tests/worker/model/scratch.h"
#include "torch/csrc/autograd/autograd.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::MaxDifference;
using ::iclsweep::testing::StatusIs;
using ::testing::HasSubstr;

class Gpt2Test : public testing::Scratch {};

ModelConfig SmallConfig() {
  return {.layers = 3,
          .heads = 2,
          .width = 16,
          .positions = 10,
          .dims = 3,
          .init_std = 0.3};
}

// Prompts from a formula; [B, n, d] and [B, n].
struct Prompts {
  at::Tensor xs, ys;
};
Prompts MakePrompts(int64_t batch, int64_t points, int64_t dims,
                    at::ScalarType type) {
  const at::Tensor xs = at::arange(0, batch * points * dims, at::kDouble)
                            .mul(0.7)
                            .add(0.3)
                            .sin()
                            .mul(1.4)
                            .view({batch, points, dims});
  const at::Tensor ys =
      xs.mul(at::arange(1, dims + 1, at::kDouble).cos()).sum(-1);
  return {xs.to(type), ys.to(type)};
}

TEST_F(Gpt2Test, ParameterCountsAreThoseOfThePaperSizes) {
  struct Size {
    int layers, heads, width;
    int64_t count;
  };
  for (const Size& size :
       {Size{12, 8, 256, 9'534'977}, Size{6, 4, 128, 1'218'561},
        Size{3, 2, 64, 164'417}}) {
    const ModelConfig config{.layers = size.layers,
                             .heads = size.heads,
                             .width = size.width,
                             .positions = 101,
                             .dims = 20};
    ASSERT_OK_AND_ASSIGN(const Gpt2 model,
                         Gpt2::Create(config, at::kFloat, at::kCPU));
    EXPECT_EQ(model.CountParameters(), size.count);
  }
}

TEST_F(Gpt2Test, ImpossibleSizesAreRefused) {
  ModelConfig config = SmallConfig();
  config.heads = 3;
  EXPECT_THAT(Gpt2::Create(config, at::kFloat, at::kCPU),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("3 heads do not divide width 16")));
  config = SmallConfig();
  config.layers = 0;
  EXPECT_THAT(
      Gpt2::Create(config, at::kFloat, at::kCPU),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("layers is 0")));
}

TEST_F(Gpt2Test, InitialWeightsFollowTheHuggingFaceRecipe) {
  const ModelConfig config{.layers = 4,
                           .heads = 4,
                           .width = 64,
                           .positions = 50,
                           .dims = 5,
                           .init_std = 0.07};
  const std::map<std::string, at::Tensor> named =
      Gpt2::Initialize(config, 1).NamedParameters();
  // Sample standard deviations over n elements lie within 5 sigma = 5 / sqrt(2
  // n) of the nominal one, relatively.
  const auto expect_deviation = [&](const std::string& name, double expected) {
    const at::Tensor& tensor = named.at(name);
    const double n = static_cast<double>(tensor.numel());
    EXPECT_NEAR(tensor.std().item<double>() / expected, 1, 5 / std::sqrt(2 * n))
        << name;
    EXPECT_NEAR(tensor.mean().item<double>(), 0, 5 * expected / std::sqrt(n))
        << name;
  };
  expect_deviation("_backbone.wpe.weight", 0.07);
  for (const char* layer : {"0", "3"}) {
    const std::string block = std::string("_backbone.h.") + layer;
    expect_deviation(block + ".attn.c_attn.weight", 0.07);
    expect_deviation(block + ".mlp.c_fc.weight", 0.07);
    expect_deviation(block + ".attn.c_proj.weight", 0.07 / std::sqrt(8.0));
    expect_deviation(block + ".mlp.c_proj.weight", 0.07 / std::sqrt(8.0));
    EXPECT_EQ(named.at(block + ".attn.c_attn.bias").abs().max().item<float>(),
              0);
    EXPECT_TRUE(at::equal(named.at(block + ".ln_1.weight"), at::ones({64})));
    EXPECT_EQ(named.at(block + ".ln_2.bias").abs().max().item<float>(), 0);
  }
  const double in = 1 / std::sqrt(5.0);
  EXPECT_LE(named.at("_read_in.weight").abs().max().item<double>(), in);
  EXPECT_GT(named.at("_read_in.weight").abs().max().item<double>(), 0.95 * in);
  EXPECT_GT(named.at("_read_in.bias").abs().max().item<double>(), 0.8 * in);
  EXPECT_LE(named.at("_read_out.weight").abs().max().item<double>(), 1.0 / 8);
  EXPECT_GT(named.at("_read_out.weight").abs().max().item<double>(), 0.8 / 8);
}

TEST_F(Gpt2Test, InitialWeightsDependOnTheSeedOnly) {
  const Gpt2 a = Gpt2::Initialize(SmallConfig(), 7);
  const Gpt2 b = Gpt2::Initialize(SmallConfig(), 7);
  const Gpt2 c = Gpt2::Initialize(SmallConfig(), 8);
  for (size_t i = 0; i < a.names().size(); ++i)
    EXPECT_TRUE(at::equal(a.parameters()[i], b.parameters()[i]))
        << a.names()[i];
  EXPECT_FALSE(at::equal(a.parameters()[0], c.parameters()[0]));
}

TEST_F(Gpt2Test, InterleavePutsLabelsInCoordinateZero) {
  const at::Tensor xs = at::arange(1, 5, at::kFloat).view({1, 2, 2});
  const at::Tensor ys = at::arange(7, 9, at::kFloat).view({1, 2});
  const at::Tensor expected =
      at::tensor({1.F, 2.F, 7.F, 0.F, 3.F, 4.F, 8.F, 0.F}).view({1, 4, 2});
  EXPECT_TRUE(at::equal(Interleave(xs, ys), expected));
}

TEST_F(Gpt2Test, PredictionsDependOnEarlierPointsOnly) {
  const Gpt2 model =
      Gpt2::Initialize(SmallConfig(), 3).Clone(at::kDouble, at::kCPU);
  const Prompts prompts = MakePrompts(2, 8, 3, at::kDouble);
  const at::Tensor before = model.Forward(prompts.xs, prompts.ys);
  at::Tensor ys = prompts.ys.clone();
  ys.select(1, 4).add_(1);
  at::Tensor xs = prompts.xs.clone();
  xs.select(1, 5).add_(1);

  const at::Tensor after_y = model.Forward(prompts.xs, ys);
  const at::Tensor after_x = model.Forward(xs, prompts.ys);

  EXPECT_TRUE(at::equal(before.narrow(1, 0, 5), after_y.narrow(1, 0, 5)));
  EXPECT_GT((before - after_y).abs().narrow(1, 5, 3).min().item<double>(),
            1e-6);
  EXPECT_TRUE(at::equal(before.narrow(1, 0, 5), after_x.narrow(1, 0, 5)));
  EXPECT_GT((before - after_x).abs().narrow(1, 5, 3).min().item<double>(),
            1e-6);
}

// The model written out with explicit attention, from the formulas of GPT-2;
// nothing shared with the code under test.
at::Tensor ExplicitForward(const std::map<std::string, at::Tensor>& p,
                           const ModelConfig& config, const at::Tensor& xs,
                           const at::Tensor& ys) {
  const int64_t batch = xs.size(0);
  const int64_t tokens = 2 * xs.size(1);
  const int64_t width = config.width;
  const int64_t head = width / config.heads;
  at::Tensor z = at::zeros({batch, tokens, xs.size(2)}, xs.options());
  for (int64_t t = 0; t < tokens; ++t) {
    if (t % 2 == 0) z.select(1, t).copy_(xs.select(1, t / 2));
    if (t % 2 == 1) z.select(1, t).select(1, 0).copy_(ys.select(1, t / 2));
  }
  const auto norm = [&](const at::Tensor& x, const std::string& name) {
    const at::Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-5).sqrt() *
               p.at(name + ".weight") +
           p.at(name + ".bias");
  };
  const auto project = [&](const at::Tensor& x, const std::string& name) {
    return at::matmul(x, p.at(name + ".weight")) + p.at(name + ".bias");
  };
  at::Tensor x = at::matmul(z, p.at("_read_in.weight").t()) +
                 p.at("_read_in.bias") +
                 p.at("_backbone.wpe.weight").narrow(0, 0, tokens);
  const at::Tensor future = at::ones({tokens, tokens}, at::kBool).triu(1);
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::string block = "_backbone.h." + std::to_string(layer);
    const at::Tensor qkv =
        project(norm(x, block + ".ln_1"), block + ".attn.c_attn");
    std::vector<at::Tensor> heads;
    for (int64_t h = 0; h < config.heads; ++h) {
      const at::Tensor q = qkv.narrow(-1, h * head, head);
      const at::Tensor k = qkv.narrow(-1, width + h * head, head);
      const at::Tensor v = qkv.narrow(-1, 2 * width + h * head, head);
      const at::Tensor scores = at::matmul(q, k.transpose(1, 2)) /
                                std::sqrt(static_cast<double>(head));
      heads.push_back(
          at::matmul(scores.masked_fill(future, -INFINITY).softmax(-1), v));
    }
    x = x + project(at::cat(heads, -1), block + ".attn.c_proj");
    const at::Tensor u = project(norm(x, block + ".ln_2"), block + ".mlp.c_fc");
    const at::Tensor gelu =
        0.5 * u *
        (1 + (std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)).tanh());
    x = x + project(gelu, block + ".mlp.c_proj");
  }
  const at::Tensor out =
      at::matmul(norm(x, "_backbone.ln_f"), p.at("_read_out.weight").t()) +
      p.at("_read_out.bias");
  return out.squeeze(-1).slice(1, 0, tokens, 2);
}

void ExpectSameGradients(at::ScalarType type, double tolerance) {
  Gpt2 model = Gpt2::Initialize(SmallConfig(), 5).Clone(type, at::kCPU);
  model.RequireGradients(true);
  const Prompts prompts = MakePrompts(4, 9, 3, type);
  const auto gradients = [&](const at::Tensor& prediction) {
    return torch::autograd::grad({(prediction - prompts.ys).square().mean()},
                                 model.parameters());
  };
  const at::Tensor fused = model.Forward(prompts.xs, prompts.ys);
  const at::Tensor plain = ExplicitForward(
      model.NamedParameters(), model.config(), prompts.xs, prompts.ys);
  EXPECT_LT(MaxDifference(fused, plain), tolerance);
  const std::vector<at::Tensor> a = gradients(fused);
  const std::vector<at::Tensor> b = gradients(plain);
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_LT(MaxDifference(a[i], b[i]), tolerance) << model.names()[i];
}

TEST_F(Gpt2Test, FusedAttentionHasTheGradientsOfExplicitAttention) {
  ExpectSameGradients(at::kDouble, 1e-12);
  ExpectSameGradients(at::kFloat, 1e-5);
}

TEST_F(Gpt2Test, SegmentsOverACacheGiveTheOutputsOfOnePass) {
  const Gpt2 model =
      Gpt2::Initialize(SmallConfig(), 3).Clone(at::kDouble, at::kCPU);
  const Prompts prompts = MakePrompts(2, 9, 3, at::kDouble);
  const at::Tensor tokens = Interleave(prompts.xs, prompts.ys);
  KeyValueCache cache;
  std::vector<at::Tensor> outputs;
  int64_t first = 0;
  for (const int64_t length : {5, 1, 8, 4}) {
    outputs.push_back(
        model.Extend(tokens.narrow(1, first, length), first, &cache));
    first += length;
    EXPECT_EQ(cache.length, first);
    EXPECT_EQ(cache.keys[2].size(2), first);
  }
  EXPECT_LT(MaxDifference(at::cat(outputs, 1).slice(1, 0, 18, 2),
                          model.Forward(prompts.xs, prompts.ys)),
            1e-12);
}

TEST_F(Gpt2Test, QueriesSeeTheCacheAndThemselvesOnly) {
  const Gpt2 model =
      Gpt2::Initialize(SmallConfig(), 3).Clone(at::kDouble, at::kCPU);
  const Prompts prompts = MakePrompts(2, 6, 3, at::kDouble);
  KeyValueCache cache;
  model.Extend(
      Interleave(prompts.xs.narrow(1, 0, 5), prompts.ys.narrow(1, 0, 5)), 0,
      &cache);
  const at::Tensor keys = cache.keys[0].clone();
  const at::Tensor queries =
      at::stack({prompts.xs.select(1, 5), prompts.xs.select(1, 2),
                 -prompts.xs.select(1, 5)},
                1);

  const at::Tensor outputs = model.ExtendQueries(queries, 10, cache);

  for (int64_t q = 0; q < 3; ++q) {
    at::Tensor xs = prompts.xs.clone();
    xs.select(1, 5).copy_(queries.select(1, q));
    EXPECT_LT(MaxDifference(outputs.select(1, q),
                            model.Forward(xs, prompts.ys).select(1, 5)),
              1e-12);
  }
  EXPECT_TRUE(at::equal(cache.keys[0], keys));
  EXPECT_EQ(cache.length, 10);
}

TEST_F(Gpt2Test, QueriesOnAnEmptyCacheAreFirstPoints) {
  const Gpt2 model =
      Gpt2::Initialize(SmallConfig(), 3).Clone(at::kDouble, at::kCPU);
  const Prompts prompts = MakePrompts(2, 3, 3, at::kDouble);
  const at::Tensor outputs =
      model.ExtendQueries(prompts.xs, 0, KeyValueCache{});
  EXPECT_LT(MaxDifference(outputs.select(1, 0),
                          model.Forward(prompts.xs, prompts.ys).select(1, 0)),
            1e-12);
}

TEST_F(Gpt2Test, SettingParametersIsAllOrNothing) {
  ASSERT_OK_AND_ASSIGN(Gpt2 model,
                       Gpt2::Create(SmallConfig(), at::kFloat, at::kCPU));
  std::map<std::string, at::Tensor> values =
      Gpt2::Initialize(SmallConfig(), 1).NamedParameters();
  values["_read_out.bias"] = at::zeros({2});
  EXPECT_THAT(
      model.SetParameters(values),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("_read_out.bias has shape [2], expected [1]")));
  values.erase("_read_out.bias");
  EXPECT_THAT(model.SetParameters(values),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("missing parameter _read_out.bias")));
  values["_read_out.bias"] = at::zeros({1});
  values["extra"] = at::zeros({1});
  EXPECT_THAT(model.SetParameters(values),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("unknown parameter extra")));
  EXPECT_EQ(model.parameters()[0].abs().max().item<float>(), 0);
  values.erase("extra");
  EXPECT_OK(model.SetParameters(values));
  EXPECT_TRUE(at::equal(model.parameters()[0], values.at("_read_in.weight")));
}

}  // namespace
}  // namespace iclsweep
