// A subcommand's options. A thin front of the option parser, which is a large
// header: only options.cc and main.cc include it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace iclsweep {

struct CommandContext;

class Command {
 public:
  // `app` must outlive the command; `context` gets the exit code.
  Command(CLI::App* app, CommandContext* context, const char* name,
          const char* help);

  // The values must live until the command has run; their present content is
  // the default.
  void Positional(const char* name, std::string* value, const char* help,
                  bool required = false);
  void Positionals(const char* name, std::vector<std::string>* values,
                   const char* help);
  void Text(const char* flag, std::string* value, const char* help,
            const char* environment = nullptr);
  void Choice(const char* flag, std::string* value,
              std::vector<std::string> choices, const char* help);
  void Count(const char* flag, int64_t* value, int64_t low, int64_t high,
             const char* help);
  // Without a default.
  void Count(const char* flag, std::optional<int64_t>* value, int64_t low,
             int64_t high, const char* help);
  void Flag(const char* flag, bool* value, const char* help);

  // Options that several commands take.
  void Data();
  void Coordinator();
  void Json();

  // What runs when the command is given; returns the exit code.
  void Run(std::function<int()> run);

 private:
  CLI::App* app_;
  CommandContext* context_;
};

}  // namespace iclsweep
