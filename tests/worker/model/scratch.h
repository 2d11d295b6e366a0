// A fresh folder per test, removed afterwards; and LibTorch on one thread, as
// workers run it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "ATen/Parallel.h"

namespace iclsweep::testing {

class Scratch : public ::testing::Test {
 protected:
  Scratch() {
    at::set_num_threads(1);
    std::string name =
        (std::filesystem::temp_directory_path() / "iclsweep-test-XXXXXX")
            .string();
    root_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~Scratch() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  std::string Path(const std::string& name) const {
    return (std::filesystem::path(root_) / name).string();
  }

 private:
  std::string root_;
};

}  // namespace iclsweep::testing
