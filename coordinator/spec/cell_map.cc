#include "coordinator/spec/cell_map.h"

#include <algorithm>
#include <bit>

namespace iclsweep {

bool Exclusion::Matches(absl::Span<const uint64_t> digits) const {
  return std::all_of(axes.begin(), axes.end(), [&](const auto& axis) {
    return std::binary_search(axis.second.begin(), axis.second.end(),
                              digits[axis.first]);
  });
}

void CellMap::Add(bool is_cell) {
  if (points_ % 64 == 0) {
    words_.push_back(0);
    before_.push_back(cells_);
  }
  if (is_cell) {
    words_.back() |= uint64_t{1} << (points_ % 64);
    ++cells_;
  }
  ++points_;
}

uint64_t CellMap::PointOf(uint64_t cell) const {
  const auto word = static_cast<size_t>(
      std::upper_bound(before_.begin(), before_.end(), cell) - before_.begin() -
      1);
  uint64_t bits = words_[word];
  for (uint64_t skip = cell - before_[word]; skip > 0; --skip)
    bits &= bits - 1;  // clears the lowest bit
  return 64 * uint64_t{word} + static_cast<uint64_t>(std::countr_zero(bits));
}

}  // namespace iclsweep
