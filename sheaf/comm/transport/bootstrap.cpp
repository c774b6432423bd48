#include <cstring>
#include <string>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

constexpr Tag kTag = make_tag(TagKind::kBootstrap, 0);

// Requests with one peer each. Those that are still in progress at the end, as
// after an error, are abandoned: they refer to memory of the caller.
class Requests {
 public:
  Requests(Transport& transport, std::size_t count)
      : transport_(transport), requests_(count) {}
  ~Requests() {
    for (Request& request : requests_) transport_.abandon(request);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  Request& operator[](std::size_t i) { return requests_[i]; }
  void wait(std::chrono::milliseconds timeout);

 private:
  Transport& transport_;
  std::vector<Request> requests_;
};

void Requests::wait(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    std::string missing;
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (!transport_.test(requests_[i])) missing += concat(" ", i);
    if (missing.empty()) return;
    if (std::chrono::steady_clock::now() > deadline)
      throw TimeoutError(concat("rank ", transport_.rank(),
                                ": startup timed out after ", timeout.count(),
                                " ms; no message from rank",
                                transport_.rank() == 0 ? missing : " 0",
                                "; check that every rank calls init"));
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

std::vector<std::byte> bootstrap_all_gather(Transport& transport,
                                            const void* data, std::size_t bytes,
                                            std::chrono::milliseconds timeout) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  std::vector<std::byte> all(ranks * bytes);
  const auto me = static_cast<std::size_t>(transport.rank());
  std::memcpy(all.data() + me * bytes, data, bytes);
  Requests requests(transport, ranks);
  if (me == 0) {
    for (std::size_t r = 1; r < ranks; ++r)
      requests[r] = transport.receive(static_cast<int>(r), kTag,
                                      all.data() + r * bytes, bytes);
    requests.wait(timeout);
    for (std::size_t r = 1; r < ranks; ++r)
      requests[r] =
          transport.send(static_cast<int>(r), kTag, all.data(), all.size());
  } else {
    requests[0] = transport.send(0, kTag, data, bytes);
    requests.wait(timeout);
    requests[0] = transport.receive(0, kTag, all.data(), all.size());
  }
  requests.wait(timeout);
  return all;
}

}  // namespace sheaf::comm
