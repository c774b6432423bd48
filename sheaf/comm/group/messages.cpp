#include "sheaf/comm/group/messages.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

constexpr Tag kPosition = kPositionMask;  // not used by any pipeline

void gather_host(CollectiveCall& call, std::byte* all, std::size_t bytes) {
  if (bytes == 0) return;  // `all` may be null
  const auto& ranks = call.host_map().local_ranks();
  for (int member = 0; member < call.local().size(); ++member)
    std::memcpy(all + static_cast<std::size_t>(
                          ranks[static_cast<std::size_t>(member)]) *
                          bytes,
                call.payload(member, bytes), bytes);
}

void gather_other_hosts(CollectiveCall& call, const void* mine, std::byte* all,
                        std::size_t bytes) {
  Messages messages(call);
  for (int rank = 0; rank < call.host_map().size(); ++rank) {
    if (call.host_map().is_local(rank)) continue;
    messages.receive(rank, all + static_cast<std::size_t>(rank) * bytes, bytes);
    messages.send(rank, mine, bytes);
  }
  messages.wait();
}

}  // namespace

Messages::~Messages() {
  for (Request& request : requests_)
    call_.group().runtime().transport().abandon(request);
}

void Messages::send(int rank, const void* data, std::size_t bytes) {
  GroupCore& group = call_.group();
  const auto* from = static_cast<const std::byte*>(data);
  for (std::size_t at = 0; at < bytes; at += kLargestMessage)
    requests_.push_back(group.runtime().transport().send(
        group.world_rank(rank), make_tag(TagKind::kData, group.id(), kPosition),
        from + at, std::min(kLargestMessage, bytes - at)));
}

void Messages::receive(int rank, void* data, std::size_t bytes) {
  GroupCore& group = call_.group();
  auto* to = static_cast<std::byte*>(data);
  for (std::size_t at = 0; at < bytes; at += kLargestMessage)
    requests_.push_back(group.runtime().transport().receive(
        group.world_rank(rank), make_tag(TagKind::kData, group.id(), kPosition),
        to + at, std::min(kLargestMessage, bytes - at)));
}

void Messages::wait() {
  Transport& transport = call_.group().runtime().transport();
  while (!requests_.empty()) {
    const auto ended = std::remove_if(
        requests_.begin(), requests_.end(),
        [&](Request& request) { return transport.test(request); });
    if (ended == requests_.end()) {
      call_.idle();
    } else {
      requests_.erase(ended, requests_.end());
      call_.progress();
    }
  }
}

std::vector<std::byte> all_gather_small(GroupCore& group, std::string_view name,
                                        const void* mine, std::size_t bytes) {
  SHEAF_ASSERT(bytes <= kSmallBytes, bytes, " bytes for ", name);
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(group.size()));
  const Fingerprint fingerprint = make_fingerprint(
      Operation::kAllGather, DType::kU8, all.size(), {.name = name});
  perform(group, fingerprint, std::chrono::milliseconds(0), mine, bytes,
          [&](CollectiveCall& call) {
            gather_host(call, all.data(), bytes);
            if (call.host_map().host_count() > 1)
              gather_other_hosts(call, mine, all.data(), bytes);
          });
  return all;
}

}  // namespace sheaf::comm
