#include "proto/base/streams.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace iclsweep {
namespace {

using Counter = std::array<uint32_t, 4>;

// Known answers of Random123 (Salmon et al. 2011), file kat_vectors,
// philox4x32 10.
TEST(StreamsTest, PhiloxGivesTheKnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox({ones, ones, ones, ones}, {ones, ones}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// sqrt(2) erfinv(2p - 1) of the exact double p with 50 digits (mpmath 1.3).
TEST(StreamsTest, NormalQuantileAgreesWithFiftyDigits) {
  const struct {
    double p;
    double quantile;
  } cases[] = {
      {0.5000001, 2.5066282733116483012e-7},
      {0.6, 0.25334710313579974132},
      {0.75, 0.6744897501960817432},
      {0.9, 1.2815515655446005935},
      {0.925, 1.4395314709384562291},
      {0.926, 1.446632067158978807},
      {0.975, 1.9599639845400538556},
      {0.99, 2.3263478740408407676},
      {0.999, 3.0902323061678132778},
      {0.999999, 4.7534243088170877657},
      {0.9999999999999999, 8.2095361516013868556},
      {0.4, -0.25334710313579974132},
      {0.2, -0.84162123357291416552},
      {0.075, -1.4395314709384559349},
      {0.07, -1.4757910281791706856},
      {0.01, -2.3263478740408410931},
      {0.001, -3.0902323061678135354},
      {1e-5, -4.2648907939228246102},
      {1e-9, -5.9978070150076868614},
      {1e-11, -6.7060231554951362961},
      {1e-12, -7.0344838253011319326},
      {1e-16, -8.2220822161304356152},
  };
  EXPECT_EQ(NormalQuantile(0.5), 0);
  for (const auto& c : cases)
    EXPECT_NEAR(NormalQuantile(c.p) / c.quantile, 1, 1e-14) << "p = " << c.p;
}

TEST(StreamsTest, UniformsStayInsideTheOpenInterval) {
  for (uint32_t i = 0; i < 20000; ++i) {
    const double u =
        Uniform({.seed = 3, .purpose = Purpose::kTrainInput, .coordinate = i});
    EXPECT_GT(u, 0);
    EXPECT_LT(u, 1);
  }
}

// Raw moments of N(0, 1) are 0, 1, 0, 3; the standard error of the mean of z^k
// is sqrt((E z^2k - (E z^k)^2) / n).
TEST(StreamsTest, NormalsHaveTheMomentsOfTheStandardNormal) {
  constexpr int count = 400000;
  std::vector<double> z(count);
  FillNormal({.seed = 17, .purpose = Purpose::kContextInput, .prompt = 5},
             count, z.data());
  const double moments[] = {0, 1, 0, 3};
  const double variances[] = {1, 2, 15, 96};
  for (int k = 1; k <= 4; ++k) {
    double sum = 0;
    for (const double v : z) sum += std::pow(v, k);
    EXPECT_NEAR(sum / count, moments[k - 1],
                4 * std::sqrt(variances[k - 1] / count))
        << "moment " << k;
  }
}

// Neighbours in every part of the address: sample correlation within 4 /
// sqrt(n).
TEST(StreamsTest, NeighbouringAddressesAreUncorrelated) {
  constexpr int count = 100000;
  const DrawAddress base{.seed = 9,
                         .purpose = Purpose::kContextInput,
                         .prompt = 7,
                         .task = 3,
                         .example = 2};
  DrawAddress others[6] = {base, base, base, base, base, base};
  others[0].seed += 1;
  others[1].seed += uint64_t{1} << 32;
  others[2].purpose = Purpose::kContextNoise;
  others[3].prompt += 1;
  others[4].task += 1;
  others[5].example += 1;
  std::vector<double> a(count);
  std::vector<double> b(count);
  FillNormal(base, count, a.data());
  for (const DrawAddress& other : others) {
    FillNormal(other, count, b.data());
    double sum = 0;
    for (int i = 0; i < count; ++i) sum += a[i] * b[i];
    EXPECT_LT(std::fabs(sum / count), 4 / std::sqrt(count));
  }
}

TEST(StreamsTest, FilledNormalsEqualSingleDrawsFromAnyStart) {
  for (uint32_t start : {0U, 1U, 2U, 7U}) {
    for (int count : {0, 1, 2, 5}) {
      DrawAddress address{.seed = 123456789012345,
                          .purpose = Purpose::kQueryNoise,
                          .prompt = (uint64_t{1} << 43) + 1,
                          .task = 4095,
                          .example = 77,
                          .coordinate = start};
      std::vector<double> filled(static_cast<size_t>(count));
      FillNormal(address, count, filled.data());
      for (const double value : filled) {
        EXPECT_EQ(value, Normal(address))
            << "start " << start << ", count " << count;
        ++address.coordinate;
      }
    }
  }
}

TEST(StreamsTest, LargePromptNumbersDoNotCollide) {
  const auto draw = [](uint64_t prompt) {
    return Normal(
        {.seed = 1, .purpose = Purpose::kTrainInput, .prompt = prompt});
  };
  EXPECT_NE(draw(0), draw(uint64_t{1} << 32));
  EXPECT_NE(draw(0), draw(uint64_t{1} << 43));
  EXPECT_NE(draw(uint64_t{1} << 32), draw(uint64_t{1} << 43));
}

}  // namespace
}  // namespace iclsweep
