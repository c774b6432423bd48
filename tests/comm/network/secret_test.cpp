#include "sheaf/comm/network/secret.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

#include "sheaf/base/error.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

using Variables = test::ScopedVariables;

const std::vector<std::string> kNames{"SHEAF_SECRET", "SHEAF_SECRET_FILE",
                                      "SHEAF_ENCRYPT"};

// RFC 4231, test case 2: the key "Jefe" in 32 bytes, filled with zeros.
TEST(Key, ComputesHmacSha256) {
  Bytes32 bytes{};
  std::copy_n("Jefe", 4, bytes.begin());
  const Mac mac =
      Key(bytes).mac({bytes_of(std::string_view("what do ya want ")),
                      bytes_of(std::string_view("for nothing?"))});
  const Mac expected{0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                     0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                     0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                     0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  EXPECT_TRUE(are_equal(mac, expected));
}

TEST(Key, DerivesADifferentKeyForEveryPurposeAndContext) {
  const Key key(random_bytes());
  const int one = 1;
  const int two = 2;
  std::set<Bytes32> keys{key.bytes()};
  for (const char* purpose : {"", "a", "b", "ab"})
    for (const int& context : {one, two})
      keys.insert(key.derive(purpose, bytes_of(context)).bytes());
  EXPECT_EQ(keys.size(), 9u);
  EXPECT_EQ(key.derive("a").bytes(), key.derive("a").bytes());
  EXPECT_NE(Key(random_bytes()).derive("a").bytes(), key.derive("a").bytes());
}

TEST(JobIdentity, WithoutASecretIsKnownToEverybody) {
  const Variables variables(kNames);
  const JobIdentity identity = find_identity("job");
  EXPECT_FALSE(identity.has_secret);
  EXPECT_EQ(identity.job, "job");
  EXPECT_EQ(identity.key.bytes(), Key().bytes());
}

TEST(JobIdentity, DependsOnSecretAndJob) {
  const Variables variables(kNames);
  std::set<Bytes32> keys;
  for (const char* secret : {"0123456789abcdef", "0123456789abcdeg"})
    for (const char* job : {"one", "two"}) {
      variables.set({{"SHEAF_SECRET", secret}});
      const JobIdentity identity = find_identity(job);
      EXPECT_TRUE(identity.has_secret);
      keys.insert(identity.key.bytes());
    }
  EXPECT_EQ(keys.size(), 4u);
}

TEST(JobIdentity, RefusesAShortSecret) {
  const Variables variables(kNames);
  for (const char* secret : {"", "  0123456789abcde\n"}) {
    variables.set({{"SHEAF_SECRET", secret}});
    expect_throws<UsageError>([] { find_identity(""); },
                              {"SHEAF_SECRET has", "at least 16"});
  }
}

class SecretFile : public testing::Test {
 protected:
  void write(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    variables_.set({{"SHEAF_SECRET_FILE", path_}});
  }

  const Variables variables_{kNames};
  const TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "secret").string();
};

TEST_F(SecretFile, IsTheSameAsTheVariable) {
  write("0123456789abcdef\n", 0600);
  const Bytes32 key = find_identity("").key.bytes();
  variables_.set({{"SHEAF_SECRET", "0123456789abcdef"}});
  EXPECT_EQ(find_identity("").key.bytes(), key);
}

TEST_F(SecretFile, MustBeClosedToOthers) {
  for (const mode_t mode : {0640, 0604, 0644, 0620}) {
    write("0123456789abcdef", mode);
    expect_throws<UsageError>([] { find_identity(""); },
                              {"chmod 600 " + path_});
  }
}

TEST_F(SecretFile, MustNotBelongToAnotherUser) {
  write("0123456789abcdef", 0600);
  if (::chown(path_.c_str(), 12345, 12345) != 0)
    GTEST_SKIP() << "only root can give a file away";
  expect_throws<UsageError>([] { find_identity(""); },
                            {path_ + " belongs to another user (12345)"});
}

TEST_F(SecretFile, MustNotBeAPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  variables_.set({{"SHEAF_SECRET_FILE", path_}});
  expect_throws<UsageError>([] { find_identity(""); },
                            {path_ + " is not a regular file"});
}

TEST_F(SecretFile, MustExist) {
  variables_.set({{"SHEAF_SECRET_FILE", path_}});
  expect_throws<IoError>([] { find_identity(""); }, {path_, "No such file"});
}

TEST(Secret, NewOnesAreLongAndDifferent) {
  const Variables variables(kNames);
  const std::string secret = new_secret();
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_NE(secret, new_secret());
  variables.set({{"SHEAF_SECRET", secret}});
  EXPECT_TRUE(find_identity("").has_secret);
}

TEST(Secret, EncryptionIsOnOrOff) {
  const Variables variables(kNames);
  EXPECT_FALSE(wants_encryption());
  variables.set({{"SHEAF_ENCRYPT", "0"}});
  EXPECT_FALSE(wants_encryption());
  variables.set({{"SHEAF_ENCRYPT", "1"}});
  EXPECT_TRUE(wants_encryption());
  variables.set({{"SHEAF_ENCRYPT", "yes"}});
  expect_throws<UsageError>([] { wants_encryption(); },
                            {"SHEAF_ENCRYPT='yes'", "write 1"});
}

}  // namespace
}  // namespace sheaf::comm
