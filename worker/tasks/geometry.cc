#include "worker/tasks/geometry.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/families.h"
#include "worker/tasks/family.h"

namespace iclsweep {
namespace {

constexpr double kRadiansPerDegree = 3.14159265358979323846 / 180;

double Dot(const double* a, const double* b, int dims) {
  double sum = 0;
  for (int i = 0; i < dims; ++i) sum += a[i] * b[i];
  return sum;
}

void Normalize(double* v, int dims) {
  const double length = std::sqrt(Dot(v, v, dims));
  for (int i = 0; i < dims; ++i) v[i] /= length;
}

// Takes the component along the unit vector `direction` out of v.
void ProjectOut(const double* direction, double* v, int dims) {
  const double along = Dot(direction, v, dims);
  for (int i = 0; i < dims; ++i) v[i] -= along * direction[i];
}

void FillWeights(const TaskSetDraw& draw, Purpose purpose, int task, int dims,
                 double* out) {
  FillNormal({.seed = draw.seed,
              .purpose = purpose,
              .prompt = draw.prompt,
              .task = static_cast<uint32_t>(task)},
             dims, out);
}

// Unit vectors b, o_1, ..., o_{T-1}; o_t orthogonal to b, and to every earlier
// o when `all_orthogonal`.
std::vector<double> DrawDirections(const v1::PromptParams& prompt,
                                   const TaskSetDraw& draw,
                                   bool all_orthogonal) {
  const int dims = prompt.data().dims();
  std::vector<double> directions(static_cast<size_t>(prompt.tasks()) * dims);
  FillWeights(draw, draw.set, 0, dims, directions.data());
  Normalize(directions.data(), dims);
  for (int t = 1; t < prompt.tasks(); ++t) {
    double* offset = &directions[static_cast<size_t>(t) * dims];
    FillWeights(draw, draw.offset, t, dims, offset);
    const int against = all_orthogonal ? t : 1;
    // Normalised before the second pass, which removes what rounding left of
    // the first.
    for (int pass = 0; pass < 2; ++pass) {
      for (int s = 0; s < against; ++s)
        ProjectOut(&directions[static_cast<size_t>(s) * dims], offset, dims);
      Normalize(offset, dims);
    }
  }
  return directions;
}

std::vector<double> DrawAngle(const v1::PromptParams& prompt,
                              const TaskSetDraw& draw) {
  const int dims = prompt.data().dims();
  const double degrees = prompt.angle_degrees();
  const double radius = std::sqrt(static_cast<double>(dims));
  if (dims == 1) {  // one task, or angle 0: every task is the base
    double base = 0;
    FillWeights(draw, draw.set, 0, 1, &base);
    return std::vector<double>(static_cast<size_t>(prompt.tasks()),
                               base < 0 ? -radius : radius);
  }
  std::vector<double> tasks =
      DrawDirections(prompt, draw, /*all_orthogonal=*/degrees == 90);
  const CosSin angle = CosSinDegrees(degrees);
  for (int i = 0; i < dims; ++i) {
    const double base = tasks[i];
    tasks[i] = radius * base;
    for (int t = 1; t < prompt.tasks(); ++t) {
      double& w = tasks[static_cast<size_t>(t) * dims + i];
      w = radius * (angle.cos * base + angle.sin * w);
    }
  }
  return tasks;
}

absl::Status CheckGeometry(const v1::PromptParams& prompt) {
  RETURN_IF_ERROR(CheckFamily(prompt.data(), "prompt.data"));
  const int dims = prompt.data().dims();
  if (prompt.tasks() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt.tasks = ", prompt.tasks(), " must be at least 1"));
  }
  if (prompt.geometry() != v1::GEOMETRY_ANGLE) return absl::OkStatus();
  const v1::Family family = prompt.data().family();
  if (!HasDenseWeights(family)) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt.geometry = angle needs tasks with dense weights, "
                     "which prompt.data.family = ",
                     v1::Family_Name(family), " has not"));
  }
  const double degrees = prompt.angle_degrees();
  if (!(degrees >= 0 && degrees <= 90)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt.angle_degrees = ", degrees, " is outside 0 .. 90"));
  }
  if (dims == 1 && degrees > 0 && prompt.tasks() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt.angle_degrees = ", degrees, " needs prompt.data.dims >= 2"));
  }
  if (degrees == 90 && prompt.tasks() > dims) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt.tasks = ", prompt.tasks(),
        " orthogonal tasks do not fit into prompt.data.dims = ", dims));
  }
  return absl::OkStatus();
}

// Taylor series on [0, pi/4]; the first term left out is below 1e-19.
CosSin CosSinSmall(double x) {
  const double z = x * x;
  double cos_sum = 0;
  double sin_sum = 0;
  for (int k = 9; k >= 1; --k) {
    cos_sum = -z / ((2.0 * k - 1) * (2.0 * k)) * (1 + cos_sum);
    sin_sum = -z / ((2.0 * k) * (2.0 * k + 1)) * (1 + sin_sum);
  }
  return {1 + cos_sum, x + x * sin_sum};
}

}  // namespace

CosSin CosSinDegrees(double degrees) {
  if (degrees <= 45) return CosSinSmall(degrees * kRadiansPerDegree);
  const CosSin complement = CosSinSmall((90 - degrees) * kRadiansPerDegree);
  return {complement.sin, complement.cos};
}

absl::StatusOr<std::vector<double>> DrawTaskSet(const v1::PromptParams& prompt,
                                                const TaskSetDraw& draw) {
  RETURN_IF_ERROR(CheckGeometry(prompt));
  if (prompt.geometry() == v1::GEOMETRY_ANGLE) return DrawAngle(prompt, draw);
  const TaskFamily family(prompt.data());
  const auto size = static_cast<size_t>(family.Size());
  std::vector<double> tasks(static_cast<size_t>(prompt.tasks()) * size);
  for (int t = 0; t < prompt.tasks(); ++t) {
    const int source = prompt.geometry() == v1::GEOMETRY_CLUSTERED ? t % 2 : t;
    family.Draw({.seed = draw.seed,
                 .purpose = draw.set,
                 .prompt = draw.prompt,
                 .task = static_cast<uint32_t>(source)},
                prompt.data().dims(), &tasks[static_cast<size_t>(t) * size]);
  }
  return tasks;
}

absl::StatusOr<std::vector<double>> TaskCorrelations(
    const v1::PromptParams& prompt) {
  RETURN_IF_ERROR(CheckGeometry(prompt));
  const int tasks = prompt.tasks();
  const double cosine = CosSinDegrees(prompt.geometry() == v1::GEOMETRY_ANGLE
                                          ? prompt.angle_degrees()
                                          : 0)
                            .cos;
  std::vector<double> correlations(static_cast<size_t>(tasks) * tasks);
  for (int i = 0; i < tasks; ++i) {
    for (int j = 0; j < tasks; ++j) {
      double& k = correlations[static_cast<size_t>(i) * tasks + j];
      if (i == j) {
        k = 1;
      } else if (prompt.geometry() == v1::GEOMETRY_ANGLE) {
        // The offsets have mean 0 given the base, so only base terms survive;
        // one of the pair may be the base itself.
        k = i == 0 || j == 0 ? cosine : cosine * cosine;
      } else if (prompt.geometry() == v1::GEOMETRY_CLUSTERED) {
        k = i % 2 == j % 2 ? 1 : 0;
      }
    }
  }
  return correlations;
}

}  // namespace iclsweep
