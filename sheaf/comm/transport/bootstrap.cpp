#include <cstring>
#include <string>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

constexpr Tag kTag = make_tag(TagKind::kBootstrap, 0);

void wait_for(Transport& transport, std::vector<Request>& requests,
              std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    std::string missing;
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (!transport.test(requests[i])) missing += concat(" ", i);
    if (missing.empty()) return;
    if (std::chrono::steady_clock::now() > deadline)
      throw TimeoutError(concat("rank ", transport.rank(),
                                ": start-up timed out after ", timeout.count(),
                                " ms; no message from rank",
                                transport.rank() == 0 ? missing : " 0",
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
  std::vector<Request> requests(ranks);
  if (me == 0) {
    for (std::size_t r = 1; r < ranks; ++r)
      requests[r] = transport.receive(static_cast<int>(r), kTag,
                                      all.data() + r * bytes, bytes);
    wait_for(transport, requests, timeout);
    for (std::size_t r = 1; r < ranks; ++r)
      requests[r] =
          transport.send(static_cast<int>(r), kTag, all.data(), all.size());
  } else {
    requests[0] = transport.send(0, kTag, data, bytes);
    wait_for(transport, requests, timeout);
    requests[0] = transport.receive(0, kTag, all.data(), all.size());
  }
  wait_for(transport, requests, timeout);
  return all;
}

}  // namespace sheaf::comm
