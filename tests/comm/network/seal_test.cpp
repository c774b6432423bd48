#include "sheaf/comm/network/seal.hpp"

#include <gtest/gtest.h>

#include "tests/comm/network/loopback.hpp"

namespace sheaf::comm {
namespace {

using test::identity_with;

Seal seal_with(const JobIdentity& identity, std::uint8_t session) {
  Seal seal(identity);
  seal.set_session({session});
  return seal;
}

TEST(Seal, OpensWhatItHasClosed) {
  const Seal seal = seal_with(identity_with("secret"), 1);
  const std::string value("with\0 a zero", 12);
  for (const std::string& text : {value, std::string(), std::string(9999, 'x')})
    EXPECT_EQ(seal.open("card/1", seal.close("card/1", text)), text);
}

TEST(Seal, RefusesOtherNamesJobsSecretsAndSessions) {
  const std::string sealed =
      seal_with(identity_with("secret"), 1).close("card/1", "value");
  const auto opens = [&](const JobIdentity& identity, std::uint8_t session,
                         const std::string& name) {
    return seal_with(identity, session).open(name, sealed).has_value();
  };
  EXPECT_TRUE(opens(identity_with("secret"), 1, "card/1"));
  EXPECT_FALSE(opens(identity_with("secret"), 1, "card/2"));
  EXPECT_FALSE(opens(identity_with("secret"), 2, "card/1"));
  EXPECT_FALSE(opens(identity_with("another"), 1, "card/1"));
  EXPECT_FALSE(opens(identity_with("secret", "other job"), 1, "card/1"));
}

TEST(Seal, RefusesEveryChange) {
  const Seal seal = seal_with(identity_with("secret"), 1);
  const std::string sealed = seal.close("name", "value");
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] ^= 1;
    EXPECT_FALSE(seal.open("name", changed)) << i;
    EXPECT_FALSE(seal.open("name", sealed.substr(0, i))) << i;
  }
  EXPECT_FALSE(seal.open("name", sealed + "x"));
}

TEST(Seal, SessionsHaveDifferentKeys) {
  const auto key = [](std::uint8_t session) {
    return seal_with(identity_with("secret"), session).session_key().bytes();
  };
  EXPECT_EQ(key(1), key(1));
  EXPECT_NE(key(1), key(2));
}

}  // namespace
}  // namespace sheaf::comm
