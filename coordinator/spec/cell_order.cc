#include "coordinator/spec/cell_order.h"

#include "proto/base/streams.h"

namespace iclsweep {
namespace {

constexpr uint64_t kRounds = 6;

}  // namespace

CellOrder::CellOrder(uint64_t cells, int64_t seed)
    : cells_(cells), seed_(static_cast<uint64_t>(seed)) {
  while (half_bits_ < 31 && (uint64_t{1} << (2 * half_bits_)) < cells)
    ++half_bits_;
}

uint64_t CellOrder::Permute(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const double hashed = Uniform({.seed = seed_,
                                   .purpose = Purpose::kCellOrder,
                                   .prompt = round,
                                   .coordinate = static_cast<uint32_t>(right)});
    const auto bits =
        static_cast<uint64_t>(hashed * static_cast<double>(mask + 1));
    const uint64_t next = left ^ (bits & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

uint64_t CellOrder::At(uint64_t place) const {
  if (seed_ == 0) return place;
  uint64_t cell = Permute(place);
  while (cell >= cells_) cell = Permute(cell);
  return cell;
}

}  // namespace iclsweep
