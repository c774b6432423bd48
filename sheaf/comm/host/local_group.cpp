#include "sheaf/comm/host/local_group.hpp"

#include <new>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

// Precedes the blocks: the number of members that have not left.
struct alignas(4096) RegionHeader {
  std::atomic<std::uint32_t> open_count{0};
};

MemberBlock* block_at(std::byte* region, int member) {
  return reinterpret_cast<MemberBlock*>(region + sizeof(RegionHeader)) + member;
}

}  // namespace

std::size_t LocalGroup::region_bytes(int ranks) {
  return sizeof(RegionHeader) +
         static_cast<std::size_t>(ranks) * sizeof(MemberBlock) +
         alignof(RegionHeader);
}

void LocalGroup::initialize(std::byte* region, int ranks) {
  new (region) RegionHeader;
  reinterpret_cast<RegionHeader*>(region)->open_count =
      static_cast<std::uint32_t>(ranks);
  for (int i = 0; i < ranks; ++i) {
    MemberBlock* block = block_at(region, i);
    for (auto& slot : block->slots) new (&slot) Slot;
    new (&block->progress) Progress;
  }
}

LocalGroup::LocalGroup(std::byte* region, int ranks, int me) : me_(me) {
  open_count_ = &reinterpret_cast<RegionHeader*>(region)->open_count;
  for (int i = 0; i < ranks; ++i) members_.push_back(block_at(region, i));
}

void LocalGroup::arrive(const Fingerprint& call, const void* data,
                        std::size_t bytes) {
  Slot& mine = slot(me_, call.sequence);
  mine.call = call;
  if (bytes) {
    SHEAF_ASSERT(bytes <= kSmallBytes, "payload of ", bytes, " bytes");
    std::byte* to = bytes <= kInlineBytes
                        ? mine.data.data()
                        : block(me_).small[call.sequence & 1].data();
    std::memcpy(to, data, bytes);
  }
  publish(mine.sequence, mine.sleepers, call.sequence);
}

const std::byte* LocalGroup::payload(int member, std::uint32_t sequence,
                                     std::size_t bytes) const {
  return bytes <= kInlineBytes ? slot(member, sequence).data.data()
                               : block(member).small[sequence & 1].data();
}

bool LocalGroup::leave() {
  return open_count_ && open_count_->fetch_sub(1) == 1;
}

}  // namespace sheaf::comm
