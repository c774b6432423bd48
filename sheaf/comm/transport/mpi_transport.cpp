// The transport over MPI. All messages use one duplicate of MPI_COMM_WORLD. One
// lock makes MPI_THREAD_SERIALIZED sufficient, which keeps MPI as fast as in a
// single-threaded program.
//
// Messages are split into parts below the eager limit, so that the library
// never uses its rendezvous protocol. Over TCP, rendezvous answers queue behind
// the data of the opposite direction, so that the two directions of a link
// alternate, which halves the bandwidth. Several parts in flight use both
// directions at once.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"
#include "sheaf/comm/transport/mpi_types.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

// Time after a send in which progress() reports that it should be called often.
constexpr std::int64_t kLatelyNs = 100'000'000;
constexpr Tag kHighestTag = (1u << 28) - 1;

void check(int code, const char* call) {
  if (code != MPI_SUCCESS)
    throw TransportError(concat(call, " failed: ", mpi_error_text(code)));
}

#ifdef OPEN_MPI
constexpr std::size_t kPartBytes = 60 << 10;  // btl_tcp_eager_limit: 64 KiB
#else
constexpr std::size_t kPartBytes = 14 << 10;  // MPICH: 16 KiB
#endif

// The parts of a message in transit and, for a receive, the expected size.
struct Pending {
  std::vector<MPI_Request> parts;
  bool is_receive = false;
  std::size_t expected = 0;
  std::size_t received = 0;
  int peer = 0;
};

int byte_count(std::size_t bytes) {
  SHEAF_ASSERT(bytes <= std::numeric_limits<int>::max(), "message of ", bytes,
               " bytes");
  return static_cast<int>(bytes);
}

template <DType dtype, ReduceOp op>
void reduce_halves(void* in, void* inout, int* count, MPI_Datatype*) {
  const void* sources[] = {inout, in};
  void* outputs[] = {inout};
  reduce({.dtype = dtype, .op = op}, sources, outputs,
         static_cast<std::size_t>(*count));
}

template <DType dtype>
MPI_User_function* halves_function(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct:
      return reduce_halves<dtype, ReduceOp::kProduct>;
    case ReduceOp::kMin:
      return reduce_halves<dtype, ReduceOp::kMin>;
    case ReduceOp::kMax:
      return reduce_halves<dtype, ReduceOp::kMax>;
    default:
      return reduce_halves<dtype, ReduceOp::kSum>;
  }
}

// An MPI_Op. Those for 16-bit floats are user-defined and freed here.
class Operation {
 public:
  Operation(DType dtype, ReduceOp op) : owned_(is_half(dtype)) {
    if (!owned_) {
      op_ = mpi_op(op, dtype);
      return;
    }
    MPI_Op_create(dtype == DType::kF16 ? halves_function<DType::kF16>(op)
                                       : halves_function<DType::kBF16>(op),
                  /*commute=*/1, &op_);
  }
  ~Operation() {
    if (owned_) MPI_Op_free(&op_);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
  bool owned_;
};

// MPI writes to connections whose other end has died. SIGPIPE would then end
// this rank before it can report the death. A handler set by the program is
// kept.
void ignore_broken_pipes() {
  struct sigaction action {};
  sigaction(SIGPIPE, nullptr, &action);
  const bool is_default =
      !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_DFL;
  if (is_default) signal(SIGPIPE, SIG_IGN);
}

class MpiTransport final : public Transport, private LibraryAllReduce {
 public:
  MpiTransport(int* argc, char*** argv) {
    ignore_broken_pipes();
    int initialized = 0;
    MPI_Initialized(&initialized);
    int provided = MPI_THREAD_SINGLE;
    if (initialized) {
      MPI_Query_thread(&provided);
    } else {
      check(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided),
            "MPI_Init_thread");
      owns_mpi_ = true;
    }
    SHEAF_CHECK(provided >= MPI_THREAD_SERIALIZED, "MPI provides thread level ",
                provided, ", Sheaf needs MPI_THREAD_SERIALIZED (",
                MPI_THREAD_SERIALIZED,
                "); call MPI_Init_thread with it, or let Sheaf start MPI");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    check_tags();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "mpi"; }

  Request send(int peer, Tag tag, const void* data,
               std::size_t bytes) override {
    auto pending = std::make_unique<Pending>();
    const auto* from = static_cast<const std::byte*>(data);
    last_send_ns_.store(now_ns(), std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    for_each_part(bytes, *pending, [&](std::size_t at, int part) {
      MPI_Request& request = pending->parts.emplace_back();
      call("MPI_Isend", [&] {
        return MPI_Isend(from + at, part, MPI_BYTE, peer, static_cast<int>(tag),
                         comm_, &request);
      });
    });
    return Request(reinterpret_cast<std::uintptr_t>(pending.release()));
  }

  Request receive(int peer, Tag tag, void* data, std::size_t bytes) override {
    auto pending = std::make_unique<Pending>();
    pending->is_receive = true;
    pending->expected = bytes;
    pending->peer = peer;
    auto* to = static_cast<std::byte*>(data);
    const std::lock_guard lock(mutex_);
    for_each_part(bytes, *pending, [&](std::size_t at, int part) {
      MPI_Request& request = pending->parts.emplace_back();
      call("MPI_Irecv", [&] {
        return MPI_Irecv(to + at, part, MPI_BYTE, peer, static_cast<int>(tag),
                         comm_, &request);
      });
    });
    return Request(reinterpret_cast<std::uintptr_t>(pending.release()));
  }

  bool test(Request& request) override {
    if (!request) return true;
    auto* pending = as_pending(request);
    {
      const std::lock_guard lock(mutex_);
      if (!test_parts(*pending)) return false;
    }
    if (!pending->is_receive)
      last_send_ns_.store(now_ns(), std::memory_order_relaxed);
    const std::size_t expected = pending->expected;
    const std::size_t received = pending->received;
    const bool is_wrong = pending->is_receive && received != expected;
    const int peer = pending->peer;
    release(request);
    if (is_wrong)
      throw TransportError(concat("a message of rank ", peer, " has ", received,
                                  " bytes, expected ", expected));
    return true;
  }

  void abandon(Request& request) noexcept override {
    if (!request) return;
    const std::lock_guard lock(mutex_);
    auto* pending = as_pending(request);
    // After an interrupted call, MPI may still access the request, so it is
    // leaked.
    library_.run([pending] {
      for (MPI_Request& part : pending->parts) {
        if (part == MPI_REQUEST_NULL) continue;
        if (pending->is_receive) MPI_Cancel(&part);
        MPI_Request_free(&part);
      }
    });
    if (!library_.is_broken()) release(request);
    request.clear();
  }

  bool progress() override {
    const std::int64_t last = last_send_ns_.load(std::memory_order_relaxed);
    if (last == 0) return false;
    {
      const std::lock_guard lock(mutex_);
      library_.run([this] {
        int there = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there,
                   MPI_STATUS_IGNORE);
      });
    }
    return now_ns() - last < kLatelyNs;
  }

  std::optional<Arrived> probe(Tag tag, std::span<const int> except) override {
    const auto is_excepted = [&](int peer) {
      return std::find(except.begin(), except.end(), peer) != except.end();
    };
    const std::lock_guard lock(mutex_);
    const auto oldest = probe_one(MPI_ANY_SOURCE, tag);
    if (!oldest || !is_excepted(oldest->peer)) return oldest;
    for (int peer = 0; peer < size_; ++peer)
      if (!is_excepted(peer))
        if (const auto arrived = probe_one(peer, tag)) return arrived;
    return std::nullopt;
  }

  LibraryAllReduce* library_all_reduce() override { return this; }

  void run(Method method, void* data, std::size_t count, DType dtype,
           ReduceOp op) override {
    const std::lock_guard lock(mutex_);
    const Operation operation(dtype, op);
    const MPI_Datatype type = mpi_type(dtype);
    if (method == Method::kAllReduce) {
      call("MPI_Allreduce", [&] {
        return MPI_Allreduce(MPI_IN_PLACE, data, byte_count(count), type,
                             operation.get(), comm_);
      });
    } else {
      reduce_scatter_all_gather(data, count, type, size_of(dtype),
                                operation.get());
    }
  }

  Breakable* breakable() override { return &library_; }

  void finalize(bool clean) override {
    // After a peer has died, MPI_Finalize may wait for it forever.
    if (!clean || comm_ == MPI_COMM_NULL) return;
    const std::lock_guard lock(mutex_);
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized) return;
    library_.run([this] {
      MPI_Comm_free(&comm_);
      if (owns_mpi_) MPI_Finalize();
    });
  }

 private:
  static Pending* as_pending(const Request& request) {
    return reinterpret_cast<Pending*>(request.handle());
  }
  static void release(Request& request) {
    delete as_pending(request);
    request.clear();
  }

  // Makes one MPI call. The caller must hold the lock.
  template <class Fn>
  void call(const char* name, Fn fn) {
    int code = MPI_SUCCESS;
    if (!library_.run([&] { code = fn(); }))
      throw TransportError(
          concat(name, " did not return: ", library_.reason()));
    check(code, name);
  }

  template <class Fn>
  static void for_each_part(std::size_t bytes, Pending& pending, Fn fn) {
    pending.parts.reserve(bytes / kPartBytes + 1);
    std::size_t at = 0;
    do {  // an empty message is one part
      const std::size_t part = std::min(kPartBytes, bytes - at);
      fn(at, byte_count(part));
      at += part;
    } while (at < bytes);
  }

  // `source` may be MPI_ANY_SOURCE. The caller must hold the lock.
  std::optional<Arrived> probe_one(int source, Tag tag) {
    int there = 0;
    MPI_Status status;
    call("MPI_Iprobe", [&] {
      return MPI_Iprobe(source, static_cast<int>(tag), comm_, &there, &status);
    });
    if (!there) return std::nullopt;
    int bytes = 0;  // probed messages are smaller than a part
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    return Arrived{status.MPI_SOURCE, static_cast<std::size_t>(bytes)};
  }

  // Whether all parts are complete. The caller must hold the lock.
  bool test_parts(Pending& pending) {
    const auto count = static_cast<int>(pending.parts.size());
    std::vector<int>& indices = indices_;
    indices.resize(pending.parts.size());
    statuses_.resize(pending.parts.size());
    int ended = 0;
    call("a message", [&] {
      return MPI_Testsome(count, pending.parts.data(), &ended, indices.data(),
                          statuses_.data());
    });
    for (int i = 0; pending.is_receive && i < ended; ++i) {
      int bytes = 0;
      MPI_Get_count(&statuses_[static_cast<std::size_t>(i)], MPI_BYTE, &bytes);
      pending.received += static_cast<std::size_t>(bytes);
    }
    return ended == MPI_UNDEFINED ||
           std::all_of(pending.parts.begin(), pending.parts.end(),
                       [](MPI_Request r) { return r == MPI_REQUEST_NULL; });
  }

  void check_tags() {
    int* highest = nullptr;
    int found = 0;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, &highest, &found);
    SHEAF_CHECK(found && *highest >= static_cast<int>(kHighestTag),
                "this MPI allows tags up to ", found ? *highest : 0,
                ", Sheaf needs ", kHighestTag);
  }

  void reduce_scatter_all_gather(void* data, std::size_t count,
                                 MPI_Datatype type, std::size_t element_bytes,
                                 MPI_Op op) {
    std::vector<int> counts(static_cast<std::size_t>(size_));
    std::vector<int> starts(static_cast<std::size_t>(size_));
    const auto ranks = static_cast<std::size_t>(size_);
    for (std::size_t r = 0; r < ranks; ++r) {
      starts[r] = byte_count(count * r / ranks);
      counts[r] = byte_count(count * (r + 1) / ranks) - starts[r];
    }
    const auto me = static_cast<std::size_t>(rank_);
    auto* mine = static_cast<std::byte*>(data) +
                 static_cast<std::size_t>(starts[me]) * element_bytes;
    std::vector<std::byte> part(static_cast<std::size_t>(counts[me]) *
                                element_bytes);
    call("MPI_Reduce_scatter", [&] {
      return MPI_Reduce_scatter(data, part.data(), counts.data(), type, op,
                                comm_);
    });
    std::memcpy(mine, part.data(), part.size());
    call("MPI_Allgatherv", [&] {
      return MPI_Allgatherv(MPI_IN_PLACE, 0, type, data, counts.data(),
                            starts.data(), type, comm_);
    });
  }

  std::mutex mutex_;
  Breakable library_;
  std::atomic<std::int64_t> last_send_ns_{0};
  std::vector<int> indices_;  // for MPI_Testsome, protected by mutex_
  std::vector<MPI_Status> statuses_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool owns_mpi_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(int* argc, char*** argv) {
  return std::make_unique<MpiTransport>(argc, argv);
}

}  // namespace sheaf::comm
