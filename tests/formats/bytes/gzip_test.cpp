#include "sheaf/formats/bytes/gzip.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <random>

#include "tests/formats/bytes/made_files.hpp"

namespace sheaf::formats::made {
namespace {

Bytes unpacked(const Bytes& packed,
               AvailableMemory available = available_memory) {
  const FileBytes content =
      unpack_gzip(view_bytes("packed", packed), available);
  return {content.data(), content.data() + content.size};
}

std::string unpack_error(const Bytes& packed,
                         AvailableMemory available = available_memory) {
  return io_error([&] { unpacked(packed, available); });
}

Bytes first_of(const Bytes& bytes, std::size_t count) {
  return {bytes.begin(), bytes.begin() + static_cast<long>(count)};
}

TEST(Gzip, IsRecognizedByTwoBytes) {
  EXPECT_TRUE(is_gzip(gzip({1})));
  for (const Bytes& other :
       {Bytes{}, Bytes{0x1f}, Bytes{0x1f, 0x8c}, Bytes{0x8b, 0x1f}})
    EXPECT_FALSE(is_gzip(other));
}

TEST(Gzip, UnpacksWhatShrinksALot) {
  const Bytes zeros(2'000'000);
  EXPECT_EQ(unpacked(gzip(zeros)), zeros);
}

// The trailer has the size of the content, so that the memory is allocated
// once, with one byte to find its end. malloc() rounds it up.
TEST(Gzip, TakesTheMemoryOfTheContent) {
  std::minstd_rand random;
  for (const std::size_t size : {1000, 300'000}) {
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes)
      byte = static_cast<std::uint8_t>(random() >> 8);
    const Bytes packed = gzip(bytes);
    const FileBytes content = unpack_gzip(view_bytes("packed", packed));
    EXPECT_LE(::malloc_usable_size(content.memory.get()),
              size + size / 50 + 64);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), content.data()));
  }
}

TEST(Gzip, UnpacksJoinedMembers) {
  Bytes joined = gzip({1, 2, 3});
  const Bytes second = gzip({4, 5});
  joined.insert(joined.end(), second.begin(), second.end());
  EXPECT_EQ(unpacked(joined), Bytes({1, 2, 3, 4, 5}));
}

// More than fits into the part of the memory that is used between two checks.
TEST(Gzip, ContentOfSeveralPartsIsComplete) {
  Bytes bytes(2 * kMemoryPart + 5);
  for (std::size_t i = 0; i < bytes.size(); i += 4099)
    bytes[i] = static_cast<std::uint8_t>(i / 4099);
  EXPECT_EQ(unpacked(gzip(bytes)), bytes);
}

// 40 MB come from 40 KB.
TEST(Gzip, ABombEndsWithTheAvailableMemory) {
  const Bytes packed = gzip(Bytes(40'000'000));
  static int calls;
  calls = 0;
  // Leaves room for one part.
  const AvailableMemory scarce = [] {
    ++calls;
    return std::optional<std::uint64_t>(kMemoryLeft +
                                        kMemoryPart * (calls == 1 ? 1 : 0));
  };
  const std::string text = unpack_error(packed, scarce);
  EXPECT_TRUE(contains(text,
                       "packed: its content, of which 32 MiB are "
                       "decompressed, needs 16 MiB more memory") &&
              contains(text, "64 MiB is available"))
      << text;
  EXPECT_EQ(calls, 2);
  const AvailableMemory unknown = [] { return std::optional<std::uint64_t>(); };
  EXPECT_EQ(unpacked(packed, unknown).size(), 40'000'000u);
}

// 4 GiB are promised by 100 bytes; only what comes is allocated.
TEST(Gzip, ALengthInTheTrailerIsNotBelieved) {
  Bytes packed = gzip(counting_bytes(100));
  std::fill(packed.end() - 4, packed.end(), 0xff);
  const std::string text = unpack_error(packed);
  EXPECT_TRUE(contains(text, "incorrect length check")) << text;
}

TEST(Gzip, CutAnywhereItIsAnError) {
  const Bytes packed = gzip(counting_bytes(2000));
  for (std::size_t size = 2; size < packed.size(); ++size) {
    const std::string text = unpack_error(first_of(packed, size));
    EXPECT_TRUE(contains(text, "packed")) << size << ": " << text;
    EXPECT_EQ(offset_in(text), static_cast<long>(size)) << text;
  }
}

// Bytes 4 to 9 of the gzip header, a time and a system, are not checked. A
// changed flag (byte 3) may turn a part of the data into a file name.
TEST(Gzip, ChangedAnywhereItIsAnError) {
  const Bytes packed = gzip(counting_bytes(2000));
  for (std::size_t i = 10; i < packed.size(); ++i) {
    Bytes changed = packed;
    changed[i] ^= 0x10;
    const std::string text = unpack_error(changed);
    EXPECT_TRUE(contains(text, "packed")) << i;
    EXPECT_GE(offset_in(text), 0) << text;
    EXPECT_LE(offset_in(text), static_cast<long>(packed.size())) << text;
  }
}

TEST(Gzip, SomethingBehindTheDataIsAnError) {
  Bytes packed = gzip({1, 2, 3});
  const auto size = static_cast<long>(packed.size());
  packed.push_back(9);
  EXPECT_EQ(offset_in(unpack_error(packed)), size);
}

}  // namespace
}  // namespace sheaf::formats::made
