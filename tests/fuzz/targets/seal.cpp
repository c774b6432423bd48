// Values of a store to which strangers can write.
// parser: sheaf/comm/network/seal.cpp
#include "sheaf/comm/network/seal.hpp"

#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace {

using sheaf::comm::Seal;

Seal make_seal(std::string_view job, std::uint8_t session) {
  Seal seal({.job = std::string(job),
             .key = sheaf::comm::Key().derive("fuzz"),
             .has_secret = true});
  seal.set_session({session});
  return seal;
}

}  // namespace

// Nothing opens but what was closed with the same job, session and name.
SHEAF_FUZZ_TARGET(seal) {
  sheaf::fuzz::ByteSource source(input);
  const std::uint8_t session = source.byte();
  const std::string name(sheaf::fuzz::text_of(source.take(source.byte() % 8)));
  const Seal mine = make_seal("job", session);
  const std::string value(sheaf::fuzz::text_of(source.take(source.byte())));
  const std::string sealed = mine.close(name, value);
  SHEAF_FUZZ_CHECK(mine.open(name, sealed) == value);

  const std::string stranger(sheaf::fuzz::text_of(source.rest()));
  SHEAF_FUZZ_CHECK(!mine.open(name, stranger) || stranger == sealed);
  SHEAF_FUZZ_CHECK(!mine.open(name + "x", sealed));
  SHEAF_FUZZ_CHECK(!make_seal("other", session).open(name, sealed));
  const auto later = static_cast<std::uint8_t>(session + 1);
  SHEAF_FUZZ_CHECK(!make_seal("job", later).open(name, sealed));
  std::string changed = sealed;
  const std::size_t at = stranger.size() % changed.size();
  changed[at] = static_cast<char>(changed[at] ^ (1 + session % 255));
  SHEAF_FUZZ_CHECK(!mine.open(name, changed));
  SHEAF_FUZZ_CHECK(!mine.open(name, sealed.substr(0, at)));
}
