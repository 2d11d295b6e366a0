// Golden data sets of the tests labelled `golden`. The folder is
// $ICLSWEEP_GOLDEN, or `golden` in the working directory (tests run in
// <source>/tests). Tests read every size from the files, so another folder of
// the same form works too; a data set that is not in the folder is skipped by
// name.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "ATen/ATen.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"
#include "worker/model/files.h"
#include "worker/model/safetensors.h"

namespace iclsweep::testing {

inline std::filesystem::path GoldenPath(const std::string& data_set) {
  const char* folder = std::getenv("ICLSWEEP_GOLDEN");
  return std::filesystem::path(
             folder != nullptr && *folder != '\0' ? folder : "golden") /
         data_set;
}

inline nlohmann::json ReadJson(const std::filesystem::path& path) {
  const absl::StatusOr<std::string> text = ReadFile(path.string());
  EXPECT_TRUE(text.ok()) << text.status();
  return nlohmann::json::parse(text.value_or("null"), nullptr,
                               /*allow_exceptions=*/false);
}

// Largest absolute difference, in double.
inline double MaxDifference(const at::Tensor& a, const at::Tensor& b) {
  return (a.detach().to(at::kDouble) - b.detach().to(at::kDouble))
      .abs()
      .max()
      .item<double>();
}

}  // namespace iclsweep::testing

#define ICLSWEEP_SKIP_WITHOUT_GOLDEN(data_set)                               \
  if (!std::filesystem::exists(::iclsweep::testing::GoldenPath(data_set))) { \
    GTEST_SKIP() << "no golden data set "                                    \
                 << ::iclsweep::testing::GoldenPath(data_set);               \
  }                                                                          \
  static_assert(true)
