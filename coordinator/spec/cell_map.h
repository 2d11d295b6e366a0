// Which points of the grid are cells: all that no exclusion matches. Cells are
// numbered without gaps, in the order of the points.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace iclsweep {

// Matches the points whose digits (grid.h) lie in all of these sets.
struct Exclusion {
  std::vector<std::pair<size_t, std::vector<uint64_t>>>
      axes;  // index of the axis, digits in ascending order

  bool Matches(absl::Span<const uint64_t> digits) const;
};

class CellMap {
 public:
  // Larger grids cannot be mapped (one bit a point).
  static constexpr uint64_t kMostPoints = 100'000'000;

  // Points are given one after the other.
  void Add(bool is_cell);

  uint64_t cells() const { return cells_; }
  uint64_t points() const { return points_; }
  // REQUIRES: cell < cells().
  uint64_t PointOf(uint64_t cell) const;
  bool IsCell(uint64_t point) const {
    return (words_[point / 64] >> (point % 64) & 1) != 0;
  }

 private:
  std::vector<uint64_t> words_;   // one bit per point
  std::vector<uint64_t> before_;  // cells before each word
  uint64_t points_ = 0;
  uint64_t cells_ = 0;
};

}  // namespace iclsweep
