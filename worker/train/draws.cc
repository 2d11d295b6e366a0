#include "worker/train/draws.h"

#include <cmath>
#include <vector>

#include "ATen/ATen.h"
#include "worker/tasks/family.h"

namespace iclsweep {
namespace {

// The square roots of the eigenvalues.
std::vector<double> Scales(const v1::DataParams& data) {
  std::vector<double> scales(static_cast<size_t>(data.dims()), 1.0);
  for (int j = 0; j < data.eigenvalues_size(); ++j)
    scales[static_cast<size_t>(j)] = std::sqrt(data.eigenvalues(j));
  return scales;
}

}  // namespace

Batch DrawTrainingPrompts(const v1::DataParams& data,
                          const PromptStream& stream, uint64_t first,
                          int64_t count, const Extent& extent) {
  const int64_t dims = data.dims();
  const std::vector<double> scales = Scales(data);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  Batch batch{at::zeros({count, extent.points, dims}, options),
              at::zeros({count, extent.points}, options)};
  double* x = batch.xs.mutable_data_ptr<double>();
  double* y = batch.ys.mutable_data_ptr<double>();
  const TaskFamily family(data);
  std::vector<double> task(static_cast<size_t>(family.Size()));
  for (int64_t row = 0; row < count; ++row) {
    DrawAddress address{.seed = stream.seed,
                        .purpose = stream.task,
                        .prompt = first + static_cast<uint64_t>(row)};
    family.Draw(address, extent.dims, task.data());
    for (int64_t i = 0; i < extent.points; ++i, x += dims, ++y) {
      address.example = static_cast<uint32_t>(i);
      address.purpose = stream.input;
      FillNormal(address, extent.dims, x);
      for (int64_t j = 0; j < extent.dims; ++j)
        x[j] *= scales[static_cast<size_t>(j)];
      address.purpose = stream.noise;
      *y = family.Label(task.data(), x, address);
    }
  }
  return batch;
}

}  // namespace iclsweep
