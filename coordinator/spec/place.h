// Where something stands in a sweep file, for messages: lines and columns from
// 1, 0 = unknown.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace iclsweep {

struct Place {
  int line = 0;
  int column = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// The places of everything read from one file, by dotted path ("train.steps").
class Places {
 public:
  explicit Places(absl::string_view file_name) : file_name_(file_name) {}

  void Record(absl::string_view path, Place place) {
    places_.emplace(path, place);
  }
  bool Has(absl::string_view path) const {
    return places_.count(std::string(path)) > 0;
  }
  // The place of `path`, else of the nearest section around it, else unknown.
  Place Find(absl::string_view path) const {
    while (true) {
      const auto it = places_.find(std::string(path));
      if (it != places_.end()) return it->second;
      const size_t dot = path.rfind('.');
      if (dot == absl::string_view::npos) return Place();
      path = path.substr(0, dot);
    }
  }
  const std::string& FileName() const { return file_name_; }

 private:
  std::string file_name_;
  std::map<std::string, Place> places_;
};

}  // namespace iclsweep
