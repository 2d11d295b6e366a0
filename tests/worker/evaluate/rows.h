// Measurements by what they measure, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "proto/base/domain.h"

namespace iclsweep::testing {

using RowKey = std::tuple<std::string, std::string, int,
                          int>;  // predictor, name, task, position

inline std::map<RowKey, Measurement> ByKey(
    const std::vector<Measurement>& measurements) {
  std::map<RowKey, Measurement> rows;
  for (const Measurement& m : measurements) {
    EXPECT_TRUE(
        rows.emplace(RowKey{m.predictor, m.name, m.task, m.position}, m).second)
        << m.predictor << " " << m.name << " twice";
  }
  return rows;
}

// Every number as the bits it consists of.
inline std::string Bits(const std::vector<Measurement>& measurements) {
  std::string bits;
  for (const Measurement& m : measurements) {
    bits += m.predictor + " " + m.name + " ";
    for (const double value : {m.value, m.standard_error})
      bits.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bits;
}

}  // namespace iclsweep::testing
