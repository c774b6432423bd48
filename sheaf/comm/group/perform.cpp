#include "sheaf/comm/group/perform.hpp"

#include <atomic>
#include <cstdlib>
#include <fstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/failure_note.hpp"
#include "sheaf/base/log.hpp"

namespace sheaf::comm {
namespace {

std::atomic<const Observer*> current_observer{nullptr};

std::string recent_path(int rank) {
  const char* folder = std::getenv("SHEAF_DUMP_DIR");
  return concat(folder ? folder : ".", "/sheaf.recent.", rank, ".txt");
}

void write_recent(Runtime& runtime) {
  const std::string path = recent_path(runtime.rank());
  std::ofstream file(path);
  const std::int64_t now = now_ns();
  for (const FlightRecord& record :
       runtime.memory().header(runtime.host_map().local).flight.all())
    file << describe(record, now) << '\n';
  if (file)
    log_error("rank {}: the last operations were written to {}", runtime.rank(),
              path);
}

}  // namespace

void set_observer(const Observer* observer) noexcept {
  current_observer.store(observer, std::memory_order_release);
}

Observed::Observed(const Fingerprint& call, int ranks)
    : observer_(current_observer.load(std::memory_order_acquire)) {
  if (observer_) observer_->begin(call, ranks);
}

void note_lost_peer(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const CommError& failure) {
    leave_failure_note(FailureCause::kOther, failure.what());
  } catch (...) {  // an error of this rank itself
  }
}

void note_failure(GroupCore& group) {
  note_lost_peer(std::current_exception());
  Runtime& runtime = group.runtime();
  const bool is_first = !runtime.has_failed();
  group.fail(std::current_exception());
  runtime.mark_failed();
  if (is_first) write_recent(runtime);
}

}  // namespace sheaf::comm
