#include "sheaf/comm/network/cipher.hpp"

#include <cstring>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kHeaderBytes =
    crypto_secretstream_xchacha20poly1305_HEADERBYTES;
constexpr std::size_t kExtraBytes =
    crypto_secretstream_xchacha20poly1305_ABYTES;
using Length = std::uint32_t;

unsigned char* as_sodium(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* as_sodium(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace

Cipher::Cipher(const SessionKeys& keys)
    : receive_key_(keys.receive),
      header_(kHeaderBytes),
      sealed_(sizeof(Length) + kRecordBytes + kExtraBytes) {
  crypto_secretstream_xchacha20poly1305_init_push(
      &send_, as_sodium(header_.data()), keys.send.bytes().data());
}

Cipher::~Cipher() {
  sodium_memzero(&send_, sizeof send_);
  sodium_memzero(&receive_, sizeof receive_);
}

void Cipher::seal(std::span<const std::byte> plain,
                  std::vector<std::byte>& out) {
  SHEAF_ASSERT(!plain.empty() && plain.size() <= kRecordBytes, "record of ",
               plain.size(), " bytes");
  out.insert(out.end(), header_.begin(), header_.end());
  header_.clear();
  const auto length = static_cast<Length>(plain.size() + kExtraBytes);
  const auto prefix = bytes_of(length);
  out.insert(out.end(), prefix.begin(), prefix.end());
  const std::size_t at = out.size();
  out.resize(at + length);
  crypto_secretstream_xchacha20poly1305_push(
      &send_, as_sodium(out.data() + at), nullptr, as_sodium(plain.data()),
      plain.size(), as_sodium(prefix.data()), prefix.size(), 0);
}

std::span<std::byte> Cipher::room() {
  return std::span(sealed_).subspan(received_);
}

bool Cipher::open() {
  if (!plain().empty()) return true;
  std::size_t at = 0;
  if (!has_begun_) {
    if (received_ < kHeaderBytes) return true;
    if (crypto_secretstream_xchacha20poly1305_init_pull(
            &receive_, as_sodium(sealed_.data()),
            receive_key_.bytes().data()) != 0)
      return false;
    has_begun_ = true;
    at = kHeaderBytes;
  }
  Length length = 0;
  const bool has_length = received_ - at >= sizeof length;
  if (has_length) {
    std::memcpy(&length, sealed_.data() + at, sizeof length);
    if (length <= kExtraBytes || length > kRecordBytes + kExtraBytes)
      return false;
  }
  if (has_length && received_ - at - sizeof length >= length) {
    const std::byte* record = sealed_.data() + at + sizeof length;
    plain_.resize(length - kExtraBytes);
    used_ = 0;
    if (crypto_secretstream_xchacha20poly1305_pull(
            &receive_, as_sodium(plain_.data()), nullptr, nullptr,
            as_sodium(record), length, as_sodium(sealed_.data() + at),
            sizeof length) != 0)
      return false;
    at += sizeof length + length;
  }
  // Records are at most as long as the buffer, so it is never full here.
  std::memmove(sealed_.data(), sealed_.data() + at, received_ - at);
  received_ -= at;
  return true;
}

}  // namespace sheaf::comm
