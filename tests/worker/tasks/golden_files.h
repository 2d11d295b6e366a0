// Reads golden data sets. Their folder is $ICLSWEEP_GOLDEN, or `golden` below
// the working directory (tests/).
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace iclsweep::testing {

inline std::filesystem::path GoldenFolder(const std::string& data_set) {
  const char* root = std::getenv("ICLSWEEP_GOLDEN");
  return std::filesystem::path(root != nullptr && *root != '\0' ? root
                                                                : "golden") /
         data_set;
}

struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// Every float32 or float64 tensor of a .safetensors file, as doubles.
inline std::map<std::string, GoldenTensor> ReadGoldenTensors(
    const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)),
                          std::istreambuf_iterator<char>());
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const auto header = nlohmann::json::parse(bytes.substr(8, header_size));
  std::map<std::string, GoldenTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    GoldenTensor tensor{entry["shape"].get<std::vector<int64_t>>(), {}};
    const char* data = bytes.data() + 8 + header_size;
    const bool wide = entry["dtype"] == "F64";
    const size_t size = wide ? 8 : 4;
    for (size_t at = entry["data_offsets"][0];
         at < entry["data_offsets"][1].get<size_t>(); at += size) {
      double value = 0;
      float narrow = 0;
      std::memcpy(wide ? static_cast<void*>(&value) : &narrow, data + at, size);
      tensor.values.push_back(wide ? value : static_cast<double>(narrow));
    }
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace iclsweep::testing

// Skips the test when the data set is not there.
#define SKIP_WITHOUT_GOLDEN(data_set)                                          \
  if (!std::filesystem::exists(::iclsweep::testing::GoldenFolder(data_set))) { \
    GTEST_SKIP() << "golden data set "                                         \
                 << ::iclsweep::testing::GoldenFolder(data_set)                \
                 << " is not there";                                           \
  }                                                                            \
  static_assert(true)
