// The process of one slot.
#pragma once

#include <cstdint>
#include <string>

namespace iclsweep {

struct ChildOptions {
  std::string coordinator;
  std::string slot_dir;
  std::string slot_name;
  std::string device;
  int threads = 1;
  int64_t idle_timeout_us = 0;
  uint32_t bundle = 256;  // most jobs leased at once
};

// Runs until stopped; returns the exit code (0, or 3 / 4 with one line on
// stderr).
int RunChild(const ChildOptions& options);

}  // namespace iclsweep
