#include "sheaf/comm/group/tell_all.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/messages.hpp"
#include "sheaf/comm/group/perform.hpp"

namespace sheaf::comm {
namespace {

void hear_host(Call& call, std::byte* all, std::size_t bytes) {
  const auto& ranks = call.layout().local_ranks();
  for (int member = 0; member < call.local().size(); ++member)
    std::memcpy(all + static_cast<std::size_t>(
                          ranks[static_cast<std::size_t>(member)]) *
                          bytes,
                call.payload(member, bytes), bytes);
}

void hear_others(Call& call, const void* mine, std::byte* all,
                 std::size_t bytes) {
  Messages messages(call);
  for (int rank = 0; rank < call.layout().size(); ++rank) {
    if (call.layout().is_local(rank)) continue;
    messages.receive(rank, all + static_cast<std::size_t>(rank) * bytes, bytes);
    messages.send(rank, mine, bytes);
  }
  messages.wait();
}

}  // namespace

std::vector<std::byte> tell_all(GroupCore& group, std::string_view name,
                                const void* mine, std::size_t bytes) {
  SHEAF_ASSERT(bytes <= kSmallBytes, bytes, " bytes for ", name);
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(group.size()));
  const Fingerprint fingerprint = make_fingerprint(
      Operation::kAllGather, DType::kU8, all.size(), {.name = name});
  perform(group, fingerprint, std::chrono::milliseconds(0), mine, bytes,
          [&](Call& call) {
            hear_host(call, all.data(), bytes);
            if (call.layout().host_count() > 1)
              hear_others(call, mine, all.data(), bytes);
          });
  return all;
}

}  // namespace sheaf::comm
