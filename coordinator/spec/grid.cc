#include "coordinator/spec/grid.h"

#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace iclsweep {

bool Follows(const SweepSpec& spec, size_t axis) {
  const int zip = spec.axes[axis].zip;
  return zip >= 0 && axis > 0 && spec.axes[axis - 1].zip == zip;
}

std::optional<uint64_t> CheckedPointCount(const SweepSpec& spec) {
  uint64_t count = 1;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    if (Follows(spec, i)) continue;
    const uint64_t size = spec.axes[i].size();
    if (size != 0 && count > std::numeric_limits<uint64_t>::max() / size)
      return std::nullopt;
    count *= size;
  }
  return count;
}

std::string GridProduct(const SweepSpec& spec) {
  std::string text;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    if (Follows(spec, i)) continue;
    const Axis& axis = spec.axes[i];
    const bool over = axis.size() == std::numeric_limits<uint64_t>::max();
    absl::StrAppend(&text, text.empty() ? "" : " x ", axis.path, " ",
                    over ? "(over 10^19)" : absl::StrCat(axis.size()));
  }
  const auto count = CheckedPointCount(spec);
  const bool over =
      !count.has_value() || *count == std::numeric_limits<uint64_t>::max();
  return absl::StrCat(text, " = ", over ? "over 10^19" : absl::StrCat(*count));
}

Projection::Projection(const SweepSpec& spec, std::vector<int> axes)
    : axes_(std::move(axes)) {
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Axis& axis = spec.axes[axes_[i]];
    const bool follows =
        i > 0 && axis.zip >= 0 && spec.axes[axes_[i - 1]].zip == axis.zip;
    leads_.push_back(follows ? leads_.back() : i);
    sizes_.push_back(follows ? 1 : axis.size());
    size_ *= sizes_.back();
  }
}

uint64_t Projection::IndexOf(absl::Span<const uint64_t> digits) const {
  uint64_t index = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (leads_[i] == i) index = index * sizes_[i] + digits[axes_[i]];
  }
  return index;
}

void Projection::DigitsAt(uint64_t index, std::vector<uint64_t>* digits) const {
  for (size_t i = axes_.size(); i-- > 0;) {
    (*digits)[axes_[i]] = index % sizes_[i];
    index /= sizes_[i];
  }
  for (size_t i = 0; i < axes_.size(); ++i)
    (*digits)[axes_[i]] = (*digits)[axes_[leads_[i]]];
}

std::vector<bool> PointsWithCells(const SweepSpec& spec,
                                  const Projection& projection) {
  std::vector<bool> found;
  if (spec.cells == nullptr) return found;
  found.resize(projection.size(), false);
  const Projection grid = WholeGrid(spec);
  std::vector<uint64_t> digits(spec.axes.size(), 0);
  for (uint64_t point = 0; point < grid.size(); ++point) {
    if (!spec.cells->IsCell(point)) continue;
    grid.DigitsAt(point, &digits);
    found[projection.IndexOf(digits)] = true;
  }
  return found;
}

Projection WholeGrid(const SweepSpec& spec) {
  std::vector<int> axes(spec.axes.size());
  std::iota(axes.begin(), axes.end(), 0);
  return Projection(spec, std::move(axes));
}

CellSections::CellSections(const SweepSpec& spec)
    : spec_(spec), sections_(spec.base), digits_(spec.axes.size(), 0) {
  for (const Axis& axis : spec_.axes) axis.Apply(0, &sections_);
}

void CellSections::Set(absl::Span<const uint64_t> digits) {
  for (size_t i = 0; i < digits_.size(); ++i) {
    if (digits_[i] == digits[i]) continue;
    digits_[i] = digits[i];
    spec_.axes[i].Apply(digits[i], &sections_);
  }
}

}  // namespace iclsweep
