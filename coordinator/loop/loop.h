// The one thread that owns the core and the writable connection: takes the
// calls that arrived, applies them, writes everything they caused in one
// transaction, and only then releases the replies. What a caller was told is on
// disk.
//
// When the store fails, nothing of the batch is kept: its callers get
// UNAVAILABLE (they retry), and the core is built anew from what is on disk, as
// after a restart. If the store does not recover within give_up_us, the loop
// ends with its error.
//
// Thread-safe except where said. Handlers of single calls are in
// worker_calls.cc, sweep_calls.cc and fleet_calls.cc.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/core/core.h"
#include "coordinator/spec/cell_order.h"
#include "coordinator/spec/cells.h"
#include "coordinator/spec/sweep_spec.h"
#include "iclsweep/v1/sweep.pb.h"
#include "iclsweep/v1/worker.pb.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "storage/store.h"

namespace iclsweep {

// One unary call waiting for its answer. Request and response outlive `done`,
// which is called exactly once.
template <typename Request, typename Response>
struct Call {
  const Request* request = nullptr;
  Response* response = nullptr;
  std::function<void(absl::Status)> done;
};
using RegisterCall = Call<v1::RegisterRequest, v1::RegisterResponse>;
using LeaseCall = Call<v1::LeaseRequest, v1::LeaseResponse>;
using SyncCall = Call<v1::SyncRequest, v1::SyncResponse>;
using CompleteCall = Call<v1::CompleteRequest, v1::CompleteResponse>;
using ReleaseCall = Call<v1::ReleaseRequest, v1::ReleaseResponse>;

// A sweep that was parsed and checked already.
struct SubmitCall {
  SweepSpec spec;
  std::string yaml;
  std::vector<ForecastRow> forecast;
  v1::SubmitResponse* response = nullptr;
  std::function<void(absl::Status)> done;
};

// Stops a sweep: its running jobs are taken back, the others stay as they are.
using CancelCall = Call<v1::CancelRequest, v1::CancelResponse>;
// Failed jobs of a sweep run again.
using RetryCall = Call<v1::RetryRequest, v1::RetryResponse>;

// What people ask about workers, and why things are where they are.
using ExplainCall = Call<v1::ExplainRequest, v1::ExplainResponse>;
using ListWorkersCall = Call<v1::ListWorkersRequest, v1::ListWorkersResponse>;
using DrainCall = Call<v1::DrainRequest, v1::DrainResponse>;

// The caller of a parked Lease is gone.
struct LeaseCancelled {
  WorkerId worker;
  std::string request;
};

using AnyCall =
    std::variant<RegisterCall, LeaseCall, SyncCall, CompleteCall, ReleaseCall,
                 SubmitCall, CancelCall, RetryCall, ExplainCall,
                 ListWorkersCall, DrainCall, LeaseCancelled>;

struct LoopOptions {
  int64_t lease_us = 30'000'000;
  int64_t heartbeat_us = 5'000'000;
  int64_t checkpoint_every_steps = 500;
  int64_t give_up_us = 30'000'000;
  size_t batch = 512;
  uint64_t cells_per_step = 2'000;
  int64_t step_us = 25'000;  // a step of an expansion ends early after that
  std::string owner;         // host and pid, for the records
  std::string artifact_dir;  // absolute
  std::string partial_dir;
  std::string log_dir;
  std::string artifact_probe;
};

// InvalidArgument: a lease that does not outlive two heartbeats.
absl::Status CheckLoopOptions(const LoopOptions& options);

class Loop {
 public:
  // `store` and `clock` must outlive the loop. Restores the core from the store
  // and starts the thread.
  static absl::StatusOr<std::unique_ptr<Loop>> Start(const LoopOptions& options,
                                                     Store* store,
                                                     Clock* clock);
  ~Loop();  // stops

  // Never blocks. After Stop, the call is answered UNAVAILABLE at once.
  void Post(AnyCall call);
  // Answers everything UNAVAILABLE and ends the thread. Idempotent.
  void Stop();

  // OK while it runs; why it ended otherwise.
  absl::Status status() const;
  bool healthy() const { return healthy_.load(); }
  uint32_t workers() const { return workers_.load(); }
  uint64_t epoch() const { return epoch_; }
  // Steps told by running jobs: done and total.
  std::pair<uint64_t, uint64_t> running_steps() const {
    return {steps_done_.load(), steps_total_.load()};
  }
  // Mean duration of the stage's jobs, recent ones counting more; 0 = not known
  // yet.
  double mean_job_us(Stage stage) const {
    return mean_job_us_[static_cast<size_t>(stage)].load();
  }

 private:
  struct Expansion {
    SweepId id;
    int revision = 1;
    uint64_t cursor = 0;              // place in the order of the cells
    std::unique_ptr<SweepSpec> spec;  // the expander refers to it
    std::unique_ptr<CellExpander> expander;
    std::optional<CellOrder> order;
  };
  // Sent after the commit.
  struct PendingReply {
    std::function<void(absl::Status)> done;
    absl::Status status;
  };
  // What a worker told about itself when it registered.
  struct WorkerFacts {
    v1::RegisterRequest told;
    int64_t registered_us = 0;
    uint64_t jobs_done = 0;  // since then
  };

  Loop(const LoopOptions& options, Store* store, Clock* clock)
      : options_(options),
        store_(store),
        clock_(clock),
        core_(CoreOptions{options.lease_us}) {}

  void Main();
  std::vector<AnyCall> WaitForCalls();
  // One transaction: the calls and all they cause.
  absl::Status RunBatch(std::vector<AnyCall>* calls);
  absl::Status ApplyCalls(std::vector<AnyCall>* calls);
  absl::Status Restore();
  // The core's jobs, and their rows where those say something else.
  absl::Status RestoreJobs();
  absl::Status RestoreSweeps();
  // Partial checkpoints of jobs that are done.
  void RemovePartials(const std::vector<std::string>& keys);
  absl::Status RemovePartialsOfDoneJobs();
  // Recovers from `error`, or ends the loop with it.
  void Recover(absl::Status error);
  void FailAll(std::vector<AnyCall>* calls, const absl::Status& status);
  void FailParked(const absl::Status& status);

  absl::Status Handle(RegisterCall& call);
  absl::Status Handle(LeaseCall& call);
  absl::Status Handle(SyncCall& call);
  absl::Status Handle(CompleteCall& call);
  absl::Status Handle(ReleaseCall& call);
  absl::Status Handle(SubmitCall& call);
  absl::Status Handle(CancelCall& call);
  absl::Status Handle(RetryCall& call);
  absl::Status Handle(ExplainCall& call);
  absl::Status Handle(ListWorkersCall& call);
  absl::Status Handle(DrainCall& call);
  absl::Status Handle(LeaseCancelled& call);
  absl::Status NoteDone(WorkerId worker, const Completion& completion,
                        Stage stage);
  absl::Status CompleteOne(WorkerId worker, const v1::Completion& wire,
                           v1::CompleteResponse* response);
  // The sweep with that name; nullopt when the caller was told NotFound.
  absl::StatusOr<std::optional<SweepRow>> FindNamedSweep(
      const std::string& name, std::function<void(absl::Status)>* done);
  absl::Status Reactivate(const SweepRow& row, SweepSpec spec);
  void StartExpansion(SweepId id, int revision, uint64_t cursor,
                      SweepSpec spec);
  absl::Status ExpandSome();
  absl::Status ExpandCell(Expansion* expansion, uint64_t index,
                          JobsAdded* added);
  absl::StatusOr<NewJob> StorePlannedJob(const PlannedJob& planned,
                                         const std::vector<JobId>& ids,
                                         uint32_t max_attempts);

  // Applies one event and writes its rows; polls it answers wait in answers_.
  absl::StatusOr<Effects> Apply(const Event& event);
  absl::Status Write(const Effects& effects);
  absl::Status WriteState(const JobStateChanged& change);
  absl::Status WriteEnd(const AttemptFinished& end, int64_t now_us);
  absl::Status Tell(const EventRow& event) {
    return store_->InsertEvent(event, clock_->WallMicros());
  }
  absl::Status TellOfWorker(absl::string_view kind, WorkerId worker);
  // The events of these sweeps that have come to their end.
  absl::Status TellFinished(const std::set<SweepId>& changed);
  bool IsFinished(SweepId sweep) const;
  v1::WorkerState StateOf(const WorkerView& view) const;
  absl::Status ExplainSweep(const v1::ExplainRequest& request,
                            v1::ExplainResponse* response);
  // The connected workers of that id, name or host.
  std::vector<WorkerView> WorkersNamed(absl::string_view name) const;
  absl::Status NoSuchWorker(absl::string_view name) const;
  // The counts of sweeps whose jobs changed, where they differ from those
  // written last.
  absl::Status WriteProgress(const std::set<SweepId>& changed);
  absl::Status WriteProgressOf(SweepId sweep, Stage stage);
  // Makes replies of answers_. At the end of a batch: what a lease is filled
  // with, the checkpoint of a training say, may come later in it than the event
  // that gave the lease.
  absl::Status AnswerPolls();
  absl::Status AnswerPoll(const LeaseAnswered& answer);
  // A job whose inputs cannot be given is left out, and its failure added.
  absl::Status FillLease(const LeaseAnswered& answer,
                         v1::LeaseResponse* response,
                         std::vector<Completed>* unreadable);
  // The reply is sent after the commit.
  void Reply(std::function<void(absl::Status)> done, absl::Status status);
  // What is read from other threads.
  void Publish();

  // Constant after Start.
  const LoopOptions options_;
  Store* const store_;
  Clock* const clock_;
  std::string database_uuid_;
  uint64_t epoch_ = 0;

  // Owned by the thread.
  Core core_;
  std::deque<Expansion> expansions_;
  std::map<std::pair<WorkerId, std::string>, std::vector<LeaseCall>> parked_;
  std::deque<LeaseAnswered> answers_;  // of this batch
  std::vector<PendingReply> replies_;
  std::vector<std::string> done_keys_;  // of this batch, in hexadecimal
  std::map<WorkerId, WorkerFacts> workers_told_;
  std::map<SweepId, JobCounts> progress_;  // as written
  std::set<SweepId> finished_;             // that was told

  std::atomic<bool> healthy_ = true;
  std::atomic<uint32_t> workers_ = 0;
  std::atomic<uint64_t> steps_done_ = 0;
  std::atomic<uint64_t> steps_total_ = 0;
  std::array<std::atomic<double>, kStageNumbers> mean_job_us_{};

  mutable Mutex mu_;
  std::condition_variable arrived_;
  std::vector<AnyCall> queue_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);

  std::jthread thread_;
};

}  // namespace iclsweep
