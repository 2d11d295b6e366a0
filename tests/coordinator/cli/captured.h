// A FILE whose text can be read back.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace iclsweep::testing {

class Captured {
 public:
  Captured() : file_(std::tmpfile()) {
    if (file_ == nullptr) ADD_FAILURE() << "cannot make a temporary file";
  }
  ~Captured() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  std::FILE* file() { return file_; }
  // All that was written so far.
  std::string Text() {
    std::fflush(file_);
    const long size = std::ftell(file_);
    std::rewind(file_);
    std::string text(static_cast<size_t>(size), '\0');
    const size_t read = std::fread(text.data(), 1, text.size(), file_);
    EXPECT_EQ(read, text.size());
    std::fseek(file_, 0, SEEK_END);
    return text;
  }
  // The lines, each of which must have ended.
  std::vector<std::string> Lines() {
    std::vector<std::string> lines = absl::StrSplit(Text(), '\n');
    EXPECT_EQ(lines.back(), "") << "the last line has no end";
    lines.pop_back();
    return lines;
  }

 private:
  std::FILE* file_;
};

}  // namespace iclsweep::testing
