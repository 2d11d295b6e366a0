// Orders of T tasks: all of them in lexicographic order by number, or a sample
// of them without replacement. The sample of n is the beginning of the sample
// of n + 1 (same T, same seed), so a sweep grows without losing what it has.
// Stored cells name their orders, so a change here changes what `sample` means
// in an amended sweep.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace iclsweep {

// The largest T whose orders can be numbered in 64 bits.
inline constexpr int kMostNumberedTasks = 20;

// T!, nullopt above kMostNumberedTasks.
std::optional<uint64_t> OrderCount(int tasks);
// The order with this number; 0 is 0, 1, 2, ... REQUIRES: rank <
// OrderCount(tasks).
std::vector<int32_t> NthOrder(int tasks, uint64_t rank);
// Numbers of `count` distinct orders. REQUIRES: count <= OrderCount(tasks).
std::vector<uint64_t> SampleRanks(int tasks, uint64_t count, int64_t seed);
// Distinct orders of more tasks than can be numbered. REQUIRES: tasks >
// kMostNumberedTasks.
std::vector<std::vector<int32_t>> SampleLongOrders(int tasks, uint64_t count,
                                                   int64_t seed);

}  // namespace iclsweep
