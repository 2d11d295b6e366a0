#include "coordinator/spec/checks.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/spec/errors.h"
#include "coordinator/spec/grid.h"
#include "coordinator/spec/resolve.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

using Cell = v1::SweepFile;

struct Check {
  std::vector<std::string> reads;  // paths
  std::function<absl::Status(const Cell&, const Places&)> run;
};

absl::Status CheckModel(const Cell& cell, const Places& places) {
  const auto model = ResolveModel(cell);
  if (!model.ok())
    return ParameterError(places, "model.size", model.status().message());
  if (model->width() % model->heads() != 0) {
    return ParameterError(
        places, places.Has("model.heads") ? "model.heads" : "model.width",
        absl::StrCat("model.heads must divide model.width: ", model->width(),
                     " / ", model->heads(), " is not whole"));
  }
  if (model->positions() < cell.train().points()) {
    return ParameterError(
        places, "model.positions",
        absl::StrCat("model.positions ", model->positions(),
                     " is less than train.points ", cell.train().points()));
  }
  return absl::OkStatus();
}

absl::Status CheckEigenvalues(const v1::DataParams& data,
                              const std::string& section,
                              const Places& places) {
  if (data.eigenvalues_size() == 0 || data.eigenvalues_size() == data.dims())
    return absl::OkStatus();
  const std::string path = section + ".eigenvalues";
  return ParameterError(
      places, places.Has(path) ? path : "data.eigenvalues",
      absl::StrCat(section, ".eigenvalues has ", data.eigenvalues_size(),
                   " values, but ", section, ".dims is ", data.dims()));
}

absl::Status CheckGeometry(const Cell& cell, const Places& places) {
  const v1::PromptParams prompt = ResolvePrompt(cell);
  const double angle = prompt.angle_degrees();
  const int tasks = prompt.tasks();
  const int dims = prompt.data().dims();
  if (angle == 90 && tasks > dims) {
    return ParameterError(
        places, "prompt.angle_degrees",
        absl::StrCat("at 90 degrees all tasks are orthogonal, which needs "
                     "prompt.tasks <= dims, but ",
                     tasks, " > ", dims));
  }
  if (angle > 0 && tasks > 1 && dims < 2) {
    return ParameterError(places, "prompt.angle_degrees",
                          "an angle between tasks needs at least 2 dims");
  }
  return absl::OkStatus();
}

absl::Status CheckOrder(const Cell& cell, const Places& places) {
  const v1::PromptParams& prompt = cell.prompt();
  if (prompt.task_order_size() == 0) return absl::OkStatus();
  const std::vector<int32_t> order(prompt.task_order().begin(),
                                   prompt.task_order().end());
  std::vector<int32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = prompt.task_order_size() == prompt.tasks();
  for (int i = 0; permutation && i < prompt.tasks(); ++i)
    permutation = sorted[i] == i;
  if (permutation) return absl::OkStatus();
  return ParameterError(places, "prompt.task_order",
                        absl::StrCat("order ", Quoted(OrderText(order)),
                                     " is not a permutation of the tasks 0 .. ",
                                     prompt.tasks() - 1, " (prompt.tasks is ",
                                     prompt.tasks(), ")"));
}

// `needs` is the arithmetic that gave `points`.
absl::Status CheckLength(const Cell& cell, const Places& places, int64_t points,
                         const std::string& needs) {
  const std::string at = places.Has("prompt.examples_per_task")
                             ? "prompt.examples_per_task"
                             : "prompt.tasks";
  const int64_t trained = cell.train().points();
  if (points > trained && !cell.prompt().allow_extrapolation()) {
    return ParameterError(places, at,
                          absl::StrCat(needs, ", but train.points is ", trained,
                                       " (prompt.allow_extrapolation: true "
                                       "accepts this, results are flagged)"));
  }
  const int64_t positions =
      cell.model().positions() == 0 ? trained : cell.model().positions();
  if (points > positions) {
    return ParameterError(
        places, at,
        absl::StrCat(needs, ", but the model has room for ", positions,
                     " (model.positions; train.points unless set)"));
  }
  return absl::OkStatus();
}

absl::Status CheckEvaluateLength(const Cell& cell, const Places& places) {
  const int64_t tasks = cell.prompt().tasks();
  const int64_t examples = cell.prompt().examples_per_task();
  const int64_t points = tasks * (examples + 1) + 1;
  return CheckLength(cell, places, points,
                     absl::StrCat("evaluate needs T(M+1)+1 = ", tasks, "*",
                                  examples + 1, "+1 = ", points, " points"));
}

absl::Status CheckCompareLength(const Cell& cell, const Places& places) {
  const int64_t tasks = cell.prompt().tasks();
  const int64_t examples = cell.prompt().examples_per_task();
  const int64_t anchors = cell.compare().anchors();
  const int64_t points = tasks * examples + anchors + 1;
  return CheckLength(
      cell, places, points,
      absl::StrCat("compare needs T*M+anchors+1 = ", tasks, "*", examples, "+",
                   anchors, "+1 = ", points, " points"));
}

// Over the whole sweep: an angle that no cell uses.
absl::Status CheckAngleIsUsed(const SweepSpec& spec, const Places& places) {
  const bool written = spec.base.prompt().has_angle_degrees() ||
                       spec.FindAxis("prompt.angle_degrees") != nullptr;
  if (!written) return absl::OkStatus();
  const Axis* geometry = spec.FindAxis("prompt.geometry");
  bool used = geometry == nullptr &&
              spec.base.prompt().geometry() == v1::GEOMETRY_ANGLE;
  for (uint64_t i = 0; geometry != nullptr && i < geometry->size(); ++i) {
    used =
        used || std::get<int64_t>(geometry->ValueAt(i)) == v1::GEOMETRY_ANGLE;
  }
  if (used) return absl::OkStatus();
  return ParameterError(
      places, "prompt.angle_degrees",
      "prompt.angle_degrees has no effect without prompt.geometry: angle");
}

std::vector<Check> ChecksFor(const SweepSpec& spec) {
  std::vector<Check> checks;
  const std::vector<std::string> lengths = {
      "prompt.tasks", "prompt.examples_per_task", "prompt.allow_extrapolation",
      "train.points", "model.positions"};
  if (spec.Has(Stage::kTrain)) {
    checks.push_back({{"model.size", "model.layers", "model.heads",
                       "model.width", "model.positions", "train.points"},
                      CheckModel});
    checks.push_back(
        {{"data.dims"}, [](const Cell& cell, const Places& places) {
           return CheckEigenvalues(cell.data(), "data", places);
         }});
  }
  if (spec.Has(Stage::kEvaluate) || spec.Has(Stage::kCompare) ||
      spec.Has(Stage::kTheory)) {
    checks.push_back({{"data.dims", "prompt.data.dims"},
                      [](const Cell& cell, const Places& places) {
                        return CheckEigenvalues(ResolvePrompt(cell).data(),
                                                "prompt.data", places);
                      }});
    checks.push_back({{"prompt.geometry", "prompt.angle_degrees",
                       "prompt.tasks", "data.dims", "prompt.data.dims"},
                      CheckGeometry});
    // With one value of prompt.tasks, the orders of an axis were checked as
    // they were read.
    const bool axis_is_checked =
        spec.FindAxis("prompt.task_order") != nullptr &&
        spec.FindAxis("prompt.tasks") == nullptr;
    if (!axis_is_checked)
      checks.push_back({{"prompt.task_order", "prompt.tasks"}, CheckOrder});
  }
  if (spec.Has(Stage::kEvaluate))
    checks.push_back({lengths, CheckEvaluateLength});
  if (spec.Has(Stage::kCompare)) {
    checks.push_back({lengths, CheckCompareLength});
    checks.back().reads.emplace_back("compare.anchors");
  }
  return checks;
}

absl::Status RunCheck(const SweepSpec& spec, const Check& check,
                      const Places& places) {
  std::vector<int> axes;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    const bool read = std::find(check.reads.begin(), check.reads.end(),
                                spec.axes[i].path) != check.reads.end();
    if (read) axes.push_back(static_cast<int>(i));
  }
  const Projection projection(spec, std::move(axes));
  std::vector<uint64_t> digits(spec.axes.size(), 0);
  CellSections cell(spec);
  for (uint64_t point = 0; point < projection.size(); ++point) {
    projection.DigitsAt(point, &digits);
    cell.Set(digits);
    RETURN_IF_ERROR(check.run(cell.Sections(), places));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSpec(const SweepSpec& spec, const Places& places) {
  RETURN_IF_ERROR(CheckAngleIsUsed(spec, places));
  for (const Check& check : ChecksFor(spec))
    RETURN_IF_ERROR(RunCheck(spec, check, places));
  return absl::OkStatus();
}

}  // namespace iclsweep
