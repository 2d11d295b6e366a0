#include "coordinator/spec/orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace iclsweep {
namespace {

std::vector<int32_t> Identity(int tasks) {
  std::vector<int32_t> order(tasks);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(OrdersTest, CountsAreFactorials) {
  EXPECT_EQ(OrderCount(1), 1u);
  EXPECT_EQ(OrderCount(5), 120u);
  EXPECT_EQ(OrderCount(20), 2432902008176640000u);
  EXPECT_EQ(OrderCount(21), std::nullopt);
}

TEST(OrdersTest, NumbersRunThroughAllOrdersLexicographically) {
  for (const int tasks : {1, 2, 3, 6}) {
    std::vector<int32_t> expected = Identity(tasks);
    uint64_t rank = 0;
    do {
      ASSERT_EQ(NthOrder(tasks, rank++), expected);
    } while (std::next_permutation(expected.begin(), expected.end()));
    EXPECT_EQ(rank, OrderCount(tasks));
  }
}

TEST(OrdersTest, TheLastOrderOfTwentyTasksIsReversed) {
  std::vector<int32_t> reversed = Identity(20);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(NthOrder(20, *OrderCount(20) - 1), reversed);
}

TEST(OrdersTest, ASampleHasNoRepeatsAndLargerOnesBeginWithIt) {
  const std::vector<uint64_t> all = SampleRanks(5, 120, 7);
  EXPECT_EQ(std::set<uint64_t>(all.begin(), all.end()).size(), 120u);
  EXPECT_EQ(*std::max_element(all.begin(), all.end()), 119u);
  for (const uint64_t count : {1, 24, 60}) {
    const std::vector<uint64_t> some = SampleRanks(5, count, 7);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
    EXPECT_EQ(some.size(), count);
  }
  EXPECT_NE(SampleRanks(5, 24, 8), SampleRanks(5, 24, 7));
}

TEST(OrdersTest, EveryOrderIsSampledEquallyOften) {
  // 6,000 seeds, 2 of 6 orders each: every ordered pair (of 30) is expected 200
  // times, standard deviation 13.9.
  std::map<std::pair<uint64_t, uint64_t>, int> pairs;
  for (int64_t seed = 0; seed < 6000; ++seed) {
    const auto ranks = SampleRanks(3, 2, seed);
    ++pairs[{ranks[0], ranks[1]}];
  }
  EXPECT_EQ(pairs.size(), 30u);
  for (const auto& [pair, count] : pairs)
    EXPECT_NEAR(count, 200, 4.5 * 13.9) << pair.first << " " << pair.second;
}

TEST(OrdersTest, LongOrdersArePermutationsAndPrefixStable) {
  const auto orders = SampleLongOrders(25, 10, 3);
  for (std::vector<int32_t> order : orders) {
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, Identity(25));
  }
  EXPECT_EQ(std::set<std::vector<int32_t>>(orders.begin(), orders.end()).size(),
            10u);
  const auto fewer = SampleLongOrders(25, 4, 3);
  EXPECT_TRUE(std::equal(fewer.begin(), fewer.end(), orders.begin()));
}

}  // namespace
}  // namespace iclsweep
