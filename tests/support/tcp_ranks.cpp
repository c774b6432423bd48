#include "tests/support/tcp_ranks.hpp"

#include <barrier>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sheaf::test {

void run_transports(
    int ranks,
    const std::function<void(std::unique_ptr<comm::Transport>&)>& body,
    bool encrypts) {
  std::vector<std::string> cards(static_cast<std::size_t>(ranks));
  std::barrier everybody(ranks);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto meet = [&](const std::string& mine) {
        cards[static_cast<std::size_t>(rank)] = mine;
        everybody.arrive_and_wait();
        return comm::MeetingResult{.cards = cards, .session = {}};
      };
      try {
        comm::TcpOptions options{.interface = "lo", .address = {}};
        options.encrypts = encrypts;
        auto transport = comm::make_tcp_transport(rank, ranks, options, meet);
        body(transport);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace sheaf::test
