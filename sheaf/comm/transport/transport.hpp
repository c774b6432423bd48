#pragma once
// Messages between processes: the common interface of MPI, TCP and ranks as
// threads. Functions are nonblocking and thread-safe unless noted otherwise.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/base/error.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"
#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/transport/breakable.hpp"

namespace sheaf::comm {

// Message tag of 28 bits, which all MPI implementations support.
using Tag = std::uint32_t;

// Larger data is sent as several messages: MPI counts bytes in an int.
inline constexpr std::size_t kLargestMessage = std::size_t{1} << 30;

// A send or receive in progress; null if there is none or it has completed.
class Request {
 public:
  Request() = default;
  explicit Request(std::uint64_t handle) : handle_(handle) {}
  Request(Request&& other) noexcept
      : handle_(std::exchange(other.handle_, 0)) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  explicit operator bool() const { return handle_ != 0; }
  std::uint64_t handle() const { return handle_; }
  void clear() { handle_ = 0; }

 private:
  std::uint64_t handle_ = 0;  // defined by the transport; 0: null
};

// The all-reduce of the library below a transport, over all ranks of the
// transport, in place and blocking. Used by `mpi=true` (kAllReduce) and mode
// `m` (kReduceScatterAllGather).
class LibraryAllReduce {
 public:
  enum class Method { kAllReduce, kReduceScatterAllGather };
  virtual ~LibraryAllReduce() = default;
  virtual void run(Method method, void* data, std::size_t count, DType dtype,
                   ReduceOp op) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;

  // Messages of one (sender, receiver, tag) arrive in the order sent. The
  // memory must not be modified (send) or accessed (receive) until test()
  // returns true.
  virtual Request send(int peer, Tag tag, const void* data,
                       std::size_t bytes) = 0;
  virtual Request receive(int peer, Tag tag, void* data, std::size_t bytes) = 0;
  // Returns true if the request is complete or null. Throws TransportError if
  // it failed, or if the message has a different size.
  virtual bool test(Request& request) = 0;
  // Cancels the request as far as the library can; for use after errors.
  virtual void abandon(Request& request) noexcept = 0;

  // Lets the library make progress on messages that it has accepted: even a
  // completed send may need calls of this process to be transmitted. Call it
  // from time to time while waiting for something else. Returns whether a
  // message was sent recently, so that frequent calls matter.
  virtual bool progress() { return false; }

  struct Arrived {
    int peer;
    std::size_t bytes;
  };
  // The oldest pending message with this tag from any peer that is not in
  // `except`, if any. A receive from that peer must be posted before the next
  // call, and have ended before the next call that may report the same peer.
  // Contents may come later than this report. One thread at a time.
  virtual std::optional<Arrived> probe(Tag tag,
                                       std::span<const int> except = {}) = 0;

  // For waits that nothing else watches. The first sends a small message to
  // all connected peers now and then, because the loss of a host only shows
  // where data waits to be acknowledged. The second does the same, and throws
  // TransportError if the peer is known to be gone.
  virtual void beat() {}
  virtual void check_peer(int /*peer*/) {}

  // The addresses of this host at which other ranks may connect; empty: the
  // transport does not restrict them.
  virtual std::vector<Address> addresses() const { return {}; }

  // Null if the underlying library has no all-reduce.
  virtual LibraryAllReduce* library_all_reduce() { return nullptr; }
  // The calls of the underlying library, if they may never return after a peer
  // has died; otherwise null.
  virtual Breakable* breakable() { return nullptr; }
  // Called once, at an orderly end. `clean` is false after a failure.
  virtual void finalize(bool /*clean*/) {}
};

// The transport over MPI. Initializes MPI unless the program has done so.
// Throws UsageError if Sheaf was built without MPI.
std::unique_ptr<Transport> make_mpi_transport(int* argc, char*** argv);

// Whether an MPI launcher started this process.
bool is_under_mpi_launcher();

// Layout of the 28 bits of a tag: 3 bits for the kind, 10 for the group, and 15
// for the position within an operation.
enum class TagKind : Tag {
  kData,       // contents of a collective
  kGuard,      // fingerprints between hosts
  kLetter,     // headers of point-to-point messages
  kEnclosure,  // contents of large point-to-point messages
  kBootstrap,
  // Like kData, for the end of a program, when other ranks may be in another
  // call.
  kEnd
};

inline constexpr Tag kPositionMask = (1u << 15) - 1;

inline constexpr Tag make_tag(TagKind kind, int group, Tag position = 0) {
  return static_cast<Tag>(kind) << 25 | static_cast<Tag>(group) << 15 |
         (position & kPositionMask);
}

// The first exchange between ranks, before any group exists: gathers `bytes`
// bytes from every rank on all ranks, in rank order, through
// rank 0. Every rank must call it. Throws TimeoutError, which names the missing
// ranks, and CommError if a rank has died; both on all ranks. While it waits it
// calls `check`, which may throw, too.
using StartCheck = std::function<void()>;
std::vector<std::byte> bootstrap_all_gather(Transport& transport,
                                            const void* data, std::size_t bytes,
                                            std::chrono::milliseconds timeout,
                                            const StartCheck& check = {});

// Ranks as threads of one process, for tests, and for a single process (one
// rank). Returns one transport per rank, connected by mailboxes in memory.
std::vector<std::unique_ptr<Transport>> make_thread_transports(int ranks);

}  // namespace sheaf::comm
