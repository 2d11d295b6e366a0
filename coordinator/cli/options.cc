#include "coordinator/cli/options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "coordinator/cli/command.h"

namespace iclsweep {

Command::Command(CLI::App* app, CommandContext* context, const char* name,
                 const char* help)
    : app_(app->add_subcommand(name, help)), context_(context) {}

void Command::Positional(const char* name, std::string* value, const char* help,
                         bool required) {
  app_->add_option(name, *value, help)->required(required);
}

void Command::Positionals(const char* name, std::vector<std::string>* values,
                          const char* help) {
  app_->add_option(name, *values, help);
}

void Command::Text(const char* flag, std::string* value, const char* help,
                   const char* environment) {
  CLI::Option* option = app_->add_option(flag, *value, help);
  if (environment != nullptr) option->envname(environment);
  if (!value->empty()) option->capture_default_str();
}

void Command::Choice(const char* flag, std::string* value,
                     std::vector<std::string> choices, const char* help) {
  app_->add_option(flag, *value, help)
      ->check(CLI::IsMember(std::move(choices)))
      ->capture_default_str();
}

void Command::Count(const char* flag, int64_t* value, int64_t low, int64_t high,
                    const char* help) {
  app_->add_option(flag, *value, help)
      ->check(CLI::Range(low, high))
      ->capture_default_str();
}

void Command::Count(const char* flag, std::optional<int64_t>* value,
                    int64_t low, int64_t high, const char* help) {
  app_->add_option(flag, *value, help)->check(CLI::Range(low, high));
}

void Command::Flag(const char* flag, bool* value, const char* help) {
  app_->add_flag(flag, *value, help);
}

void Command::Data() {
  app_->add_option("--data", context_->data_dir, "data directory")
      ->envname("ICLSWEEP_DATA")
      ->check([](const std::string& path) {
        return path.empty() ? std::string("must name a directory")
                            : std::string();
      })
      ->capture_default_str();
}

void Command::Coordinator() {
  Text("--coordinator", &context_->coordinator,
       "host:port or unix:/path of a running coordinator",
       "ICLSWEEP_COORDINATOR");
}

void Command::Json() {
  Flag("--json", &context_->json, "machine-readable output on stdout");
}

void Command::Run(std::function<int()> run) {
  app_->callback([context = context_, run = std::move(run)] {
    context->exit_code = run();
  });
}

}  // namespace iclsweep
