// A connection between two ranks, with an attacker who changes, drops, repeats
// and inserts bytes. With encryption, the receiver gets only what was sent, up
// to the record in which the first changed byte lies.
// parser: sheaf/comm/network/cipher.cpp sheaf/comm/network/channel.cpp
#include "sheaf/comm/network/cipher.hpp"

#include <sys/socket.h>

#include <algorithm>

#include "sheaf/comm/network/channel.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fixed_random.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace {

using namespace sheaf::comm;
using sheaf::fuzz::ByteSource;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kMostWritten = 70'000;  // more than a record

std::pair<Socket, Socket> make_ends() {
  int ends[2];
  SHEAF_FUZZ_CHECK(
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

class Connection {
 public:
  Connection(bool is_encrypted, std::size_t prefix)
      : is_encrypted_(is_encrypted) {
    auto [out, from_sender] = make_ends();
    auto [to_receiver, in] = make_ends();
    network_in_ = std::move(from_sender);
    network_out_ = std::move(to_receiver);
    const SessionKeys keys{Key().derive("there"), Key().derive("back")};
    const SessionKeys others{keys.receive, keys.send};
    sender_ =
        is_encrypted ? Channel(std::move(out), keys) : Channel(std::move(out));
    receiver_ =
        is_encrypted ? Channel(std::move(in), others) : Channel(std::move(in));
    begin(prefix);
  }

  void write(std::size_t bytes, bool is_in_two_parts) {
    bytes = std::min(bytes, kMostWritten - sent_.size());
    Bytes data(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      data[i] = static_cast<std::byte>((sent_.size() + i) * 7 + i / 251);
    const std::size_t first = is_in_two_parts ? bytes / 3 : 0;
    const iovec parts[] = {{data.data(), first},
                           {data.data() + first, bytes - first}};
    if (bytes == 0) return;
    const ssize_t done = sender_.write(parts, 2);
    if (done > 0) sent_.insert(sent_.end(), data.begin(), data.begin() + done);
    take_from_sender();
    if (done > 0) ends_.push_back({wire_bytes(), sent_.size()});
  }

  // The attacker's operations on the bytes that are on their way.
  void flip(std::size_t at, std::uint8_t by) {
    if (!wire_.empty()) wire_[at % wire_.size()] ^= static_cast<std::byte>(by);
  }
  void drop(std::size_t at, std::size_t bytes) {
    if (wire_.empty()) return;
    const auto from = wire_.begin() + static_cast<long>(at % wire_.size());
    const auto most = static_cast<std::size_t>(wire_.end() - from);
    wire_.erase(from, from + static_cast<long>(std::min(bytes, most)));
  }
  void insert(std::size_t at, sheaf::fuzz::Input input) {
    const auto bytes = std::as_bytes(input);
    wire_.insert(wire_.begin() + static_cast<long>(at % (wire_.size() + 1)),
                 bytes.begin(), bytes.end());
  }
  void repeat(std::size_t at, std::size_t bytes) {
    if (wire_.empty()) return;
    at %= wire_.size();
    const Bytes copy(
        wire_.begin() + static_cast<long>(at),
        wire_.begin() +
            static_cast<long>(at + std::min(bytes, wire_.size() - at)));
    wire_.insert(wire_.begin(), copy.begin(), copy.end());
  }

  // Delivers some of them, and reads with a buffer of `room` bytes.
  void deliver(std::size_t bytes, std::size_t room) {
    const ssize_t done = ::send(network_out_.fd(), wire_.data(),
                                std::min(bytes, wire_.size()), MSG_DONTWAIT);
    if (done > 0) {
      const auto end = wire_.begin() + done;
      delivered_.insert(delivered_.end(), wire_.begin(), end);
      wire_.erase(wire_.begin(), end);
    }
    while (read(room)) {
    }
    SHEAF_FUZZ_CHECK(!receiver_.has_buffered() || is_broken_);
    check();
  }

  void finish() {
    while (!wire_.empty() && !is_broken_) deliver(wire_.size(), 5000);
    network_out_.close();
    const bool was_broken = is_broken_;
    read(100);
    SHEAF_FUZZ_CHECK(is_broken_ || !was_broken);
    SHEAF_FUZZ_CHECK(has_ended_ || is_broken_);
  }

 private:
  // The plain bytes that precede all others.
  void begin(std::size_t prefix) {
    const std::vector<std::uint8_t> first(prefix, 7);
    sender_.begin_with(first);
    SHEAF_FUZZ_CHECK(sender_.has_unsent() == (prefix > 0) && sender_.flush());
    take_from_sender();
    SHEAF_FUZZ_CHECK(wire_ == Bytes(prefix, std::byte{7}));
    wire_.clear();
    original_.clear();
  }

  void take_from_sender() {
    static Bytes buffer(1 << 16);
    do {
      SHEAF_FUZZ_CHECK(sender_.flush());
      for (;;) {
        const ssize_t got = ::recv(network_in_.fd(), buffer.data(),
                                   buffer.size(), MSG_DONTWAIT);
        if (got <= 0) break;
        wire_.insert(wire_.end(), buffer.begin(), buffer.begin() + got);
        original_.insert(original_.end(), buffer.begin(), buffer.begin() + got);
      }
    } while (sender_.has_unsent());
  }

  std::size_t wire_bytes() const { return original_.size(); }

  bool read(std::size_t room) {
    if (is_broken_) return false;
    Bytes data(room);
    const iovec parts[] = {{data.data(), room / 2},
                           {data.data() + room / 2, room - room / 2}};
    const ssize_t got = receiver_.read(parts, 2);
    if (got < 0 && is_for_later(errno)) return false;
    is_broken_ = got < 0;
    has_ended_ = got == 0;
    if (got <= 0) return false;
    received_.insert(received_.end(), data.begin(), data.begin() + got);
    return true;
  }

  void check() {
    while (same_ < delivered_.size() && same_ < original_.size() &&
           delivered_[same_] == original_[same_])
      ++same_;
    const std::size_t same = same_;
    const bool is_changed = same < delivered_.size();
    if (is_changed && !is_encrypted_) return;
    std::size_t most = is_encrypted_ ? 0 : same;
    for (const auto& [wire_end, plain_end] : ends_)
      if (is_encrypted_ && wire_end <= same) most = plain_end;
    SHEAF_FUZZ_CHECK(received_.size() == most);
    SHEAF_FUZZ_CHECK(
        std::equal(received_.begin(), received_.end(), sent_.begin()));
    SHEAF_FUZZ_CHECK(!is_broken_ || is_changed);
  }

  struct RecordEnd {
    std::size_t wire;
    std::size_t plain;
  };
  const bool is_encrypted_;
  Channel sender_;
  Channel receiver_;
  Socket network_in_;
  Socket network_out_;
  Bytes sent_;            // plain
  Bytes original_;        // as the sender wrote it to the network
  Bytes wire_;            // of this, not delivered yet
  Bytes delivered_;       // to the receiver
  Bytes received_;        // plain
  std::size_t same_ = 0;  // bytes that were delivered as they were written
  std::vector<RecordEnd> ends_;
  bool is_broken_ = false;
  bool has_ended_ = false;
};

}  // namespace

SHEAF_FUZZ_TARGET(cipher) {
  sheaf::fuzz::fix_random();
  ByteSource source(input);
  const std::uint8_t choice = source.byte();
  Connection connection(choice % 4 != 0, choice / 4 % 8);
  for (int steps = 0; steps < 200 && !source.is_empty(); ++steps) {
    const std::uint8_t step = source.byte();
    switch (step % 8) {
      case 0:
        connection.write(source.value<std::uint16_t>() * 2, step & 8);
        break;
      case 1:
      case 2:
        connection.write(source.byte(), step & 8);
        break;
      case 3:
        connection.flip(source.value<std::uint16_t>(), source.byte());
        break;
      case 4:
        connection.drop(source.value<std::uint16_t>(), source.byte());
        break;
      case 5:
        connection.insert(source.value<std::uint16_t>(),
                          source.take(source.byte()));
        break;
      case 6:
        connection.repeat(source.value<std::uint16_t>(), source.byte() * 4);
        break;
      default:
        connection.deliver(source.value<std::uint16_t>(), 2 + step * 20);
    }
  }
  connection.finish();
}
