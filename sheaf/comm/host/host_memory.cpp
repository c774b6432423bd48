#include "sheaf/comm/host/host_memory.hpp"

#include <cstring>
#include <new>

#include "sheaf/comm/network/secret.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kHeaderBytes = (sizeof(RankHeader) + 4095) / 4096 * 4096;

}  // namespace

void ReturnedBlocks::put(std::uint64_t offset) noexcept {
  for (auto& place : offsets_) {
    std::uint64_t empty = 0;
    if (place.compare_exchange_strong(empty, offset)) return;
  }
  // The list is full: the block remains allocated until the run ends.
}

std::uint64_t ReturnedBlocks::take() noexcept {
  for (auto& place : offsets_)
    if (const std::uint64_t offset = place.exchange(0)) return offset;
  return 0;
}

HostMemory::HostMemory(std::size_t heap_bytes)
    : heap_(heap_bytes, kHeaderBytes) {
  heap_.file().commit(0, kHeaderBytes);
  auto* const header = new (heap_.file().data()) RankHeader;
  const Bytes32 random = random_bytes();
  std::memcpy(&header->nonce, random.data(), sizeof header->nonce);
  heap_.file().lock_as_owner();
}

HeapName HostMemory::name() const { return heap_.file().name(); }

void HostMemory::connect(const std::vector<HeapName>& names, int mine) {
  mine_ = mine;
  peers_.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i)
    if (static_cast<int>(i) != mine) peers_[i] = MemoryFile::open(names[i]);
}

std::byte* HostMemory::base(int local) const {
  return local == mine_ ? heap_.file().data()
                        : peers_[static_cast<std::size_t>(local)].data();
}

RankHeader& HostMemory::header(int local) const {
  return *reinterpret_cast<RankHeader*>(base(local));
}

HostMemory::Life HostMemory::life_of(int local) const {
  if (local == mine_) return Life::kAlive;
  // In this order: a rank sets its state before its process ends.
  const bool is_alive =
      peers_[static_cast<std::size_t>(local)].is_owner_alive();
  const std::uint32_t leave = header(local).leave.load();
  if (leave == RankHeader::kHasLeft) return Life::kLeft;
  if (!is_alive) return Life::kDead;
  return leave == RankHeader::kLeaves ? Life::kLeft : Life::kAlive;
}

void HostMemory::begin_leave() {
  header(mine_).leave.store(RankHeader::kLeaves);
}
void HostMemory::end_leave() {
  header(mine_).leave.store(RankHeader::kHasLeft);
}

FlightRing& HostMemory::board(int rank) const {
  return reinterpret_cast<FlightRing*>(base(0) + header(0).board.load())[rank];
}

RankEnd& HostMemory::remote_end(int rank) const {
  static RankEnd unknown;  // used until the first rank has made the board
  const std::uint64_t ends = header(0).ends.load();
  return ends ? reinterpret_cast<RankEnd*>(base(0) + ends)[rank] : unknown;
}

void HostMemory::make_board(int ranks) {
  std::byte* block = heap_.allocate(
      static_cast<std::size_t>(ranks) * sizeof(FlightRing), /*commit=*/false);
  header(mine_).board.store(offset(block));
  block = heap_.allocate(static_cast<std::size_t>(ranks) * sizeof(RankEnd),
                         /*commit=*/false);
  header(mine_).ends.store(offset(block));
}

void HostMemory::collect_returned() {
  auto& returned = header(mine_).returned;
  while (const std::uint64_t offset = returned.take())
    heap_.free(heap_.file().data() + offset);
}

SharedBuffers HostMemory::shared(const void* input, const void* output,
                                 std::size_t bytes) const {
  SharedBuffers found;
  if (input && is_mine(input, bytes)) found.input = offset(input);
  if (output && is_mine(output, bytes)) found.output = offset(output);
  return found;
}

}  // namespace sheaf::comm
