// The file that a worker's output goes to, as its node agent reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace iclsweep {

class WorkerLog {
 public:
  // Of the worker in this slot directory; what the file holds already is old.
  explicit WorkerLog(const std::string& slot_directory);

  const std::string& file() const { return file_; }
  // Whole lines since the last call; if nobody writes any more (`ended`), also
  // a last one without its line end. Nothing if the file cannot be read.
  std::vector<std::string> NewLines(bool ended);
  // The last `bytes` of it, old ones too.
  std::string Tail(size_t bytes) const;

 private:
  std::string file_;
  int64_t read_ = 0;
};

}  // namespace iclsweep
