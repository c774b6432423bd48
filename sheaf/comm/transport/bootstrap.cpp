#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::steady_clock;

constexpr Tag kTag = make_tag(TagKind::kBootstrap, 0);
// Time to send the reason of a failure to the other ranks.
constexpr auto kFailureTime = std::chrono::milliseconds(500);

// Rank 0 sends it before the result.
struct Outcome {
  enum Kind : std::uint32_t { kSuccess, kTimeout, kFailure };
  Kind kind = kSuccess;
  char text[508] = {};
};

// Requests with one peer each. Those that are still in progress at the end, as
// after an error, are abandoned: they refer to memory of the caller.
class Requests {
 public:
  Requests(Transport& transport, std::size_t count, const StartCheck& check)
      : transport_(transport), check_(check), requests_(count) {}
  ~Requests() {
    for (Request& request : requests_) transport_.abandon(request);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  Request& operator[](std::size_t i) { return requests_[i]; }
  // Throws TimeoutError after the timeout and `extra`.
  void wait(std::chrono::milliseconds timeout,
            std::chrono::milliseconds extra = {});

 private:
  std::string missing();

  Transport& transport_;
  const StartCheck& check_;
  std::vector<Request> requests_;
};

std::string Requests::missing() {
  std::string ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (!transport_.test(requests_[i])) ranks += concat(" ", i);
  return ranks;
}

void Requests::wait(std::chrono::milliseconds timeout,
                    std::chrono::milliseconds extra) {
  const auto deadline = steady_clock::now() + timeout + extra;
  for (std::string ranks = missing(); !ranks.empty(); ranks = missing()) {
    if (check_) check_();
    transport_.beat();
    if (steady_clock::now() > deadline)
      throw TimeoutError(concat("rank ", transport_.rank(),
                                ": startup timed out after ", timeout.count(),
                                " ms; no message from rank",
                                transport_.rank() == 0 ? ranks : " 0",
                                "; check that every rank calls init"));
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Sends the reason to all ranks that can still be reached.
void report(Transport& transport, Outcome::Kind kind, const std::string& why) {
  Outcome outcome{.kind = kind};
  why.copy(outcome.text, sizeof outcome.text - 1);
  std::vector<Request> requests(static_cast<std::size_t>(transport.size()));
  const auto for_each_reachable = [&](const auto& act) {
    bool is_done = true;
    for (int rank = 1; rank < transport.size(); ++rank) try {
        is_done =
            act(rank, requests[static_cast<std::size_t>(rank)]) && is_done;
      } catch (const TransportError&) {  // the cause of the failure, perhaps
      }
    return is_done;
  };
  for_each_reachable([&](int rank, Request& request) {
    request = transport.send(rank, kTag, &outcome, sizeof outcome);
    return true;
  });
  const auto deadline = steady_clock::now() + kFailureTime;
  while (!for_each_reachable([&](int, Request& request) {
    return transport.test(request);
  }) && steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  for (Request& request : requests) transport.abandon(request);
}

void gather_at_zero(Transport& transport, std::vector<std::byte>& all,
                    std::size_t bytes, std::chrono::milliseconds timeout,
                    const StartCheck& check) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  Requests requests(transport, ranks, check);
  for (std::size_t r = 1; r < ranks; ++r)
    requests[r] = transport.receive(static_cast<int>(r), kTag,
                                    all.data() + r * bytes, bytes);
  requests.wait(timeout);
}

void send_to_all(Transport& transport, const void* data, std::size_t bytes,
                 std::chrono::milliseconds timeout, const StartCheck& check) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  Requests requests(transport, ranks, check);
  for (std::size_t r = 1; r < ranks; ++r)
    requests[r] = transport.send(static_cast<int>(r), kTag, data, bytes);
  requests.wait(timeout);
}

void run_rank_zero(Transport& transport, std::vector<std::byte>& all,
                   std::size_t bytes, std::chrono::milliseconds timeout,
                   const StartCheck& check) {
  try {
    gather_at_zero(transport, all, bytes, timeout, check);
  } catch (const TimeoutError& error) {
    report(transport, Outcome::kTimeout, error.what());
    throw;
  } catch (const Error& error) {
    report(transport, Outcome::kFailure, error.what());
    throw;
  }
  const Outcome success;
  send_to_all(transport, &success, sizeof success, timeout, check);
  send_to_all(transport, all.data(), all.size(), timeout, check);
}

void run_other(Transport& transport, const void* mine, std::size_t bytes,
               std::vector<std::byte>& all, std::chrono::milliseconds timeout,
               const StartCheck& check) {
  Outcome outcome;
  const auto finish = [&](Request request) {
    Requests requests(transport, 1, check);
    requests[0] = std::move(request);
    // Rank 0 reports its own timeout, with the ranks that are missing.
    requests.wait(timeout, 2 * kFailureTime);
  };
  finish(transport.send(0, kTag, mine, bytes));
  finish(transport.receive(0, kTag, &outcome, sizeof outcome));
  outcome.text[sizeof outcome.text - 1] = '\0';
  if (outcome.kind == Outcome::kTimeout) throw TimeoutError(outcome.text);
  if (outcome.kind != Outcome::kSuccess) throw CommError(outcome.text);
  finish(transport.receive(0, kTag, all.data(), all.size()));
}

}  // namespace

std::vector<std::byte> bootstrap_all_gather(Transport& transport,
                                            const void* data, std::size_t bytes,
                                            std::chrono::milliseconds timeout,
                                            const StartCheck& check) {
  std::vector<std::byte> all(static_cast<std::size_t>(transport.size()) *
                             bytes);
  std::memcpy(all.data() + static_cast<std::size_t>(transport.rank()) * bytes,
              data, bytes);
  if (transport.rank() == 0)
    run_rank_zero(transport, all, bytes, timeout, check);
  else
    run_other(transport, data, bytes, all, timeout, check);
  return all;
}

}  // namespace sheaf::comm
