#include <exception>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/ddl/ddl.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/sheaf.h"

namespace {

using namespace sheaf;
using namespace sheaf::comm;

static_assert(SHEAF_BOOL == static_cast<int>(DType::kBool) &&
              SHEAF_BOOL + 1 == kDTypeCount);
static_assert(SHEAF_BIT_XOR == static_cast<int>(ReduceOp::kBitXor) &&
              SHEAF_BIT_XOR + 1 == kReduceOpCount);
static_assert(SHEAF_ANY_SOURCE == kAnySource);

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int failed(int code, const char* text) noexcept {
  try {
    last_error() = text;
  } catch (...) {
    last_error().clear();  // out of memory: only the code is returned
  }
  return code;
}

// Exceptions must not propagate into C code.
template <class Body>
int guarded(Body body) noexcept {
  try {
    body();
    return SHEAF_OK;
  } catch (const std::exception& error) {
    return failed(exit_code(error), error.what());
  } catch (...) {
    return failed(SHEAF_ERROR, "unknown error");
  }
}

// Returns -1 before init().
template <class Pick>
int from_place(Pick pick) noexcept {
  int value = -1;
  guarded([&] { value = pick(ddl::place()); });
  return value;
}

DType checked_type(sheaf_dtype dtype) {
  SHEAF_CHECK(dtype >= SHEAF_F64 && dtype <= SHEAF_BOOL, "sheaf_dtype ", dtype,
              " is not one of SHEAF_F64 .. SHEAF_BOOL");
  return static_cast<DType>(dtype);
}

ReduceOp checked_op(sheaf_op op) {
  SHEAF_CHECK(op >= SHEAF_SUM && op <= SHEAF_BIT_XOR, "sheaf_op ", op,
              " is not one of SHEAF_SUM .. SHEAF_BIT_XOR");
  return static_cast<ReduceOp>(op);
}

Buffer output_of(void* data, std::size_t count, sheaf_dtype dtype) {
  SHEAF_CHECK(data || count == 0, "NULL passed for a buffer of ", count,
              " elements");
  return {data, count, checked_type(dtype)};
}

ConstBuffer input_of(const void* data, std::size_t count, sheaf_dtype dtype) {
  return output_of(const_cast<void*>(data), count, dtype);
}

// Size of a buffer that only the root has.
std::size_t at_root(const Group& group, int root, std::size_t count) {
  return group.rank() == root ? count : 0;
}

std::size_t all_blocks(const Group& group, std::size_t count) {
  return count * static_cast<std::size_t>(group.size());
}

// Calls with options use the DDL functions, which support sum and average only;
// all others are plain all-reduces.
void reduce_to_all(std::vector<Buffer> buffers, ReduceOp op,
                   const sheaf_reduce_options& options, bool is_one) {
  const Group group = ddl::world();
  const bool is_plain = options.mpi == 0 && options.check == 0;
  const ddl::ReduceOptions how{
      .op = op, .mpi = options.mpi != 0, .check = options.check};
  if (is_one && is_plain)
    all_reduce(group, buffers.front(), {.op = op}).wait();
  else if (is_one)
    ddl::all_reduce(group, buffers.front(), how);
  else if (is_plain)
    all_reduce_n(group, buffers, {.op = op}).wait();
  else
    ddl::all_reduce_n(group, buffers, how);
}

}  // namespace

extern "C" {

int sheaf_init(const char* options) { return sheaf_init_devices(options, 0); }

int sheaf_init_devices(const char* options, int devices) {
  return guarded([&] { ddl::init(options ? options : "", devices); });
}

int sheaf_finalize(void) {
  return guarded([] { ddl::finalize(); });
}

int sheaf_initialized(void) {
  int is_there = 0;
  guarded([&] { is_there = ddl::is_initialized() ? 1 : 0; });
  return is_there;
}

int sheaf_rank(void) {
  return from_place([](const ddl::Place& place) { return place.rank; });
}
int sheaf_size(void) {
  return from_place([](const ddl::Place& place) { return place.size; });
}
int sheaf_local_rank(void) {
  return from_place([](const ddl::Place& place) { return place.local_rank; });
}
int sheaf_local_size(void) {
  return from_place([](const ddl::Place& place) { return place.local_size; });
}
int sheaf_num_hosts(void) {
  return from_place([](const ddl::Place& place) { return place.num_hosts; });
}
int sheaf_device(void) {
  return from_place([](const ddl::Place& place) { return place.device; });
}

const char* sheaf_last_error(void) { return last_error().c_str(); }

int sheaf_malloc(void** memory, size_t alignment, size_t bytes) {
  return guarded([&] {
    SHEAF_CHECK(memory,
                "sheaf_malloc: NULL passed for the address of the result");
    *memory = nullptr;
    *memory = ddl::allocate(bytes, alignment);
  });
}

int sheaf_free(void* memory) {
  return guarded([&] { ddl::free(memory); });
}

int sheaf_bcast(void* data, size_t count, sheaf_dtype dtype) {
  return sheaf_broadcast(data, count, dtype, /*root=*/0);
}

int sheaf_broadcast(void* data, size_t count, sheaf_dtype dtype, int root) {
  return guarded([&] {
    broadcast(ddl::world(), output_of(data, count, dtype), {.root = root})
        .wait();
  });
}

int sheaf_all_reduce(void* data, size_t count, sheaf_dtype dtype, sheaf_op op) {
  return sheaf_all_reduce_with(data, count, dtype, op, nullptr);
}

int sheaf_all_reduce_mpi(void* data, size_t count, sheaf_dtype dtype,
                         sheaf_op op) {
  const sheaf_reduce_options options = {1, 0};
  return sheaf_all_reduce_with(data, count, dtype, op, &options);
}

int sheaf_all_reduce_with(void* data, size_t count, sheaf_dtype dtype,
                          sheaf_op op, const sheaf_reduce_options* options) {
  return guarded([&] {
    reduce_to_all({output_of(data, count, dtype)}, checked_op(op),
                  options ? *options : sheaf_reduce_options{},
                  /*is_one=*/true);
  });
}

int sheaf_all_reduce_n(void* const* data, const size_t* counts, size_t buffers,
                       sheaf_dtype dtype, sheaf_op op,
                       const sheaf_reduce_options* options) {
  return guarded([&] {
    SHEAF_CHECK(
        (data && counts) || buffers == 0,
        "sheaf_all_reduce_n: NULL passed for the addresses or counts of ",
        buffers, " buffers");
    std::vector<Buffer> list;
    for (size_t i = 0; i < buffers; ++i)
      list.push_back(output_of(data[i], counts[i], dtype));
    reduce_to_all(std::move(list), checked_op(op),
                  options ? *options : sheaf_reduce_options{},
                  /*is_one=*/false);
  });
}

int sheaf_reduce(const void* input, void* output, size_t count,
                 sheaf_dtype dtype, sheaf_op op, int root) {
  return guarded([&] {
    const Group world = ddl::world();
    reduce(world, input_of(input, count, dtype),
           output_of(output, at_root(world, root, count), dtype),
           {.op = checked_op(op), .root = root})
        .wait();
  });
}

int sheaf_reduce_scatter(const void* input, void* output, size_t count,
                         sheaf_dtype dtype, sheaf_op op) {
  return guarded([&] {
    const Group world = ddl::world();
    reduce_scatter(world, input_of(input, all_blocks(world, count), dtype),
                   output_of(output, count, dtype), {.op = checked_op(op)})
        .wait();
  });
}

int sheaf_gather(const void* input, void* output, size_t count,
                 sheaf_dtype dtype, int root) {
  return guarded([&] {
    const Group world = ddl::world();
    gather(world, input_of(input, count, dtype),
           output_of(output, at_root(world, root, all_blocks(world, count)),
                     dtype),
           {.root = root})
        .wait();
  });
}

int sheaf_all_gather(const void* input, void* output, size_t count,
                     sheaf_dtype dtype) {
  return guarded([&] {
    const Group world = ddl::world();
    all_gather(world, input_of(input, count, dtype),
               output_of(output, all_blocks(world, count), dtype))
        .wait();
  });
}

int sheaf_scatter(const void* input, void* output, size_t count,
                  sheaf_dtype dtype, int root) {
  return guarded([&] {
    const Group world = ddl::world();
    scatter(
        world,
        input_of(input, at_root(world, root, all_blocks(world, count)), dtype),
        output_of(output, count, dtype), {.root = root})
        .wait();
  });
}

int sheaf_all_to_all(const void* input, void* output, size_t count,
                     sheaf_dtype dtype) {
  return guarded([&] {
    const Group world = ddl::world();
    all_to_all(world, input_of(input, all_blocks(world, count), dtype),
               output_of(output, all_blocks(world, count), dtype))
        .wait();
  });
}

int sheaf_barrier(void) {
  return guarded([] { barrier(ddl::world()).wait(); });
}

int sheaf_send(const void* data, size_t count, sheaf_dtype dtype, int to,
               int tag) {
  return guarded([&] {
    send(ddl::world(), input_of(data, count, dtype), to, {.tag = tag});
  });
}

int sheaf_recv(void* data, size_t count, sheaf_dtype dtype, int from, int tag,
               int* source) {
  return guarded([&] {
    const int sender =
        recv(ddl::world(), output_of(data, count, dtype), from, {.tag = tag});
    if (source) *source = sender;
  });
}

}  // extern "C"
