#pragma once
// Authenticated encryption of a connection: libsodium's secretstream
// (XChaCha20-Poly1305). Data is cut into records, each preceded by the length
// of its ciphertext. The other side detects records that were changed, removed,
// repeated or reordered.

#include <sodium.h>

#include <cstddef>
#include <span>
#include <vector>

#include "sheaf/comm/network/handshake.hpp"

namespace sheaf::comm {

class Cipher {
 public:
  static constexpr std::size_t kRecordBytes = std::size_t{64} << 10;

  explicit Cipher(const SessionKeys& keys);
  ~Cipher();

  // Appends the record of up to kRecordBytes bytes to `out`.
  void seal(std::span<const std::byte> plain, std::vector<std::byte>& out);

  // Where the next bytes from the network go, never empty, and how many came.
  std::span<std::byte> room();
  void add(std::size_t bytes) { received_ += bytes; }
  // Decrypts the next record if all of it has arrived and plain() is empty.
  // Returns false if it was modified.
  bool open();
  // Decrypted bytes, and how many of them were used.
  std::span<const std::byte> plain() const {
    return std::span(plain_).subspan(used_);
  }
  void use(std::size_t bytes) { used_ += bytes; }

 private:
  crypto_secretstream_xchacha20poly1305_state send_;
  crypto_secretstream_xchacha20poly1305_state receive_;
  Key receive_key_;
  std::vector<std::byte> header_;  // of this side, sent before the first record
  bool has_begun_ = false;         // whether the other side's header is here
  std::vector<std::byte> sealed_;  // a header, or a length and its record
  std::size_t received_ = 0;
  std::vector<std::byte> plain_;
  std::size_t used_ = 0;
};

}  // namespace sheaf::comm
