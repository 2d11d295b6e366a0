#include "coordinator/spec/orders.h"

#include <limits>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "proto/base/streams.h"

namespace iclsweep {
namespace {

// Uniform on 0 .. bound-1, a pure function of (seed, draw): Philox words, those
// in the incomplete last stretch skipped.
uint64_t UniformBelow(int64_t seed, uint64_t draw, uint64_t bound) {
  constexpr uint32_t tag =
      0x6F726472;  // keeps these draws apart from other uses of the same seed
  constexpr uint64_t most = std::numeric_limits<uint64_t>::max();
  const uint64_t last = most - (most % bound + 1) % bound;
  const auto key = static_cast<uint64_t>(seed);
  for (uint32_t retry = 0;; ++retry) {
    const auto words =
        Philox({static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32),
                retry, tag},
               {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    const uint64_t word = (uint64_t{words[0]} << 32) | words[1];
    if (word <= last) return word % bound;
  }
}

}  // namespace

std::optional<uint64_t> OrderCount(int tasks) {
  if (tasks > kMostNumberedTasks) return std::nullopt;
  uint64_t count = 1;
  for (int i = 2; i <= tasks; ++i) count *= static_cast<uint64_t>(i);
  return count;
}

std::vector<int32_t> NthOrder(int tasks, uint64_t rank) {
  std::vector<int32_t> left(tasks);
  std::iota(left.begin(), left.end(), 0);
  std::vector<int32_t> order;
  order.reserve(tasks);
  for (int remaining = tasks; remaining > 0; --remaining) {
    const uint64_t block = *OrderCount(remaining - 1);
    const auto chosen = static_cast<std::ptrdiff_t>(rank / block);
    order.push_back(left[chosen]);
    left.erase(left.begin() + chosen);
    rank %= block;
  }
  return order;
}

std::vector<uint64_t> SampleRanks(int tasks, uint64_t count, int64_t seed) {
  // The first `count` steps of a Fisher-Yates shuffle of all numbers; only
  // displaced ones are stored.
  const uint64_t population = *OrderCount(tasks);
  absl::flat_hash_map<uint64_t, uint64_t> displaced;
  const auto at = [&](uint64_t i) {
    const auto it = displaced.find(i);
    return it == displaced.end() ? i : it->second;
  };
  std::vector<uint64_t> ranks;
  ranks.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t j = i + UniformBelow(seed, i, population - i);
    ranks.push_back(at(j));
    displaced[j] = at(i);
  }
  return ranks;
}

std::vector<std::vector<int32_t>> SampleLongOrders(int tasks, uint64_t count,
                                                   int64_t seed) {
  std::vector<std::vector<int32_t>> orders;
  absl::flat_hash_set<std::vector<int32_t>> seen;
  uint64_t draw = 0;
  while (orders.size() < count) {
    std::vector<int32_t> order(tasks);
    std::iota(order.begin(), order.end(), 0);
    for (int i = tasks - 1; i > 0; --i) {
      std::swap(
          order[i],
          order[UniformBelow(seed, draw++, static_cast<uint64_t>(i) + 1)]);
    }
    if (seen.insert(order).second) orders.push_back(std::move(order));
  }
  return orders;
}

}  // namespace iclsweep
