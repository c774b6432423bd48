#include "sheaf/comm/group/group.hpp"

#include <algorithm>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/group/make_group.hpp"
#include "sheaf/comm/process/mailroom.hpp"

namespace sheaf::comm {
namespace {

// The data that every rank of the parent contributes to a split.
struct Ballot {
  std::int32_t color;
  std::int32_t key;
  std::uint32_t serial;  // lowest serial not yet used by a group of this rank
  std::array<std::uint8_t, kMaxGroups / 8> used;
};

std::array<std::uint8_t, kMaxGroups / 8> packed(const GroupIds& ids) {
  std::array<std::uint8_t, kMaxGroups / 8> bytes{};
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i]) bytes[i / 8] |= static_cast<std::uint8_t>(1u << (i % 8));
  return bytes;
}

// The lowest id that is free on all ranks.
int free_id(const std::vector<Ballot>& ballots) {
  for (int id = 0; id < kMaxGroups; ++id) {
    const auto at = static_cast<std::size_t>(id);
    const bool is_used = std::any_of(
        ballots.begin(), ballots.end(),
        [&](const Ballot& b) { return b.used[at / 8] >> (at % 8) & 1; });
    if (!is_used) return id;
  }
  throw UsageError(
      concat("more than ", kMaxGroups, " groups are alive; destroy some"));
}

std::uint32_t free_serial(const std::vector<Ballot>& ballots) {
  std::uint32_t serial = 0;
  for (const Ballot& ballot : ballots) serial = std::max(serial, ballot.serial);
  return serial;
}

template <class T>
std::vector<T> gather_values(const Group& group, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(group.size()));
  all_gather(group, ConstBuffer(&mine, sizeof mine, DType::kU8),
             Buffer(all.data(), all.size() * sizeof(T), DType::kU8),
             {.name = "split"})
      .wait();
  return all;
}

}  // namespace

GroupCore& Group::core() const {
  SHEAF_CHECK(core_, "this rank is not in the group; check is_member() first");
  return *core_;
}

int Group::rank() const { return core().rank(); }
int Group::size() const { return core().size(); }
int Group::id() const { return core().id(); }
int Group::local_rank() const { return core().host_map().local; }
int Group::local_size() const { return core().host_map().local_count(); }
int Group::host_index() const { return core().host_map().host; }
int Group::host_count() const { return core().host_map().host_count(); }
int Group::world_rank(int rank) const { return core().world_rank(rank); }

std::string Group::host_name() const {
  Runtime& runtime = core().runtime();
  return runtime
      .host_names()[static_cast<std::size_t>(runtime.host_map().host)];
}

Group Group::split(int color, int key) const {
  GroupCore& parent = core();
  const Mailroom::FutureGroup future(parent.runtime().mailroom());
  const auto ballots = gather_values<Ballot>(
      *this,
      {color, key, future.serial(), packed(parent.runtime().used_ids())});
  const GroupName name{free_id(ballots), free_serial(ballots)};
  std::vector<int> members;
  for (int rank = 0; rank < size(); ++rank)
    if (color >= 0 && ballots[static_cast<std::size_t>(rank)].color == color)
      members.push_back(rank);
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return ballots[static_cast<std::size_t>(a)].key <
           ballots[static_cast<std::size_t>(b)].key;
  });
  // The first member of each host allocates the shared region; all ranks learn
  // its offset.
  const GroupDraft draft(parent.shared_runtime(), parent.host_map(), members,
                         parent.rank());
  const auto offsets = gather_values(*this, draft.region_offset());
  if (members.empty()) return {};
  std::vector<int> world_ranks;
  for (const int member : members)
    world_ranks.push_back(parent.world_rank(member));
  const int first = members[static_cast<std::size_t>(draft.first_of_host())];
  return Group(draft.make(name, std::move(world_ranks),
                          offsets[static_cast<std::size_t>(first)]));
}

namespace {

std::string fault_in(std::span<const int> ranks, int size) {
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size)
      return concat("rank ", rank, " is not in the group of ", size, " ranks");
    if (std::count(ranks.begin(), ranks.end(), rank) > 1)
      return concat("rank ", rank, " is named more than once");
  }
  return "";
}

// Summary of the list that a rank passed to new_group(), compared between
// ranks.
struct RankList {
  std::uint64_t hash = 0xcbf29ce484222325u;
  std::int64_t count = 0;
  std::int64_t is_faulty = 0;
};

}  // namespace

Group Group::new_group(std::span<const int> ranks) const {
  const std::string fault = fault_in(ranks, size());
  RankList mine{.count = static_cast<std::int64_t>(ranks.size()),
                .is_faulty = !fault.empty()};
  for (const int rank : ranks)
    mine.hash = (mine.hash ^ static_cast<std::uint32_t>(rank)) * 0x100000001b3u;
  const auto lists = gather_values(*this, mine);
  SHEAF_CHECK(fault.empty(), "new_group: ", fault);
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    SHEAF_CHECK(!lists[rank].is_faulty, "new_group: rank ", rank,
                " passed ranks that do not exist, or a duplicate rank");
    SHEAF_CHECK(lists[rank].hash == lists[0].hash &&
                    lists[rank].count == lists[0].count,
                "new_group: rank ", rank, " passed a different list (",
                lists[rank].count, " ranks) than rank 0 (", lists[0].count,
                " ranks)"
                "; all ranks must pass the same list, also those not in it");
  }
  const auto found = std::find(ranks.begin(), ranks.end(), rank());
  if (found == ranks.end()) return split(-1);
  return split(0, static_cast<int>(found - ranks.begin()));
}

std::shared_ptr<std::byte> Group::allocate_bytes(std::size_t bytes) const {
  auto runtime = core().shared_runtime();
  std::byte* block = runtime->memory().heap().allocate(bytes);
  return {block,
          [runtime](std::byte* at) { runtime->memory().heap().free(at); }};
}

void Group::set_patient(bool is_patient) const {
  core().set_patient(is_patient);
}

std::string Group::recent_operations() const {
  Runtime& runtime = core().runtime();
  std::string text;
  const std::int64_t now = now_ns();
  for (const FlightRecord& record :
       runtime.memory().header(runtime.host_map().local).flight.all())
    text += describe(record, now) + "\n";
  return text;
}

}  // namespace sheaf::comm
