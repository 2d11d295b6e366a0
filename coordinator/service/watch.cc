#include "coordinator/service/watch.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <utility>

#include "coordinator/service/explain.h"
#include "coordinator/service/services.h"
#include "proto/base/status_macros.h"
#include "proto/rpc.h"
#include "storage/sqlite/sqlite_store.h"

namespace iclsweep {
namespace {

constexpr int64_t kEventsAtOnce = 1'000;
constexpr auto kPause = std::chrono::milliseconds(300);
// Without news, so that rates and steps stay fresh.
constexpr int kPausesBetweenNews = 3;

absl::Status AddEvents(Database* database, const std::string& sweep,
                       int64_t after, v1::WatchResponse* response) {
  Statement query = database->Prepare(
      "SELECT sequence, at_us, kind, coalesce(sweep.name, ''), event.job_id, "
      "coalesce(job.stage, ''), attempt_number, worker_id, text FROM event "
      "LEFT JOIN sweep USING (sweep_id) LEFT JOIN job ON job.job_id = "
      "event.job_id WHERE sequence > ?2 AND (event.sweep_id = 0 OR sweep.name "
      "= ?1) AND (event.job_id = 0 OR EXISTS (SELECT 1 FROM cell_job JOIN "
      "sweep AS mine USING (sweep_id) WHERE cell_job.job_id = event.job_id AND "
      "mine.name = ?1)) ORDER BY sequence LIMIT ?3");
  query.Bind(sweep).Bind(after).Bind(kEventsAtOnce);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return absl::OkStatus();
    v1::Event* event = response->add_events();
    event->set_sequence(query.Integer(0));
    event->set_at_us(query.Integer(1));
    event->set_kind(query.Text(2));
    event->set_sweep(query.Text(3));
    event->set_job_id(query.Integer(4));
    event->set_stage(query.Text(5));
    event->set_attempt(static_cast<uint32_t>(query.Integer(6)));
    event->set_worker_id(query.Integer(7));
    event->set_text(query.Text(8));
    response->set_sequence(event->sequence());
  }
}

}  // namespace

absl::StatusOr<v1::WatchResponse> ReadWatch(Database* database,
                                            const std::string& sweep,
                                            int64_t after_sequence) {
  v1::WatchResponse response;
  response.set_sequence(after_sequence);
  RETURN_IF_ERROR(database->Execute("BEGIN"));
  absl::Status status = AddEvents(database, sweep, after_sequence, &response);
  if (status.ok()) {
    absl::StatusOr<v1::SweepStatus> read = ReadSweepStatus(database, sweep);
    status = read.status();
    if (status.ok()) *response.mutable_status() = *std::move(read);
  }
  RETURN_IF_ERROR(database->Execute("COMMIT"));
  RETURN_IF_ERROR(status);
  return response;
}

absl::StatusOr<int64_t> LastSubmission(Database* database,
                                       const std::string& sweep) {
  Statement query = database->Prepare(
      "SELECT coalesce(max(sequence), 1) - 1 FROM event JOIN sweep USING "
      "(sweep_id) WHERE name = ? AND kind IN ('sweep_submitted', "
      "'sweep_resumed')");
  query.Bind(sweep);
  RETURN_IF_ERROR(query.Step().status());
  return query.Integer(0);
}

bool IsOver(const v1::WatchResponse& response) {
  return response.events_size() < kEventsAtOnce &&
         (response.status().finished() || response.status().cancelled());
}

// Lives until gRPC says that the stream is over; deletes itself. At any moment
// one thing is under way: a write, a pause, or Finish.
class Watches::Reactor final
    : public grpc::ServerWriteReactor<v1::WatchResponse> {
 public:
  Reactor(Watches* owner, const v1::WatchRequest& request)
      : owner_(owner), request_(request) {}

  // Begins; the stream may be over when this returns.
  void Begin(bool stopped) {
    if (stopped) return Finish(Stopping());
    const absl::Status opened = Open();
    if (!opened.ok()) return Finish(ToGrpcStatus(opened));
    Look();
  }

  // From any thread.
  void End() {
    MutexLock lock(&mu_);
    ended_ = true;
    if (pausing_) alarm_.Cancel();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    if (over_) return Finish(grpc::Status::OK);
    Pause();
  }
  void OnCancel() override { End(); }
  void OnDone() override {
    {
      MutexLock lock(&owner_->mu_);
      owner_->live_.erase(this);
    }
    delete this;
  }

 private:
  static grpc::Status Stopping() {
    return {grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"};
  }

  absl::Status Open() {
    ASSIGN_OR_RETURN(database_, OpenForReading(owner_->database_file_));
    ASSIGN_OR_RETURN(sweep_, SweepNamed(database_.get(), request_.sweep()));
    sequence_ = request_.after_sequence();
    if (request_.has_after_sequence()) return absl::OkStatus();
    ASSIGN_OR_RETURN(sequence_, LastSubmission(database_.get(), sweep_));
    return absl::OkStatus();
  }

  // Writes what is new, or pauses.
  void Look() {
    absl::StatusOr<v1::WatchResponse> read =
        ReadWatch(database_.get(), sweep_, sequence_);
    if (!read.ok()) return Finish(ToGrpcStatus(read.status()));
    const bool news = read->events_size() > 0 || IsOver(*read);
    if (!news && ++quiet_ % kPausesBetweenNews != 1) return Pause();
    response_ = *std::move(read);
    owner_->complete_(&response_);
    over_ = IsOver(response_);
    sequence_ = response_.sequence();
    StartWrite(&response_);
  }

  void Pause() {
    bool ended = false;
    {
      MutexLock lock(&mu_);
      ended = ended_;
      pausing_ = !ended;
      if (!ended)
        alarm_.Set(std::chrono::system_clock::now() + kPause,
                   [this](bool /*ok*/) { Wake(); });
    }
    if (ended) Finish(Stopping());
  }

  void Wake() {
    bool ended = false;
    {
      MutexLock lock(&mu_);
      pausing_ = false;
      ended = ended_;
    }
    if (ended) return Finish(Stopping());
    Look();
  }

  Watches* const owner_;
  const v1::WatchRequest request_;
  int64_t sequence_ = 0;
  std::string sweep_;
  std::unique_ptr<Database> database_;
  v1::WatchResponse response_;
  bool over_ = false;
  int quiet_ = 0;
  Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool pausing_ ABSL_GUARDED_BY(mu_) = false;
  grpc::Alarm alarm_;
};

grpc::ServerWriteReactor<v1::WatchResponse>* Watches::Start(
    const v1::WatchRequest& request) {
  auto* reactor = new Reactor(this, request);
  bool stopped = false;
  {
    MutexLock lock(&mu_);
    stopped = stopped_;
    live_.insert(reactor);
  }
  reactor->Begin(stopped);
  return reactor;
}

void Watches::Stop() {
  MutexLock lock(&mu_);
  stopped_ = true;
  for (Reactor* reactor : live_) reactor->End();
}

}  // namespace iclsweep
