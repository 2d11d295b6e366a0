#include "coordinator/spec/grid.h"

#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace iclsweep {

std::optional<uint64_t> CheckedCellCount(const SweepSpec& spec) {
  uint64_t count = 1;
  for (const Axis& axis : spec.axes) {
    if (axis.size() != 0 &&
        count > std::numeric_limits<uint64_t>::max() / axis.size())
      return std::nullopt;
    count *= axis.size();
  }
  return count;
}

std::string GridProduct(const SweepSpec& spec) {
  std::string text;
  for (const Axis& axis : spec.axes) {
    const bool over = axis.size() == std::numeric_limits<uint64_t>::max();
    absl::StrAppend(&text, text.empty() ? "" : " x ", axis.path, " ",
                    over ? "(over 10^19)" : absl::StrCat(axis.size()));
  }
  const auto count = CheckedCellCount(spec);
  const bool over =
      !count.has_value() || *count == std::numeric_limits<uint64_t>::max();
  return absl::StrCat(text, " = ", over ? "over 10^19" : absl::StrCat(*count));
}

Projection::Projection(const SweepSpec& spec, std::vector<int> axes)
    : axes_(std::move(axes)) {
  for (const int axis : axes_) {
    sizes_.push_back(spec.axes[axis].size());
    size_ *= sizes_.back();
  }
}

uint64_t Projection::IndexOf(absl::Span<const uint64_t> digits) const {
  uint64_t index = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    index = index * sizes_[i] + digits[axes_[i]];
  return index;
}

void Projection::DigitsAt(uint64_t index, std::vector<uint64_t>* digits) const {
  for (size_t i = axes_.size(); i-- > 0;) {
    (*digits)[axes_[i]] = index % sizes_[i];
    index /= sizes_[i];
  }
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
