// What a running stage is given beside its parameters: where things lie, how
// often to save, whom to tell. None of this may change a result (it is not in
// the job's key).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace iclsweep {

struct StageContext {
  std::string device = "cpu";  // "cpu" or "cuda"
  std::string device_kind;     // e.g. cpu/avx512; a partial checkpoint resumes
                               // only on the same kind

  // evaluate, compare: the train job's checkpoint folder (model.safetensors,
  // initial.safetensors, config.json).
  std::string checkpoint_dir;
  // Of its model.safetensors when it was published; empty = not known.
  std::string checkpoint_sha256;

  // train: publishes its checkpoint as artifact_dir/<artifact_name>, by rename,
  // manifest last.
  std::string artifact_dir;
  std::string artifact_name;
  // train: partial checkpoints. Writes to partial_dir/<attempt>/, resumes from
  // the newest valid one below partial_dir.
  std::string partial_dir;
  uint32_t attempt = 0;
  int64_t checkpoint_every_steps = 0;  // 0 = never

  // Set when the stage should stop: it saves what it can and returns
  // absl::CancelledError.
  const std::atomic<bool>* stop = nullptr;
  bool Stopped() const {
    return stop != nullptr && stop->load(std::memory_order_relaxed);
  }

  // A line for people, kept in the attempt's log. From the stage's thread.
  std::function<void(const std::string& line)> log;
  void Log(const std::string& line) const {
    if (log) log(line);
  }

  // Called from the stage's thread after each unit of work (a training step, a
  // chunk of prompts): units executed by this attempt so far, and position /
  // total of the job. `checkpointed`: a partial checkpoint was just published.
  std::function<void(int64_t steps_run, int64_t done, int64_t total,
                     bool checkpointed)>
      progress;
  void Progress(int64_t steps_run, int64_t done, int64_t total,
                bool checkpointed = false) const {
    if (progress) progress(steps_run, done, total, checkpointed);
  }
};

}  // namespace iclsweep
