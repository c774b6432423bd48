#pragma once
// What the ranks of a job have in common and strangers do not: the job's secret
// and the keys derived from it. Cryptography is libsodium's.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace sheaf::comm {

using Bytes32 = std::array<std::uint8_t, 32>;
using Mac = Bytes32;  // message authentication code: HMAC-SHA-256

// Whether two codes are equal, in a time that does not depend on them.
bool are_equal(const Mac& a, const Mac& b);
Bytes32 random_bytes();

// The bytes of a plain value or of a text, for mac().
template <class T>
requires std::is_trivially_copyable_v<T> &&
    (!std::is_convertible_v<const T&, std::string_view>)
        std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A key, wiped from memory when it is destroyed. The default one is known to
// everybody: with it, authentication detects mistakes, but no attacks.
class Key {
 public:
  Key() = default;
  explicit Key(const Bytes32& bytes) : bytes_(bytes) {}
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  ~Key();

  const Bytes32& bytes() const { return bytes_; }
  // The code of the concatenated parts.
  Mac mac(std::initializer_list<std::span<const std::byte>> parts) const;
  // A key for one purpose; it does not reveal this key or those for others.
  Key derive(std::string_view purpose,
             std::span<const std::byte> context = {}) const;

 private:
  Bytes32 bytes_{};
};

// A job and the key that its ranks have in common.
struct JobIdentity {
  std::string job;  // name of the job; not secret
  Key key;          // Key() if there is no secret
  bool has_secret = false;
};

// The identity of `job` with the secret in SHEAF_SECRET or in the file named by
// SHEAF_SECRET_FILE, which nobody but its owner, this user or root, may access.
// Throws UsageError if the secret is too short or others know it, IoError if
// the file cannot be read.
JobIdentity find_identity(std::string job);

// Whether SHEAF_ENCRYPT asks for encrypted connections between hosts. Throws
// UsageError if its value is neither 0 nor 1.
bool wants_encryption();

// A random secret, as text for SHEAF_SECRET.
std::string new_secret();

}  // namespace sheaf::comm
