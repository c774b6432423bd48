#include "sheaf/comm/network/seal.hpp"

#include <cstring>

namespace sheaf::comm {
namespace {

constexpr std::string_view kSealMark = "sheaf-seal-1 ";

}  // namespace

Seal::Seal(const JobIdentity& identity) : identity_(identity) {}

Key Seal::session_key() const {
  return identity_.key.derive("session", bytes_of(session_));
}

Mac Seal::code_of(const std::string& name, const std::string& value) const {
  const std::uint64_t lengths[] = {identity_.job.size(), name.size()};
  return identity_.key.derive("seal").mac(
      {bytes_of(lengths), bytes_of(identity_.job), bytes_of(session_),
       bytes_of(name), bytes_of(value)});
}

std::string Seal::close(const std::string& name,
                        const std::string& value) const {
  const Mac code = code_of(name, value);
  std::string sealed(kSealMark);
  sealed.append(reinterpret_cast<const char*>(code.data()), code.size());
  return sealed + value;
}

std::optional<std::string> Seal::open(const std::string& name,
                                      const std::string& sealed) const {
  Mac code{};
  const std::size_t begin = kSealMark.size() + code.size();
  if (sealed.size() < begin || !sealed.starts_with(kSealMark))
    return std::nullopt;
  std::memcpy(code.data(), sealed.data() + kSealMark.size(), code.size());
  const std::string value = sealed.substr(begin);
  if (!are_equal(code, code_of(name, value))) return std::nullopt;
  return value;
}

}  // namespace sheaf::comm
