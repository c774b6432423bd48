#include "sheaf/comm/group/messages.hpp"

#include <algorithm>

#include "sheaf/comm/transport/tags.hpp"

namespace sheaf::comm {
namespace {

constexpr Tag kPlace = kPlaceMask;  // not used by any pipeline

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
        group.world_rank(rank), make_tag(TagKind::kData, group.id(), kPlace),
        from + at, std::min(kLargestMessage, bytes - at)));
}

void Messages::receive(int rank, void* data, std::size_t bytes) {
  GroupCore& group = call_.group();
  auto* to = static_cast<std::byte*>(data);
  for (std::size_t at = 0; at < bytes; at += kLargestMessage)
    requests_.push_back(group.runtime().transport().receive(
        group.world_rank(rank), make_tag(TagKind::kData, group.id(), kPlace),
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

}  // namespace sheaf::comm
