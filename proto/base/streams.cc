#include "proto/base/streams.h"

#include <bit>
#include <cmath>

namespace iclsweep {
namespace {

// Natural logarithm by own arithmetic: x = m 2^e with m in [sqrt(1/2),
// sqrt(2)), log m = 2 atanh((m-1)/(m+1)). Error below 2 units in the last place
// on (0, 1). REQUIRES: x normal and positive.
double Log(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1022;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffULL) |
                                   0x3fe0000000000000ULL);  // [0.5, 1)
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);  // |s| <= 0.1716
  const double z = s * s;
  double series = 0;
  for (int k = 23; k >= 3; k -= 2) series = (series + 1.0 / k) * z;
  constexpr double ln2_high = 6.93147180369123816490e-01;
  constexpr double ln2_low = 1.90821492927058770002e-10;
  return exponent * ln2_high + (2 * s + (2 * s * series + exponent * ln2_low));
}

template <size_t N>
double Polynomial(const double (&coefficients)[N], double x) {
  double sum = coefficients[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// Coefficients of M. J. Wichura, "Algorithm AS 241: The percentage points of
// the normal distribution" (1988), PPND16.
constexpr double kA[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                         1.9715909503065514427e+3, 1.3731693765509461125e+4,
                         4.5921953931549871457e+4, 6.7265770927008700853e+4,
                         3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr double kB[] = {1.0,
                         4.2313330701600911252e+1,
                         6.8718700749205790830e+2,
                         5.3941960214247511077e+3,
                         2.1213794301586595867e+4,
                         3.9307895800092710610e+4,
                         2.8729085735721942674e+4,
                         5.2264952788528545610e+3};
constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                         5.76949722146069140550e0,  3.64784832476320460504e0,
                         1.27045825245236838258e0,  2.41780725177450611770e-1,
                         2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double kD[] = {1.0,
                         2.05319162663775882187e0,
                         1.67638483018380384940e0,
                         6.89767334985100004550e-1,
                         1.48103976427480074590e-1,
                         1.51986665636164571966e-2,
                         5.47593808499534494600e-4,
                         1.05075007164441684324e-9};
constexpr double kE[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                         1.78482653991729133580e0,  2.96560571828504891230e-1,
                         2.65321895265761230930e-2, 1.24266094738807843860e-3,
                         2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double kF[] = {1.0,
                         5.99832206555887937690e-1,
                         1.36929880922735805310e-1,
                         1.48753612908506148525e-2,
                         7.86869131145613259100e-4,
                         1.84631831751005468180e-5,
                         1.42151175831644588870e-7,
                         2.04426310338993978564e-15};

struct Block {
  std::array<uint32_t, 4> counter;
  std::array<uint32_t, 2> key;
};

// Layout of the counter (a stored result depends on it): pair of coordinates;
// example; prompt's low word; purpose (8 bits) | task (12 bits) | prompt's next
// 12 bits.
Block BlockOf(const DrawAddress& a) {
  return {
      {a.coordinate / 2, a.example, static_cast<uint32_t>(a.prompt),
       (static_cast<uint32_t>(a.purpose) << 24) | ((a.task & 0xfffU) << 12) |
           static_cast<uint32_t>((a.prompt >> 32) & 0xfffU)},
      {static_cast<uint32_t>(a.seed), static_cast<uint32_t>(a.seed >> 32)}};
}

double UniformOf(const std::array<uint32_t, 4>& words, size_t half) {
  const uint64_t bits =
      (static_cast<uint64_t>(words[2 * half + 1]) << 32) | words[2 * half];
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

}  // namespace

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> c,
                               std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0],
         static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1],
         static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return c;
}

double NormalQuantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kA, r) / Polynomial(kB, r);
  }
  double r = std::sqrt(-Log(q < 0 ? p : 1 - p));
  double value = 0;
  if (r <= 5) {
    r -= 1.6;
    value = Polynomial(kC, r) / Polynomial(kD, r);
  } else {
    r -= 5;
    value = Polynomial(kE, r) / Polynomial(kF, r);
  }
  return q < 0 ? -value : value;
}

double Uniform(const DrawAddress& address) {
  const Block block = BlockOf(address);
  return UniformOf(Philox(block.counter, block.key), address.coordinate % 2);
}

double Normal(const DrawAddress& address) {
  return NormalQuantile(Uniform(address));
}

void FillNormal(DrawAddress address, int64_t count, double* out) {
  for (int64_t i = 0; i < count;) {
    const Block block = BlockOf(address);
    const std::array<uint32_t, 4> words = Philox(block.counter, block.key);
    for (unsigned half = address.coordinate % 2; half < 2 && i < count;
         ++half, ++i, ++address.coordinate) {
      out[i] = NormalQuantile(UniformOf(words, half));
    }
  }
}

}  // namespace iclsweep
