#include "worker/node/worker_log.h"

#include <filesystem>
#include <fstream>
#include <utility>

namespace iclsweep {

WorkerLog::WorkerLog(const std::string& slot_directory)
    : file_(slot_directory + "/worker.log") {
  std::error_code none_yet;
  const auto size = std::filesystem::file_size(file_, none_yet);
  if (!none_yet) read_ = static_cast<int64_t>(size);
}

std::vector<std::string> WorkerLog::NewLines(bool ended) {
  std::vector<std::string> lines;
  std::ifstream in(file_, std::ios::binary);
  if (!in || !in.seekg(read_)) return lines;
  for (std::string line; std::getline(in, line);) {
    const bool whole = !in.eof();
    if (!whole && !ended) break;
    read_ += static_cast<int64_t>(line.size()) + (whole ? 1 : 0);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string WorkerLog::Tail(size_t bytes) const {
  std::ifstream in(file_, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const auto size = static_cast<size_t>(in.tellg());
  const size_t from = size > bytes ? size - bytes : 0;
  in.seekg(static_cast<std::streamoff>(from));
  std::string tail(size - from, '\0');
  in.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  return tail;
}

}  // namespace iclsweep
