#include "worker/compare/draws.h"

#include <cmath>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "proto/base/status_macros.h"
#include "proto/base/streams.h"
#include "worker/tasks/family.h"
#include "worker/tasks/geometry.h"
#include "worker/tasks/order.h"
#include "worker/tasks/prompt.h"

namespace iclsweep {
namespace {

// Numbers of examples that are no demonstrations: out of reach of the largest
// examples_per_task, so that nothing moves when that grows.
constexpr uint32_t kFirstAnchor = 1U << 30;
constexpr uint32_t kFirstQuery = 1U << 31;

struct Streams {
  Purpose set, offset, input, noise;
};

Streams StreamsOf(ReplicateStream stream) {
  if (stream == ReplicateStream::kTune) {
    return {Purpose::kTuneTaskSet, Purpose::kTuneTaskOffset,
            Purpose::kTuneInput, Purpose::kTuneNoise};
  }
  return {Purpose::kCompareTaskSet, Purpose::kCompareTaskOffset,
          Purpose::kCompareInput, Purpose::kCompareNoise};
}

// Draws points of one replicate.
class PointDrawer {
 public:
  PointDrawer(const v1::CompareInputs& inputs, std::vector<double> scale,
              int64_t replicate)
      : scale_(std::move(scale)),
        family_(inputs.prompt().data()),
        address_{.seed = static_cast<uint64_t>(inputs.compare().seed()),
                 .prompt = static_cast<uint64_t>(replicate)} {}

  void FillInput(Purpose purpose, int task, uint32_t example, double* x) {
    Address(purpose, task, example);
    FillNormal(address_, static_cast<int64_t>(scale_.size()), x);
    for (size_t i = 0; i < scale_.size(); ++i) x[i] *= scale_[i];
  }

  double Label(Purpose noise, int task, uint32_t example,
               const std::vector<double>& tasks, const double* x) {
    Address(noise, task, example);
    return family_.Label(tasks.data() + task * family_.Size(), x, address_);
  }

 private:
  void Address(Purpose purpose, int task, uint32_t example) {
    address_.purpose = purpose;
    address_.task = static_cast<uint32_t>(task);
    address_.example = example;
  }

  std::vector<double> scale_;
  TaskFamily family_;
  DrawAddress address_;
};

// One replicate's rows of a pair of tensors.
struct Rows {
  double* xs;
  double* ys;
};

Rows RowsOf(const at::Tensor& xs, const at::Tensor& ys, int64_t row) {
  return {xs.mutable_data_ptr<double>() + row * xs.stride(0),
          ys.mutable_data_ptr<double>() + row * ys.stride(0)};
}

}  // namespace

absl::StatusOr<Replicates> DrawReplicates(const v1::CompareInputs& inputs,
                                          ReplicateStream stream, int64_t first,
                                          int64_t count) {
  const v1::PromptParams& prompt = inputs.prompt();
  RETURN_IF_ERROR(CheckPrompt(prompt));
  ASSIGN_OR_RETURN(const std::vector<int> order, TaskOrder(prompt));
  ASSIGN_OR_RETURN(std::vector<double> scale, Eigenvalues(prompt.data()));
  for (double& value : scale) value = std::sqrt(value);
  const Streams streams = StreamsOf(stream);
  const int64_t dims = prompt.data().dims();
  const int64_t demos = int64_t{prompt.tasks()} * prompt.examples_per_task();
  const auto zeros = [&](const std::vector<int64_t>& shape) {
    return at::zeros(shape, at::TensorOptions().dtype(at::kDouble));
  };
  const int64_t anchors = inputs.compare().anchors();
  const int64_t queries = inputs.compare().queries();
  Replicates out{zeros({count, demos, dims}), zeros({count, demos}),
                 zeros({count, demos}),       zeros({count, anchors, dims}),
                 zeros({count, anchors}),     zeros({count, queries, dims}),
                 zeros({count, queries})};
  TaskSetDraw own{.seed = static_cast<uint64_t>(inputs.compare().seed()),
                  .set = streams.set,
                  .offset = streams.offset};
  TaskSetDraw other = own;
  other.set = Purpose::kWrongTaskSet;
  other.offset = Purpose::kWrongTaskOffset;
  for (int64_t row = 0; row < count; ++row) {
    own.prompt = other.prompt = static_cast<uint64_t>(first + row);
    ASSIGN_OR_RETURN(const std::vector<double> tasks, DrawTaskSet(prompt, own));
    ASSIGN_OR_RETURN(const std::vector<double> wrong,
                     DrawTaskSet(prompt, other));
    PointDrawer drawer(inputs, scale, first + row);
    Rows demo = RowsOf(out.demo_xs, out.demo_ys, row);
    Rows wrong_rows = RowsOf(out.demo_xs, out.wrong_ys, row);
    for (const int task : order) {
      for (int m = 0; m < prompt.examples_per_task(); ++m, demo.xs += dims) {
        const auto example = static_cast<uint32_t>(m);
        drawer.FillInput(streams.input, task, example, demo.xs);
        *demo.ys++ = drawer.Label(streams.noise, task, example, tasks, demo.xs);
        *wrong_rows.ys++ =
            drawer.Label(Purpose::kWrongNoise, task, example, wrong, demo.xs);
      }
    }
    const auto fill = [&](Rows rows, uint32_t example, int64_t points) {
      for (int64_t i = 0; i < points; ++i, ++example, rows.xs += dims) {
        drawer.FillInput(streams.input, order.back(), example, rows.xs);
        *rows.ys++ =
            drawer.Label(streams.noise, order.back(), example, tasks, rows.xs);
      }
    };
    fill(RowsOf(out.anchor_xs, out.anchor_ys, row), kFirstAnchor, anchors);
    fill(RowsOf(out.query_xs, out.query_ys, row), kFirstQuery, queries);
  }
  return out;
}

}  // namespace iclsweep
