// The order in which a sweep's cells are made, and so run: as they are
// numbered, or a permutation that a seed stands for. Any beginning of a
// permutation is a random sample of the grid. The same on every machine; no
// table: a Feistel network (Luby and Rackoff 1988) over the smallest power of
// four that holds the cells, walked until it falls on a cell (Black and Rogaway
// 2002).
#pragma once

#include <cstdint>

namespace iclsweep {

class CellOrder {
 public:
  // seed 0: as they are numbered.
  CellOrder(uint64_t cells, int64_t seed);

  // The cell at that place. REQUIRES: place < cells.
  uint64_t At(uint64_t place) const;

 private:
  uint64_t Permute(uint64_t value) const;

  uint64_t cells_;
  uint64_t seed_;
  int half_bits_ = 1;
};

}  // namespace iclsweep
