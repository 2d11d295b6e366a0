#include "worker/link/grpc_link.h"

#include <unistd.h>

#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "iclsweep/v1/worker.grpc.pb.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "proto/canonical.h"
#include "proto/convert.h"
#include "proto/rpc.h"

namespace iclsweep {
namespace {

constexpr auto kCallDeadline = std::chrono::seconds(20);
constexpr auto kReleaseDeadline = std::chrono::seconds(3);

Delivery DeliveryOf(int verdict) {
  switch (verdict) {
    case v1::COMPLETION_VERDICT_COMMITTED:
      return Delivery::kCommitted;
    case v1::COMPLETION_VERDICT_ALREADY_COMMITTED:
      return Delivery::kAlreadyCommitted;
    default:
      return Delivery::kStale;
  }
}

class GrpcLink final : public WorkerLink {
 public:
  GrpcLink(const std::string& coordinator, Provenance provenance,
           StageRunner runner)
      : stub_(v1::WorkerService::NewStub(ConnectTo(coordinator))),
        provenance_(std::move(provenance)),
        runner_(std::move(runner)) {}

  absl::StatusOr<Registration> Register(
      const SlotIdentity& slot, const std::vector<LeaseProgress>& held,
      const Predecessor& predecessor) override {
    v1::RegisterRequest request;
    request.set_slot_uuid(slot.uuid);
    request.set_slot_name(slot.name);
    request.set_pid(static_cast<uint32_t>(::getpid()));
    request.set_format_version(kKeyFormatVersion);
    for (const Stage stage : kAllStages) {
      v1::StageNumerics* numerics = request.add_numerics();
      numerics->set_stage(std::string(StageName(stage)));
      numerics->set_version(NumericsVersion(stage));
    }
    *request.mutable_provenance() = ToWire(provenance_);
    for (const LeaseProgress& progress : held)
      *request.add_held() = ToWire(progress);
    if (predecessor.progress.lease.job) {
      v1::PredecessorExit* exit = request.mutable_predecessor();
      exit->set_job_id(predecessor.progress.lease.job.value);
      exit->set_attempt(predecessor.progress.lease.attempt);
      exit->set_steps_run(predecessor.progress.steps_run);
      exit->set_checkpointed(predecessor.progress.checkpointed);
      exit->set_cause(std::string(CauseName(predecessor.cause)));
      exit->set_description(predecessor.description);
      exit->set_log_tail(predecessor.log_tail);
    }
    v1::RegisterResponse response;
    RETURN_IF_ERROR(Invoke(&v1::WorkerService::Stub::Register, request,
                           &response, kCallDeadline));
    Registration registration;
    registration.worker = WorkerId{response.worker_id()};
    registration.database_uuid = response.database_uuid();
    registration.artifact_dir = response.artifact_dir();
    registration.partial_dir = response.partial_dir();
    registration.log_dir = response.log_dir();
    registration.heartbeat_us = int64_t{response.heartbeat_ms()} * 1000;
    registration.checkpoint_every_steps =
        static_cast<int64_t>(response.checkpoint_every_steps());
    for (const v1::HeldLease& revoked : response.revoked())
      registration.revoked.push_back(FromWire(revoked).lease);
    return registration;
  }

  absl::StatusOr<LeaseReply> Lease(WorkerId worker,
                                   const std::string& request_id,
                                   uint32_t max_jobs,
                                   int64_t wait_us) override {
    v1::LeaseRequest request;
    request.set_worker_id(worker.value);
    request.set_request_id(request_id);
    request.set_max_jobs(max_jobs);
    request.set_wait_ms(static_cast<uint32_t>(wait_us / 1000));
    v1::LeaseResponse response;
    RETURN_IF_ERROR(Invoke(&v1::WorkerService::Stub::Lease, request, &response,
                           std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::microseconds(wait_us)) +
                               kCallDeadline));
    LeaseReply reply;
    reply.drain = response.drain();
    for (const v1::LeasedJob& job : response.jobs())
      reply.jobs.push_back(WorkOf(job));
    return reply;
  }

  absl::StatusOr<SyncReply> Sync(
      WorkerId worker, const std::vector<LeaseProgress>& held) override {
    v1::SyncRequest request;
    request.set_worker_id(worker.value);
    for (const LeaseProgress& progress : held)
      *request.add_held() = ToWire(progress);
    v1::SyncResponse response;
    RETURN_IF_ERROR(Invoke(&v1::WorkerService::Stub::Sync, request, &response,
                           kCallDeadline));
    SyncReply reply;
    reply.register_again = response.register_again();
    reply.drain = response.drain();
    reply.drain_now = response.drain_now();
    for (const v1::HeldLease& revoked : response.revoked())
      reply.revoked.push_back(FromWire(revoked).lease);
    return reply;
  }

  absl::StatusOr<std::vector<Delivery>> Complete(
      WorkerId worker, const std::vector<std::string>& encoded) override {
    v1::CompleteRequest request;
    request.set_worker_id(worker.value);
    for (const std::string& completion : encoded) {
      if (!request.add_completions()->ParseFromString(completion))
        return absl::InvalidArgumentError("a spooled result cannot be read");
    }
    v1::CompleteResponse response;
    RETURN_IF_ERROR(Invoke(&v1::WorkerService::Stub::Complete, request,
                           &response, kCallDeadline));
    if (response.verdicts_size() != request.completions_size())
      return absl::InternalError("complete: not as many verdicts as results");
    std::vector<Delivery> deliveries;
    deliveries.reserve(encoded.size());
    for (const int verdict : response.verdicts())
      deliveries.push_back(DeliveryOf(verdict));
    return deliveries;
  }

  absl::Status Release(WorkerId worker,
                       const std::vector<LeaseProgress>& leases,
                       Cause cause) override {
    v1::ReleaseRequest request;
    request.set_worker_id(worker.value);
    for (const LeaseProgress& progress : leases) {
      v1::ReleasedLease* released = request.add_leases();
      released->set_job_id(progress.lease.job.value);
      released->set_attempt(progress.lease.attempt);
      released->set_cause(std::string(CauseName(cause)));
      released->set_steps_run(progress.steps_run);
    }
    return SendRelease(request);
  }

  absl::Status Leave(WorkerId worker) override {
    v1::ReleaseRequest request;
    request.set_worker_id(worker.value);
    request.set_leaving(true);
    return SendRelease(request);
  }

  std::string Encode(const Completion& completion) override {
    return ToWire(completion).SerializeAsString();
  }

  void Cancel() override {
    MutexLock lock(&mu_);
    cancelled_ = true;
    for (grpc::ClientContext* context : in_flight_) context->TryCancel();
  }

 private:
  // A worker's last words: also after Cancel.
  absl::Status SendRelease(const v1::ReleaseRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kReleaseDeadline);
    v1::ReleaseResponse response;
    return FromGrpcStatus(stub_->Release(&context, request, &response));
  }

  template <typename Method, typename Request, typename Response,
            typename Duration>
  absl::Status Invoke(Method method, const Request& request, Response* response,
                      Duration deadline) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    {
      MutexLock lock(&mu_);
      if (cancelled_) return absl::CancelledError("stopping");
      in_flight_.insert(&context);
    }
    const grpc::Status status =
        (stub_.get()->*method)(&context, request, response);
    MutexLock lock(&mu_);
    in_flight_.erase(&context);
    return FromGrpcStatus(status);
  }

  // Recomputes the job's key, so that a worker never computes something else
  // than what the key says.
  LeasedWork WorkOf(const v1::LeasedJob& job) {
    LeasedWork work;
    work.lease = {JobId{job.job_id()}, job.attempt()};
    work.stage = StageFromName(job.stage()).value_or(Stage::kNoop);
    work.key = JobKeyFromBytes(job.job_key()).value_or(JobKey{});
    for (const v1::Dependency& dependency : job.dependencies()) {
      if (!dependency.artifact_path().empty()) {
        work.input_artifacts.push_back(
            {dependency.artifact_path(), dependency.artifact_sha256()});
      }
    }
    work.run = [this, job](
                   const StageContext& context) -> absl::StatusOr<StageResult> {
      RETURN_IF_ERROR(CheckKey(job));
      return runner_(job, context);
    };
    return work;
  }

  static absl::Status CheckKey(const v1::LeasedJob& job) {
    ASSIGN_OR_RETURN(const google::protobuf::Message* inputs, InputsOf(job));
    std::vector<JobKey> parents;
    for (const v1::Dependency& dependency : job.dependencies()) {
      const auto key = JobKeyFromBytes(dependency.job_key());
      if (!key.has_value())
        return absl::InvalidArgumentError(
            absl::StrCat("job ", job.job_id(), ": a dependency has no key"));
      parents.push_back(*key);
    }
    ASSIGN_OR_RETURN(
        const JobKey key,
        ComputeJobKey(*StageFromName(job.stage()), *inputs, parents));
    if (JobKeyFromBytes(job.job_key()) != key) {
      return absl::InvalidArgumentError(absl::StrCat(
          "job ", job.job_id(), ": its key is not the hash of its inputs (",
          ToHex(key), "): coordinator and worker differ"));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<v1::WorkerService::Stub> stub_;
  const Provenance provenance_;
  const StageRunner runner_;
  Mutex mu_;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  std::set<grpc::ClientContext*> in_flight_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::unique_ptr<WorkerLink> MakeGrpcLink(const std::string& coordinator,
                                         Provenance provenance,
                                         StageRunner runner) {
  return std::make_unique<GrpcLink>(coordinator, std::move(provenance),
                                    std::move(runner));
}

}  // namespace iclsweep
