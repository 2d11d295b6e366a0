// The grid's arithmetic: points are numbered with the first axis varying
// slowest, and a projection numbers the points of the sub-grid that some of the
// axes span. A digit is the index of a value on one axis; axes that advance
// together have the same digit and span one dimension.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/spec/sweep_spec.h"

namespace iclsweep {

// Points of the grid; nullopt when the product does not fit in 64 bits.
std::optional<uint64_t> CheckedPointCount(const SweepSpec& spec);
// Whether an axis before this one advances with it.
bool Follows(const SweepSpec& spec, size_t axis);
// "model.size 2 x seed 3 = 6", for messages.
std::string GridProduct(const SweepSpec& spec);

class Projection {
 public:
  // `axes` are indices into spec.axes, ascending. `spec` must outlive the
  // projection and have a checked point count.
  Projection(const SweepSpec& spec, std::vector<int> axes);

  uint64_t size() const { return size_; }
  const std::vector<int>& Axes() const { return axes_; }
  // The number of the point that these digits (one per axis of the grid) fall
  // on.
  uint64_t IndexOf(absl::Span<const uint64_t> digits) const;
  // Writes the digits of a point; those of the other axes are left alone.
  void DigitsAt(uint64_t index, std::vector<uint64_t>* digits) const;

 private:
  std::vector<int> axes_;
  std::vector<size_t> leads_;    // which of them has the digit
  std::vector<uint64_t> sizes_;  // 1 where another one has it
  uint64_t size_ = 1;
};

// The projection on all axes.
Projection WholeGrid(const SweepSpec& spec);
// The points of the projection that some cell falls on; empty = all.
std::vector<bool> PointsWithCells(const SweepSpec& spec,
                                  const Projection& projection);

// The sections of a cell, updated in place: setting digits again costs only the
// axes that changed.
class CellSections {
 public:
  explicit CellSections(const SweepSpec& spec);  // must outlive this

  // Starts at the first value of every axis.
  void Set(absl::Span<const uint64_t> digits);
  const v1::SweepFile& Sections() const { return sections_; }

 private:
  const SweepSpec& spec_;
  v1::SweepFile sections_;
  std::vector<uint64_t> digits_;
};

}  // namespace iclsweep
