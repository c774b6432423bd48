#include "sheaf/comm/process/runtime.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/comm/process/mailroom.hpp"
#include "sheaf/comm/process/monitor.hpp"
#include "sheaf/comm/process/rescue.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

// Information that every rank sends to the others at startup.
struct Card {
  // Name, boot id and PID namespace: two machines may share a name, and
  // containers of one machine cannot open the memory of each other's processes.
  char host[128] = {};
  HeapName heap{};
  MonitorAddress monitor;
};

// SHEAF_HOSTS=N makes the ranks of one machine act as N hosts, for tests.
std::string pretended_host(int rank, int size) {
  const char* hosts = std::getenv("SHEAF_HOSTS");
  if (!hosts) return "";
  const std::int64_t count = parse_count(hosts).value_or(0);
  SHEAF_CHECK(count >= 1 && count <= size, "SHEAF_HOSTS='", hosts,
              "' must be a number from 1 to the number of ranks, ", size);
  return concat("#", rank * count / size);
}

// Only address space is reserved, so a large heap costs nothing. Each rank maps
// all heaps of its host; together they stay within 1 TiB, unless the host has
// more than half of that as physical memory.
std::size_t heap_bytes(std::size_t wanted, int ranks) {
  if (wanted) return wanted;
  if (const char* text = std::getenv("SHEAF_ARENA_BYTES")) try {
      return parse_bytes(text);
    } catch (const UsageError& error) {
      throw UsageError(concat("SHEAF_ARENA_BYTES: ", error.what()));
    }
  const auto memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t share =
      std::min(std::size_t{64} << 30, (std::size_t{1} << 40) / count);
  return std::max(share, 2 * memory / count) >> 21 << 21;
}

bool guard_from_environment() {
  const char* guard = std::getenv("SHEAF_GUARD");
  return !guard || std::strcmp(guard, "0") != 0;
}

}  // namespace

Runtime::Runtime(std::unique_ptr<Transport> transport, RuntimeOptions options)
    : transport_(std::move(transport)), options_(std::move(options.options)) {
  if (!options_.machine.empty())
    machine_ = topo::load_machine(options_.machine);
  if (options_.timeout_ms)
    timeout_ = std::chrono::milliseconds(*options_.timeout_ms);
  has_guard_ = guard_from_environment();
  if (Breakable* const library = transport_->breakable();
      library && transport_->size() > 1)
    rescue_ = std::make_unique<Rescue>(*library, *this);
  exchange_cards(options.host, options.arena_bytes);
  if (options_.dims) topo::check_fits(*options_.dims, size());
  mailroom_ = std::make_unique<Mailroom>(*transport_);
}

Runtime::~Runtime() = default;

void Runtime::exchange_cards(const std::optional<std::string>& host,
                             std::size_t arena_bytes) {
  const int me = transport_->rank();
  const int ranks = transport_->size();
  memory_ = std::make_shared<HostMemory>(heap_bytes(arena_bytes, ranks));
  Card mine;
  const std::string name = host ? *host : host_name();
  const std::string key = concat(name, pretended_host(me, ranks), "/",
                                 boot_id(), "/", process_namespace());
  std::strncpy(mine.host, key.c_str(), sizeof mine.host - 1);
  mine.heap = memory_->name();
  Socket listening =
      me == 0 && ranks > 1
          ? listen_for_peers(mine.monitor, transport_->addresses())
          : Socket();

  const auto bytes =
      bootstrap_all_gather(*transport_, &mine, sizeof mine, timeout_);
  std::vector<Card> cards(static_cast<std::size_t>(ranks));
  std::memcpy(static_cast<void*>(cards.data()), bytes.data(), bytes.size());
  std::vector<std::string> keys;
  for (Card& card : cards) {
    card.host[sizeof card.host - 1] = '\0';
    keys.emplace_back(card.host);
  }
  host_map_ = make_host_map(keys, me);
  for (const auto& members : host_map_.hosts) {
    const auto& first = keys[static_cast<std::size_t>(members.front())];
    host_names_.push_back(first.substr(0, first.find('/')));
  }
  std::vector<HeapName> heaps;
  for (const int rank : host_map_.local_ranks())
    heaps.push_back(cards[static_cast<std::size_t>(rank)].heap);
  memory_->connect(heaps, host_map_.local);
  has_connected_ = true;
  is_oversubscribed_ =
      host_map_.local_count() > static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));

  SHEAF_CHECK(host_map_.host_count() == 1 || transport_->name() != "mpi" ||
                  !wants_encryption(),
              "SHEAF_ENCRYPT=1: messages of MPI are not encrypted; start the "
              "program with sheaf::init, or unset SHEAF_ENCRYPT");
  if (host_map_.host_count() == 1 || host_map_.local != 0) return;
  memory_->make_board(ranks);
  monitor_ = std::make_unique<Monitor>(
      *memory_, host_map_,
      MonitorStart{.address = cards[0].monitor,
                   .listening = std::move(listening),
                   .timeout = timeout_,
                   .check = [this](int peer) { check_start(peer); }});
}

void Runtime::check_start(int peer) {
  check_local_lives();
  try {
    transport_->check_peer(peer);
  } catch (const TransportError& error) {
    throw CommError(concat("rank ", rank(), ": ", error.what(),
                           " while the ranks were connecting"));
  }
}

void Runtime::check_local_lives() {
  for (const int rank : host_map_.local_ranks()) {
    const int local = host_map_.local_of[static_cast<std::size_t>(rank)];
    if (memory_->life_of(local) == HostMemory::Life::kDead)
      throw CommError(concat("rank ", this->rank(), ": rank ", rank,
                             " has died while the ranks were connecting; see "
                             "its output"));
  }
}

std::optional<FlightRecord> Runtime::latest(int rank) const {
  if (host_map_.is_local(rank))
    return memory_->header(host_map_.local_of[static_cast<std::size_t>(rank)])
        .flight.latest();
  return memory_->board(rank).latest();
}

const RankEnd& Runtime::end_of(int rank) const {
  if (!host_map_.is_local(rank)) return memory_->remote_end(rank);
  return memory_->header(host_map_.local_of[static_cast<std::size_t>(rank)])
      .end;
}

std::uint64_t Runtime::news_of(int rank) const {
  return host_map_.is_local(rank) ? 0 : memory_->board(rank).count();
}

void Runtime::refresh_remote() const {
  if (host_map_.host_count() == 1) return;
  std::vector<std::uint64_t> before;
  for (int rank = 0; rank < size(); ++rank) before.push_back(news_of(rank));
  memory_->header(0).refreshes_wanted.fetch_add(1);
  // A rank that has not started any operation does not answer.
  const auto has_news = [&](int rank) {
    return host_map_.is_local(rank) ||
           news_of(rank) > before[static_cast<std::size_t>(rank)];
  };
  for (int i = 0; i < 30; ++i) {
    bool is_complete = true;
    for (int rank = 0; rank < size(); ++rank)
      is_complete = is_complete && has_news(rank);
    if (is_complete) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void Runtime::raise(AlarmKind kind, int rank, int group,
                    const std::string& text) {
  memory_->alarm().raise(kind, rank, group, text);
}

GroupIds Runtime::used_ids() {
  const std::lock_guard lock(mutex_);
  return ids_;
}

void Runtime::take_id(int id) {
  const std::lock_guard lock(mutex_);
  ids_.set(static_cast<std::size_t>(id));
}

void Runtime::release_id(int id) {
  const std::lock_guard lock(mutex_);
  ids_.reset(static_cast<std::size_t>(id));
}

void Runtime::finalize() {
  if (is_finalized_) return;
  is_finalized_ = true;
  const bool is_clean = !has_failed_;
  if (is_clean) {
    memory_->begin_leave();
    mailroom_->end();
  }
  transport_->finalize(is_clean);
  if (!is_clean) return;
  mailroom_->free_orphans();
  // Until here other ranks may wait for this one in the end of the transport.
  memory_->end_leave();
  if (monitor_) monitor_->leave();
}

}  // namespace sheaf::comm
