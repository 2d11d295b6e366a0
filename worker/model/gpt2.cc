#include "worker/model/gpt2.h"

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <set>
#include <utility>

#include "ATen/ATen.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "c10/core/GradMode.h"
#include "proto/base/status_macros.h"
#include "proto/base/streams.h"
#include "worker/model/torch_status.h"

namespace iclsweep {
namespace {

constexpr size_t kBeforeBlocks = 3;
constexpr size_t kPerBlock = 12;
constexpr double kLayerNormEpsilon = 1e-5;

// [B, heads, S, head_dim] -> [B, S, E].
at::Tensor MergeHeads(const at::Tensor& x) {
  return x.transpose(1, 2).reshape(
      {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

// The reverse.
at::Tensor SplitHeads(const at::Tensor& x, const ModelConfig& config) {
  return x.unflatten(-1, {config.heads, config.HeadDim()}).transpose(1, 2);
}

struct Heads {
  at::Tensor q, k, v;  // [B, heads, S, head_dim]
};

Heads Project(const at::Tensor& normed, const BlockParameters& block,
              const ModelConfig& config) {
  const std::vector<at::Tensor> parts =
      Conv1D(normed, block.c_attn_weight, block.c_attn_bias)
          .split(config.width, -1);
  return {SplitHeads(parts[0], config), SplitHeads(parts[1], config),
          SplitHeads(parts[2], config)};
}

at::Tensor AddAttention(const at::Tensor& x, const at::Tensor& attended,
                        const BlockParameters& block) {
  return x +
         Conv1D(MergeHeads(attended), block.c_proj_weight, block.c_proj_bias);
}

at::Tensor FullBlock(const at::Tensor& x, const BlockParameters& block,
                     const ModelConfig& config) {
  const Heads heads =
      Project(LayerNorm(x, block.ln_1_weight, block.ln_1_bias), block, config);
  const at::Tensor attended = at::scaled_dot_product_attention(
      heads.q, heads.k, heads.v, {}, /*dropout_p=*/0.0, /*is_causal=*/true);
  return AddMlp(AddAttention(x, attended, block), block);
}

// The block at the even tokens only; keys and values still come from all of
// them. [B, 2n, E] -> [B, n, E].
at::Tensor EvenBlock(const at::Tensor& x, const BlockParameters& block,
                     const ModelConfig& config) {
  const int64_t width = config.width;
  const at::Tensor normed = LayerNorm(x, block.ln_1_weight, block.ln_1_bias);
  const auto even = [](const at::Tensor& t) {
    return t.slice(1, 0, t.size(1), 2);
  };
  const at::Tensor q =
      Conv1D(even(normed).contiguous(), block.c_attn_weight.narrow(1, 0, width),
             block.c_attn_bias.narrow(0, 0, width));
  const std::vector<at::Tensor> kv =
      Conv1D(normed, block.c_attn_weight.narrow(1, width, 2 * width),
             block.c_attn_bias.narrow(0, width, 2 * width))
          .split(width, -1);
  const at::TensorOptions index =
      at::TensorOptions().dtype(at::kLong).device(x.device());
  const at::Tensor mask = at::arange(0, x.size(1), index).unsqueeze(0) <=
                          at::arange(0, x.size(1), 2, index).unsqueeze(1);
  const at::Tensor attended = at::scaled_dot_product_attention(
      SplitHeads(q, config), SplitHeads(kv[0], config),
      SplitHeads(kv[1], config), mask);
  return AddMlp(AddAttention(even(x), attended, block), block);
}

// Standard deviation of the initial values; 0 = zeros.
double InitialDeviation(const std::string& name, const ModelConfig& config) {
  if (absl::EndsWith(name, "c_proj.weight"))
    return config.init_std / std::sqrt(2.0 * config.layers);
  if (absl::EndsWith(name, "c_attn.weight") ||
      absl::EndsWith(name, "c_fc.weight") ||
      absl::EndsWith(name, "wpe.weight")) {
    return config.init_std;
  }
  return 0;
}

void DrawInitial(const ParameterSpec& spec, const ModelConfig& config,
                 DrawAddress address, const at::Tensor& out) {
  if (absl::StrContains(spec.name, "ln_")) {
    out.fill_(absl::EndsWith(spec.name, "weight") ? 1.0 : 0.0);
    return;
  }
  std::vector<double> draws(static_cast<size_t>(out.numel()));
  if (absl::StartsWith(spec.name, "_read_")) {
    const double bound =
        1.0 / std::sqrt(absl::StrContains(spec.name, "_in.") ? config.dims
                                                             : config.width);
    for (double& draw : draws) {
      draw = (2 * Uniform(address) - 1) * bound;
      ++address.coordinate;
    }
  } else if (const double deviation = InitialDeviation(spec.name, config);
             deviation != 0) {
    FillNormal(address, out.numel(), draws.data());
    for (double& draw : draws) draw *= deviation;
  }
  float* values = out.mutable_data_ptr<float>();
  for (size_t i = 0; i < draws.size(); ++i)
    values[i] = static_cast<float>(draws[i]);
}

}  // namespace

at::Tensor LayerNorm(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias) {
  return at::layer_norm(x, {x.size(-1)}, weight, bias, kLayerNormEpsilon);
}

at::Tensor Conv1D(const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(1);
  return at::addmm(bias, x.reshape({-1, weight.size(0)}), weight).view(shape);
}

at::Tensor AddMlp(const at::Tensor& x, const BlockParameters& block) {
  const at::Tensor inner =
      Conv1D(LayerNorm(x, block.ln_2_weight, block.ln_2_bias),
             block.mlp_fc_weight, block.mlp_fc_bias);
  return x + Conv1D(at::gelu(inner, "tanh"), block.mlp_proj_weight,
                    block.mlp_proj_bias);
}

absl::Status CheckModelConfig(const ModelConfig& config) {
  const std::pair<const char*, int> values[] = {{"layers", config.layers},
                                                {"heads", config.heads},
                                                {"width", config.width},
                                                {"positions", config.positions},
                                                {"dims", config.dims}};
  for (const auto& [name, value] : values) {
    if (value < 1)
      return absl::InvalidArgumentError(
          absl::StrCat("model: ", name, " is ", value, ", must be at least 1"));
  }
  if (config.width % config.heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model: ", config.heads, " heads do not divide width ", config.width));
  }
  if (!(config.init_std > 0))
    return absl::InvalidArgumentError(
        absl::StrCat("model: init_std is ", config.init_std));
  return absl::OkStatus();
}

at::Tensor Interleave(const at::Tensor& xs, const at::Tensor& ys) {
  const int64_t batch = xs.size(0);
  const int64_t points = xs.size(1);
  const int64_t dims = xs.size(2);
  const at::Tensor wide = at::constant_pad_nd(ys.unsqueeze(-1), {0, dims - 1});
  return at::stack({xs, wide}, 2).view({batch, 2 * points, dims});
}

std::vector<ParameterSpec> ParameterSpecs(const ModelConfig& config) {
  const int64_t width = config.width;
  std::vector<ParameterSpec> specs = {
      {"_read_in.weight", {width, config.dims}},
      {"_read_in.bias", {width}},
      {"_backbone.wpe.weight", {2 * int64_t{config.positions}, width}}};
  for (int layer = 0; layer < config.layers; ++layer) {
    const auto add = [&](absl::string_view name, std::vector<int64_t> weight,
                         int64_t bias) {
      specs.push_back(
          {absl::StrCat("_backbone.h.", layer, ".", name, ".weight"),
           std::move(weight)});
      specs.push_back(
          {absl::StrCat("_backbone.h.", layer, ".", name, ".bias"), {bias}});
    };
    add("ln_1", {width}, width);
    add("attn.c_attn", {width, 3 * width}, 3 * width);
    add("attn.c_proj", {width, width}, width);
    add("ln_2", {width}, width);
    add("mlp.c_fc", {width, 4 * width}, 4 * width);
    add("mlp.c_proj", {4 * width, width}, width);
  }
  specs.push_back({"_backbone.ln_f.weight", {width}});
  specs.push_back({"_backbone.ln_f.bias", {width}});
  specs.push_back({"_read_out.weight", {1, width}});
  specs.push_back({"_read_out.bias", {1}});
  return specs;
}

Gpt2::Gpt2(const ModelConfig& config, std::vector<at::Tensor> parameters)
    : config_(config), parameters_(std::move(parameters)) {
  for (ParameterSpec& spec : ParameterSpecs(config))
    names_.push_back(std::move(spec.name));
}

absl::StatusOr<Gpt2> Gpt2::Create(const ModelConfig& config,
                                  at::ScalarType type, at::Device device) {
  RETURN_IF_ERROR(CheckModelConfig(config));
  return CatchTorch("model", [&]() -> absl::StatusOr<Gpt2> {
    std::vector<at::Tensor> parameters;
    for (const ParameterSpec& spec : ParameterSpecs(config)) {
      parameters.push_back(at::zeros(
          spec.shape, at::TensorOptions().dtype(type).device(device)));
    }
    return Gpt2(config, std::move(parameters));
  });
}

Gpt2 Gpt2::Initialize(const ModelConfig& config, uint64_t seed) {
  if (const absl::Status status = CheckModelConfig(config); !status.ok()) {
    std::cerr << "Gpt2::Initialize: " << status << "\n";
    std::abort();
  }
  std::vector<at::Tensor> parameters;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    const DrawAddress address{.seed = seed,
                              .purpose = Purpose::kInitialWeights,
                              .prompt = parameters.size()};
    parameters.push_back(
        at::zeros(spec.shape, at::TensorOptions().dtype(at::kFloat)));
    DrawInitial(spec, config, address, parameters.back());
  }
  return {config, std::move(parameters)};
}

BlockParameters Gpt2::Block(int layer) const {
  const auto* p =
      &parameters_[kBeforeBlocks + kPerBlock * static_cast<size_t>(layer)];
  return {p[0], p[1], p[2], p[3], p[4],  p[5],
          p[6], p[7], p[8], p[9], p[10], p[11]};
}

at::Tensor Gpt2::Embed(const at::Tensor& tokens, int64_t first,
                       bool same_position) const {
  const at::Tensor rows =
      PositionTable().narrow(0, first, same_position ? 1 : tokens.size(1));
  return at::linear(tokens, ReadInWeight(), ReadInBias()) + rows;
}

at::Tensor Gpt2::ReadOut(const at::Tensor& hidden) const {
  return at::linear(LayerNorm(hidden, FromEnd(4), FromEnd(3)), FromEnd(2),
                    FromEnd(1))
      .squeeze(-1);
}

at::Tensor Gpt2::Forward(const at::Tensor& xs, const at::Tensor& ys) const {
  at::Tensor x = Embed(Interleave(xs, ys), 0, false);
  for (int layer = 0; layer + 1 < config_.layers; ++layer)
    x = FullBlock(x, Block(layer), config_);
  return ReadOut(EvenBlock(x, Block(config_.layers - 1), config_));
}

std::vector<at::Tensor> Gpt2::HiddenStates(const at::Tensor& xs,
                                           const at::Tensor& ys) const {
  std::vector<at::Tensor> states = {Embed(Interleave(xs, ys), 0, false)};
  for (int layer = 0; layer < config_.layers; ++layer)
    states.push_back(FullBlock(states.back(), Block(layer), config_));
  states.back() = LayerNorm(states.back(), FromEnd(4), FromEnd(3));
  return states;
}

at::Tensor Gpt2::Extend(const at::Tensor& tokens, int64_t first_position,
                        KeyValueCache* cache) const {
  const c10::NoGradGuard no_gradients;
  const int64_t before = cache->length;
  const int64_t length = tokens.size(1);
  const bool empty = cache->keys.empty();
  const auto options =
      at::TensorOptions().dtype(at::kBool).device(tokens.device());
  const at::Tensor mask =
      at::ones({length, before + length}, options).tril(before);
  at::Tensor x = Embed(tokens, first_position, false);
  for (int layer = 0; layer < config_.layers; ++layer) {
    const BlockParameters parameters = Block(layer);
    const auto index = static_cast<size_t>(layer);
    const Heads heads =
        Project(LayerNorm(x, parameters.ln_1_weight, parameters.ln_1_bias),
                parameters, config_);
    if (empty) {
      cache->keys.push_back(heads.k.contiguous());
      cache->values.push_back(heads.v.contiguous());
    } else {
      cache->keys[index] = at::cat({cache->keys[index], heads.k}, 2);
      cache->values[index] = at::cat({cache->values[index], heads.v}, 2);
    }
    const at::Tensor attended = at::scaled_dot_product_attention(
        heads.q, cache->keys[index], cache->values[index], mask);
    x = AddMlp(AddAttention(x, attended, parameters), parameters);
  }
  cache->length = before + length;
  return ReadOut(x);
}

at::Tensor Gpt2::ExtendQueries(const at::Tensor& tokens, int64_t position,
                               const KeyValueCache& cache) const {
  const c10::NoGradGuard no_gradients;
  const int64_t prefix = cache.length;
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.HeadDim()));
  at::Tensor x = Embed(tokens, position, true);
  for (int layer = 0; layer < config_.layers; ++layer) {
    const BlockParameters parameters = Block(layer);
    const auto index = static_cast<size_t>(layer);
    const Heads heads =
        Project(LayerNorm(x, parameters.ln_1_weight, parameters.ln_1_bias),
                parameters, config_);
    const at::Tensor own = (heads.q * heads.k).sum(-1, /*keepdim=*/true);
    at::Tensor attended = heads.v;
    if (prefix > 0) {
      const at::Tensor logits =
          at::cat({at::matmul(heads.q, cache.keys[index].transpose(2, 3)), own},
                  -1) *
          scale;
      const at::Tensor weights = at::softmax(logits, -1);
      attended =
          at::matmul(weights.narrow(-1, 0, prefix), cache.values[index]) +
          weights.narrow(-1, prefix, 1) * heads.v;
    }
    x = AddMlp(AddAttention(x, attended, parameters), parameters);
  }
  return ReadOut(x);
}

std::map<std::string, at::Tensor> Gpt2::NamedParameters() const {
  std::map<std::string, at::Tensor> named;
  for (size_t i = 0; i < names_.size(); ++i) named[names_[i]] = parameters_[i];
  return named;
}

int64_t Gpt2::CountParameters() const {
  int64_t count = 0;
  for (const at::Tensor& parameter : parameters_) count += parameter.numel();
  return count;
}

absl::Status Gpt2::SetParameters(
    const std::map<std::string, at::Tensor>& values) {
  const std::set<std::string> known(names_.begin(), names_.end());
  for (const auto& [name, value] : values) {
    if (known.count(name) == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("unknown parameter ", name));
  }
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto found = values.find(names_[i]);
    if (found == values.end())
      return absl::InvalidArgumentError(
          absl::StrCat("missing parameter ", names_[i]));
    if (found->second.sizes() != parameters_[i].sizes()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter ", names_[i], " has shape [",
          absl::StrJoin(found->second.sizes(), ", "), "], expected [",
          absl::StrJoin(parameters_[i].sizes(), ", "), "]"));
    }
  }
  return CatchTorch("parameters", [&]() -> absl::Status {
    const c10::NoGradGuard no_gradients;
    for (size_t i = 0; i < names_.size(); ++i)
      parameters_[i].copy_(values.at(names_[i]));
    return absl::OkStatus();
  });
}

Gpt2 Gpt2::Clone(at::ScalarType type, at::Device device) const {
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : parameters_) {
    parameters.push_back(parameter.detach().to(
        device, type, /*non_blocking=*/false, /*copy=*/true));
  }
  return {config_, std::move(parameters)};
}

void Gpt2::RequireGradients(bool required) {
  for (at::Tensor& parameter : parameters_)
    parameter.set_requires_grad(required);
}

}  // namespace iclsweep
