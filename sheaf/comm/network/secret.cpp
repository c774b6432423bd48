#include "sheaf/comm/network/secret.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kShortestSecret = 16;
constexpr std::size_t kLongestSecret = 4096;

void start_sodium() {
  static const int result = sodium_init();
  if (result < 0) throw CommError("libsodium cannot be initialized");
}

const unsigned char* as_unsigned(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::string read_secret_file(const std::string& path) {
  const auto fail = [&](const char* verb) -> std::string {
    throw IoError(concat("cannot ", verb, " SHEAF_SECRET_FILE=", path, ": ",
                         strerror(errno)));
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail("open");
  struct stat status {};
  std::string text(kLongestSecret, '\0');
  const bool is_known = ::fstat(fd, &status) == 0;
  const ssize_t got = ::read(fd, text.data(), text.size());
  ::close(fd);
  if (!is_known || got < 0) return fail("read");
  SHEAF_CHECK(S_ISREG(status.st_mode), "SHEAF_SECRET_FILE=", path,
              " is not a regular file");
  SHEAF_CHECK((status.st_mode & 077) == 0, "SHEAF_SECRET_FILE=", path,
              " can be accessed by other users; run chmod 600 ", path);
  SHEAF_CHECK(status.st_uid == ::geteuid() || status.st_uid == 0,
              "SHEAF_SECRET_FILE=", path, " belongs to another user (",
              status.st_uid, "), who knows the secret; use a file of your own");
  text.resize(static_cast<std::size_t>(got));
  return text;
}

// The secret and the variable that it comes from; empty if there is none.
std::pair<std::string, const char*> read_secret() {
  if (const char* text = std::getenv("SHEAF_SECRET"))
    return {text, "SHEAF_SECRET"};
  if (const char* path = std::getenv("SHEAF_SECRET_FILE"))
    return {read_secret_file(path), "SHEAF_SECRET_FILE"};
  return {};
}

}  // namespace

bool are_equal(const Mac& a, const Mac& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Bytes32 random_bytes() {
  start_sodium();
  Bytes32 result;
  randombytes_buf(result.data(), result.size());
  return result;
}

Key::~Key() { sodium_memzero(bytes_.data(), bytes_.size()); }

Mac Key::mac(std::initializer_list<std::span<const std::byte>> parts) const {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes_.data(), bytes_.size());
  for (const auto part : parts)
    crypto_auth_hmacsha256_update(&state, as_unsigned(part), part.size());
  Mac result;
  crypto_auth_hmacsha256_final(&state, result.data());
  return result;
}

Key Key::derive(std::string_view purpose,
                std::span<const std::byte> context) const {
  const std::uint64_t length = purpose.size();
  return Key(mac({bytes_of(length), bytes_of(purpose), context}));
}

JobIdentity find_identity(std::string job) {
  start_sodium();
  JobIdentity identity{.job = std::move(job), .key = {}, .has_secret = false};
  auto [secret, from] = read_secret();
  if (!from) return identity;
  const std::string_view text = trim(secret);
  SHEAF_CHECK(text.size() >= kShortestSecret, from, " has ", text.size(),
              " characters; use at least ", kShortestSecret,
              " random ones, such as the output of: head -c 24 /dev/urandom | "
              "base64");
  identity.key = Key().derive(text, bytes_of(identity.job));
  identity.has_secret = true;
  sodium_memzero(secret.data(), secret.size());
  return identity;
}

bool wants_encryption() {
  const char* text = std::getenv("SHEAF_ENCRYPT");
  if (!text) return false;
  const std::string_view value = text;
  SHEAF_CHECK(value == "0" || value == "1", "SHEAF_ENCRYPT='", value,
              "'; write 1 to encrypt connections between hosts, or 0");
  return value == "1";
}

std::string new_secret() {
  const Bytes32 random = random_bytes();
  std::string text(2 * random.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), random.data(), random.size());
  text.pop_back();
  return text;
}

}  // namespace sheaf::comm
