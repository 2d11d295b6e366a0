// A private directory for the socket of one `run`; paths in a data directory
// may be too long for one.
#pragma once

#include <string>

namespace iclsweep {

class SocketDirectory {
 public:
  // In `base`. path() is empty when it cannot be made.
  explicit SocketDirectory(const std::string& base);
  ~SocketDirectory();  // removes it
  SocketDirectory(const SocketDirectory&) = delete;
  SocketDirectory& operator=(const SocketDirectory&) = delete;

  const std::string& path() const { return path_; }

  // XDG_RUNTIME_DIR where that is usable, else /tmp.
  static std::string Base();
  // Removes this user's directories in `base` whose process did not live to do
  // it: nobody listens on the socket in it, or there has been none for a
  // minute. Anything else in such a directory keeps it.
  static void RemoveStale(const std::string& base);

 private:
  std::string path_;
};

}  // namespace iclsweep
