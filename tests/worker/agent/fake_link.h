// A coordinator that follows a script: it answers each call with the next
// prepared answer and writes down what it was asked. A Lease beyond the script
// ends the test's run (on_idle). At the end nothing of the script may be left.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/mutex.h"
#include "worker/agent/worker_link.h"

namespace iclsweep::testing {

inline std::string TextOf(const LeaseRef& lease) {
  return absl::StrCat(lease.job.value, "/", lease.attempt);
}
inline std::string TextOf(const std::vector<LeaseProgress>& held) {
  return absl::StrJoin(held, ",",
                       [](std::string* out, const LeaseProgress& progress) {
                         absl::StrAppend(out, TextOf(progress.lease),
                                         progress.waiting ? " waiting" : "");
                       });
}

class FakeLink final : public WorkerLink {
 public:
  using Work = std::vector<LeasedWork>;

  // The script. Registrations and syncs beyond it get the default answer.
  std::deque<absl::StatusOr<Registration>> registrations;
  std::deque<absl::StatusOr<Work>> leases;
  std::deque<absl::StatusOr<Delivery>> deliveries;
  std::deque<absl::Status> releases;
  Registration default_registration;
  std::atomic<bool> drain = false;  // every lease is answered with it
  // Called on the agent's thread when the leases are used up; must make Run
  // end. Before a Register, a Lease and a Complete is answered.
  std::function<void()> on_idle;
  std::function<void()> on_register;
  std::function<void()> on_lease;
  std::function<void()> on_complete;
  // Called on the heartbeat's thread.
  std::function<SyncReply()> on_sync;

  absl::StatusOr<Registration> Register(
      const SlotIdentity& slot, const std::vector<LeaseProgress>& held,
      const Predecessor& predecessor) override {
    if (on_register) on_register();
    Predecessor copy = predecessor;
    Write(absl::StrCat("register ", slot.name, " held=[", TextOf(held), "]"));
    MutexLock lock(&mu_);
    slot_uuid_ = slot.uuid;
    predecessors_.push_back(std::move(copy));
    ++registered_;
    if (!registrations.empty()) return Pop(&registrations);
    Registration registration = default_registration;
    registration.worker = WorkerId{100 + registered_};
    return registration;
  }
  absl::StatusOr<LeaseReply> Lease(WorkerId worker, const std::string& request,
                                   uint32_t max_jobs,
                                   int64_t wait_us) override {
    Write(absl::StrCat("lease ", worker.value));
    if (on_lease) on_lease();
    {
      MutexLock lock(&mu_);
      requests_.push_back(request);
      waits_.push_back(wait_us);
      max_jobs_.push_back(max_jobs);
      if (!leases.empty()) return ReplyOf(Pop(&leases));
      if (drain) return ReplyOf(Work());
    }
    if (on_idle) on_idle();
    MutexLock lock(&mu_);
    EXPECT_TRUE(cancelled_) << "an idle worker was stopped without Cancel";
    return absl::CancelledError("stopping");
  }
  absl::StatusOr<SyncReply> Sync(
      WorkerId worker, const std::vector<LeaseProgress>& held) override {
    {
      MutexLock lock(&mu_);
      syncs_.push_back(absl::StrCat(worker.value, " [", TextOf(held), "]"));
      last_synced_ = worker;
      changed_.notify_all();
    }
    return on_sync ? on_sync() : SyncReply();
  }
  absl::StatusOr<std::vector<Delivery>> Complete(
      WorkerId worker, const std::vector<std::string>& encoded) override {
    Write(absl::StrCat("complete ", worker.value, " ",
                       absl::StrJoin(encoded, " ")));
    if (on_complete) on_complete();
    absl::StatusOr<Delivery> delivery = Delivery::kCommitted;
    MutexLock lock(&mu_);
    if (!deliveries.empty()) delivery = Pop(&deliveries);
    if (!delivery.ok()) return delivery.status();
    return std::vector<Delivery>(encoded.size(), *delivery);
  }
  absl::Status Release(WorkerId worker, const std::vector<LeaseProgress>& held,
                       Cause cause) override {
    std::string steps;
    for (const LeaseProgress& progress : held)
      absl::StrAppend(&steps, steps.empty() ? "" : ",", progress.steps_run);
    Write(absl::StrCat("release ", worker.value, " ", TextOf(held), " ",
                       CauseName(cause), " steps=", steps));
    MutexLock lock(&mu_);
    if (!releases.empty()) return Pop(&releases);
    return absl::OkStatus();
  }
  absl::Status Leave(WorkerId worker) override {
    MutexLock lock(&mu_);
    left_.push_back(worker.value);
    return absl::OkStatus();
  }
  std::string Encode(const Completion& c) override {
    std::string text =
        absl::StrCat("{", TextOf(c.lease), " ", AttemptOutcomeName(c.outcome),
                     " cause=", CauseName(c.cause), " message=", c.message,
                     " steps=", c.steps_run, " us=", c.duration_us,
                     " db=", c.database_uuid, " on=", c.provenance.device_kind);
    for (const Measurement& m : c.result.measurements)
      absl::StrAppend(&text, " ", m.name, "=", m.value);
    return absl::StrCat(text, "}");
  }
  void Cancel() override {
    MutexLock lock(&mu_);
    cancelled_ = true;
  }

  // ---- what happened

  // Blocks until this worker (100 + the number of its registration) has synced.
  void AwaitSyncOf(int64_t worker) {
    MutexLock lock(&mu_);
    while (last_synced_.value != worker) lock.Wait(changed_);
  }
  // Blocks until a sync begins after this.
  void AwaitNextSync() {
    MutexLock lock(&mu_);
    const size_t before = syncs_.size();
    while (syncs_.size() == before) lock.Wait(changed_);
  }
  std::vector<std::string> log() { return Locked(log_); }
  std::vector<std::string> syncs() { return Locked(syncs_); }
  std::vector<std::string> requests() { return Locked(requests_); }
  std::vector<int64_t> waits() { return Locked(waits_); }
  std::vector<uint32_t> max_jobs() { return Locked(max_jobs_); }
  std::vector<Predecessor> predecessors() { return Locked(predecessors_); }
  std::vector<int64_t> left() { return Locked(left_); }
  std::string slot_uuid() { return Locked(slot_uuid_); }

  void ExpectScriptUsedUp() {
    MutexLock lock(&mu_);
    EXPECT_TRUE(registrations.empty()) << "registrations left";
    EXPECT_TRUE(leases.empty()) << "leases left";
    EXPECT_TRUE(deliveries.empty()) << "deliveries left";
    EXPECT_TRUE(releases.empty()) << "releases left";
  }

 private:
  absl::StatusOr<LeaseReply> ReplyOf(const absl::StatusOr<Work>& work) const {
    if (!work.ok()) return work.status();
    return LeaseReply{*work, drain};
  }
  template <typename T>
  static T Pop(std::deque<T>* queue) {
    T front = std::move(queue->front());
    queue->pop_front();
    return front;
  }
  template <typename T>
  T Locked(const T& value) {
    MutexLock lock(&mu_);
    return value;
  }
  void Write(std::string line) {
    MutexLock lock(&mu_);
    log_.push_back(std::move(line));
  }

  Mutex mu_;
  std::condition_variable changed_;
  bool cancelled_ = false;
  int registered_ = 0;
  WorkerId last_synced_;
  std::string slot_uuid_;
  std::vector<std::string> log_;
  std::vector<std::string> syncs_;
  std::vector<std::string> requests_;
  std::vector<int64_t> waits_;
  std::vector<uint32_t> max_jobs_;
  std::vector<Predecessor> predecessors_;
  std::vector<int64_t> left_;
};

}  // namespace iclsweep::testing
