// The in-context regression transformer of Garg et al. 2022 (arXiv 2208.01066,
// section 2 and appendix A): a GPT-2 (pre-norm, tanh gelu, learned positions)
// between a linear read-in of d numbers and a linear read-out of one. A prompt
// of n points is 2n tokens x_1, y_1, x_2, ...; the output at the token of x_i
// predicts y_i from the points before it. Not a language model: no word table,
// no dropout, no sampling.
//
// Names and layouts are those of Garg's checkpoints on Hugging Face's
// GPT2Model: matrices of the blocks are [in, out] (Conv1D), the read-in and
// read-out [out, in] (Linear). Shapes below: B prompts, n points, S tokens, d =
// dims, E = width, L = layers. Tensors are of the model's type and on its
// device; violated shapes throw c10::Error, which stages turn into a Status
// (worker/model/torch_status.h).
//
// Copies share weights (as at::Tensor does); Clone copies them. Const methods
// are thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace iclsweep {

struct ModelConfig {
  int layers = 0;
  int heads = 0;
  int width = 0;
  int positions = 0;  // points; the position table has 2 * positions rows
  int dims = 0;
  double init_std = 0.02;

  int HeadDim() const { return width / heads; }
};

// InvalidArgument naming the value: everything positive, heads must divide
// width.
absl::Status CheckModelConfig(const ModelConfig& config);

// Attention keys and values of the tokens so far: per layer [B, heads, length,
// head_dim].
struct KeyValueCache {
  std::vector<at::Tensor> keys;
  std::vector<at::Tensor> values;
  int64_t length = 0;
};

// xs [B, n, d], ys [B, n] -> tokens [B, 2n, d]: x_1, (y_1, 0, ..., 0), x_2, ...
at::Tensor Interleave(const at::Tensor& xs, const at::Tensor& ys);

struct ParameterSpec {
  std::string name;
  std::vector<int64_t> shape;
};

// Every parameter in the model's fixed order (that of Garg's state dict).
std::vector<ParameterSpec> ParameterSpecs(const ModelConfig& config);

// Views of one block's parameters.
struct BlockParameters {
  at::Tensor ln_1_weight, ln_1_bias;          // [E]
  at::Tensor c_attn_weight, c_attn_bias;      // [E, 3E], [3E]: q | k | v
  at::Tensor c_proj_weight, c_proj_bias;      // [E, E], [E]
  at::Tensor ln_2_weight, ln_2_bias;          // [E]
  at::Tensor mlp_fc_weight, mlp_fc_bias;      // [E, 4E], [4E]
  at::Tensor mlp_proj_weight, mlp_proj_bias;  // [4E, E], [E]
};

class Gpt2 {
 public:
  // All parameters zero. Errors: InvalidArgument (configuration),
  // ResourceExhausted, Internal (device).
  static absl::StatusOr<Gpt2> Create(const ModelConfig& config,
                                     at::ScalarType type, at::Device device);

  // float32 on the CPU, drawn from Purpose::kInitialWeights (prompt = index of
  // the tensor, coordinate = element). Blocks and position table N(0,
  // init_std), the two residual projections N(0, init_std / sqrt(2 L)), biases
  // 0, LayerNorm 1 and 0; read-in and read-out uniform +-1/sqrt(fan_in)
  // (PyTorch's Linear), as in Garg et al. REQUIRES: CheckModelConfig(config) is
  // OK.
  static Gpt2 Initialize(const ModelConfig& config, uint64_t seed);

  // xs [B, n, d], ys [B, n] -> predictions [B, n]; n <= positions.
  // Differentiable in parameters that require it. The last block runs at the x
  // tokens only, which changes no output: nothing reads the others.
  at::Tensor Forward(const at::Tensor& xs, const at::Tensor& ys) const;

  // Hidden states of a full pass, for comparison with other implementations:
  // element 0 = read-in plus positions, element l = after block l, the last
  // after ln_f; each [B, 2n, E].
  std::vector<at::Tensor> HiddenStates(const at::Tensor& xs,
                                       const at::Tensor& ys) const;

  // tokens [B, S, d] at positions first_position, first_position + 1, ... ->
  // outputs [B, S]. Each token sees the whole cache and the tokens of its
  // segment up to itself; its keys and values are appended. No gradients.
  at::Tensor Extend(const at::Tensor& tokens, int64_t first_position,
                    KeyValueCache* cache) const;

  // tokens [B, Q, d], all at `position` -> outputs [B, Q]. Each sees the cache
  // and itself only; the cache stays. No gradients.
  at::Tensor ExtendQueries(const at::Tensor& tokens, int64_t position,
                           const KeyValueCache& cache) const;

  // NOLINTBEGIN(readability-identifier-naming): plain accessors
  const ModelConfig& config() const { return config_; }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  // NOLINTEND(readability-identifier-naming)
  std::map<std::string, at::Tensor> NamedParameters() const;
  int64_t CountParameters() const;

  // Copies values in, converting type and device. InvalidArgument on a missing
  // or unknown name or another shape; then nothing has changed.
  absl::Status SetParameters(const std::map<std::string, at::Tensor>& values);

  Gpt2 Clone(at::ScalarType type, at::Device device) const;
  void RequireGradients(bool required);

  const at::Tensor& ReadInWeight() const { return parameters_[0]; }  // [E, d]
  const at::Tensor& ReadInBias() const { return parameters_[1]; }    // [E]
  const at::Tensor& PositionTable() const {
    return parameters_[2];
  }  // [2 * positions, E]
  BlockParameters Block(int layer) const;
  // [B, S, d] at rows first .. first + S - 1 of the position table, or all at
  // row `first` -> [B, S, E].
  at::Tensor Embed(const at::Tensor& tokens, int64_t first,
                   bool same_position) const;
  // [..., E] -> [...]: ln_f and the read-out.
  at::Tensor ReadOut(const at::Tensor& hidden) const;

 private:
  Gpt2(const ModelConfig& config, std::vector<at::Tensor> parameters);
  const at::Tensor& FromEnd(size_t k) const {
    return parameters_[parameters_.size() - k];
  }

  ModelConfig config_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> parameters_;
};

// Parts of a block, shared with the passes of worker/compare. x [..., E].
at::Tensor LayerNorm(const at::Tensor& x, const at::Tensor& weight,
                     const at::Tensor& bias);
// x [..., in], weight [in, out] -> [..., out].
at::Tensor Conv1D(const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias);
// x + mlp(ln_2 x).
at::Tensor AddMlp(const at::Tensor& x, const BlockParameters& block);

}  // namespace iclsweep
