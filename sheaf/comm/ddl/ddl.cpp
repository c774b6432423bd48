#include "sheaf/comm/ddl/ddl.hpp"

#include <bit>
#include <map>
#include <memory>
#include <mutex>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/ddl/checked_all_reduce.hpp"
#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/rivals/rival.hpp"

namespace sheaf::comm::ddl {
namespace {

struct Session {
  explicit Session(World joined) : world(std::move(joined)) {}

  World world;
  Place place;
  std::mutex mutex;
  std::map<void*, std::shared_ptr<std::byte>> blocks;
};

std::mutex session_mutex;

// Never destroyed: a program that ends without finalize() may be in any state,
// and the other ranks must not wait for it.
std::shared_ptr<Session>& the_session() {
  static auto* const session = new std::shared_ptr<Session>;
  return *session;
}

std::shared_ptr<Session> session() {
  const std::lock_guard lock(session_mutex);
  SHEAF_CHECK(the_session(),
              "not initialized, or already finalized; call init() first");
  return the_session();
}

Place place_of(const Group& group, int devices) {
  return {.rank = group.rank(),
          .size = group.size(),
          .local_rank = group.local_rank(),
          .local_size = group.local_size(),
          .num_hosts = group.host_count(),
          .device = devices > 0 ? group.local_rank() % devices : -1};
}

void check_op(ReduceOp op) {
  SHEAF_CHECK(op == ReduceOp::kSum || op == ReduceOp::kAvg,
              "all_reduce of the DDL API supports sum and avg, not ",
              name_of(op), "; use sheaf::comm::all_reduce");
}

// Calls `reduce`, with a check if the options request one.
template <class Reduce>
void maybe_checked(const Group& group, std::span<const Buffer> buffers,
                   Operation operation, const ReduceOptions& options,
                   Reduce reduce) {
  if (options.check == 0) return reduce();
  checked(group, buffers,
          {.operation = operation, .op = options.op, .check = options.check},
          reduce);
}

}  // namespace

Place init(std::string_view options, int devices) {
  SHEAF_CHECK(devices >= 0, "init: ", devices, " devices; pass 0 or more");
  const std::lock_guard lock(session_mutex);
  SHEAF_CHECK(!the_session(),
              "init() was already called; call finalize() "
              "first, or use the existing world");
  auto made = std::make_shared<Session>(
      comm::init(options.empty() ? topo::options_from_environment()
                                 : topo::parse_options(options)));
  made->place = place_of(made->world, devices);
  the_session() = std::move(made);
  return the_session()->place;
}

bool is_initialized() {
  const std::lock_guard lock(session_mutex);
  return the_session() != nullptr;
}

void finalize() {
  auto ending = session();
  const std::lock_guard lock(session_mutex);
  the_session().reset();
}

Place place() { return session()->place; }

Group world() { return session()->world.group(); }

void* allocate(std::size_t bytes, std::size_t alignment) {
  SHEAF_CHECK(std::has_single_bit(alignment), "alignment ", alignment,
              " is not a power of two");
  const auto now = session();
  std::size_t room = bytes + alignment;
  auto block = now->world.group().allocate_bytes(room);
  void* memory = block.get();
  std::align(alignment, bytes, memory, room);
  const std::lock_guard lock(now->mutex);
  now->blocks[memory] = std::move(block);
  return memory;
}

void free(void* memory) {
  if (!memory) return;
  const auto now = session();
  const std::lock_guard lock(now->mutex);
  SHEAF_CHECK(now->blocks.erase(memory) == 1, "free: ", memory,
              " was not returned by allocate(), or was already freed");
}

void bcast(Buffer data) { broadcast(world(), data, {.root = 0}).wait(); }

void all_reduce(const Group& group, Buffer data, const ReduceOptions& options) {
  check_op(options.op);
  maybe_checked(group, {&data, 1}, Operation::kAllReduce, options, [&] {
    if (options.mpi)
      plain_mpi_all_reduce(group, data, options.op);
    else
      comm::all_reduce(group, data, {.op = options.op}).wait();
  });
}

void all_reduce_n(const Group& group, std::span<const Buffer> buffers,
                  const ReduceOptions& options) {
  check_op(options.op);
  maybe_checked(group, buffers, Operation::kAllReduceN, options, [&] {
    if (!options.mpi) {
      comm::all_reduce_n(group, buffers, {.op = options.op}).wait();
      return;
    }
    for (const Buffer& buffer : buffers)
      plain_mpi_all_reduce(group, buffer, options.op);
  });
}

void all_reduce(Buffer data, const ReduceOptions& options) {
  all_reduce(world(), data, options);
}

void all_reduce_n(std::span<const Buffer> buffers,
                  const ReduceOptions& options) {
  all_reduce_n(world(), buffers, options);
}

}  // namespace sheaf::comm::ddl
