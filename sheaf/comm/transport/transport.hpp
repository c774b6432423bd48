#pragma once
// Messages between processes, the lowest common part of MPI, TCP and ranks as
// threads. Everything here is non-blocking and may be called by any thread.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "sheaf/base/dtype.hpp"
#include "sheaf/base/error.hpp"
#include "sheaf/comm/kernels/reduce_op.hpp"
#include "sheaf/comm/transport/breakable.hpp"

namespace sheaf::comm {

// A message's label, 28 bits wide: what MPI implementations grant.
using Tag = std::uint32_t;

// What is larger goes as several messages: MPI counts bytes in an int.
inline constexpr std::size_t kLargestMessage = std::size_t{1} << 30;

// A message failed, or had another size than its receiver expected. Often a
// sign of something else: ranks that disagree, a rank that died.
class TransportError : public CommError {
 public:
  using CommError::CommError;
};

// A send or receive under way; null when there is none or it has ended.
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
  std::uint64_t handle_ = 0;  // what the transport makes of it; never 0
};

// What a plain library call, with nothing of ours, is asked to do: the
// baseline of `mpi=true`, and mode `m`.
enum class Baseline : std::uint8_t { kAllReduce, kReduceScatterAllGather };

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;

  // Messages of one (sender, receiver, tag) arrive in the order sent. The
  // memory stays untouched (send) or unread (receive) until test() is true.
  virtual Request send(int peer, Tag tag, const void* data,
                       std::size_t bytes) = 0;
  virtual Request receive(int peer, Tag tag, void* data, std::size_t bytes) = 0;
  // True when the request has ended, and for null requests. Throws
  // TransportError when it failed, also if a message had another size.
  virtual bool test(Request& request) = 0;
  // Gives the request up, as far as the library can; for use after errors.
  virtual void abandon(Request& request) noexcept = 0;

  // Lets the library move on with messages that it has accepted: a send may
  // have ended here and still need this process to get on its way. To be
  // called now and then by those who wait for something else; whether a
  // message was sent so lately that it matters.
  virtual bool progress() { return false; }

  struct Arrived {
    int peer;
    std::size_t bytes;
  };
  // The oldest message with that tag that waits here, from any peer, if any.
  // Receive it from that peer before the next call. One thread at a time.
  virtual std::optional<Arrived> probe(Tag tag) = 0;

  // All-reduce over all ranks of the transport by the library's own call, in
  // place, blocking. False when the library behind has none.
  virtual bool baseline_all_reduce(Baseline, void*, std::size_t, DType,
                                   ReduceOp) {
    return false;
  }
  // The calls of the library that it stands on, where these may stay away for
  // ever when a peer dies.
  virtual Breakable* breakable() { return nullptr; }
  // Called once, at an orderly end. `clean` is false after a failure.
  virtual void finalize(bool /*clean*/) {}
};

// MPI, initialised here unless the program did. UsageError where Sheaf was
// built without MPI.
std::unique_ptr<Transport> make_mpi_transport(int* argc, char*** argv);

// Whether a launcher of MPI started this process.
bool is_under_mpi_launcher();

}  // namespace sheaf::comm
