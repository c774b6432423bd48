// Small files that claim, or unpack to, a lot of memory. The program's
// allocations are counted.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "sheaf/formats/archives/pickle.hpp"
#include "sheaf/formats/archives/torch_archive.hpp"
#include "sheaf/formats/arrays/npy.hpp"
#include "tests/formats/archives/made_archive.hpp"
#include "tests/formats/archives/zip_file.hpp"

namespace {

using Kind = sheaf::formats::PickleValue::Kind;

std::atomic<std::size_t> used{0}, most{0};

void* allocate(std::size_t bytes) {
  void* place = std::malloc(bytes);
  if (!place) throw std::bad_alloc();
  const std::size_t room = malloc_usable_size(place);
  // What reads past the end of a vector finds an integer there.
  std::memset(place, static_cast<int>(Kind::kInteger), room);
  const std::size_t now = used += room;
  std::size_t before = most;
  while (now > before && !most.compare_exchange_weak(before, now)) continue;
  return place;
}

void release(void* place) {
  used -= malloc_usable_size(place);
  std::free(place);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void operator delete(void* place) noexcept { release(place); }
void operator delete(void* place, std::size_t) noexcept { release(place); }

namespace sheaf::formats {
namespace {

constexpr std::size_t kMega = 1 << 20;

// The largest number of bytes allocated during the call, which may throw an
// IoError.
template <class Function>
std::size_t memory_of(const Function& call) {
  const std::size_t before = used;
  most = before;
  error_of<IoError>(call);
  return most - before;
}

std::size_t memory_of_pickle(const std::string& program) {
  const std::string bytes = pickle_of(program);
  return memory_of([&] {
    ByteReader reader("a.pkl", bytes);
    read_pickle(reader, max_pickle_memory(bytes.size()));
  });
}

TEST(Memory, IsCounted) {
  EXPECT_GE(memory_of([] { std::string(kMega, 'x'); }), kMega);
  EXPECT_LT(memory_of([] {}), 100u);
}

// Names twice as long with each instruction.
TEST(Memory, NamesInPicklesDoNotGrow) {
  std::string program = "U\1a";
  for (int i = 0; i < 60; ++i) program += "2\x93";
  EXPECT_LT(memory_of_pickle(program), kMega);
  // A long string, joined with itself by each four bytes.
  program = pickled(std::string(kMega, 'a')) + "q\1";
  for (int i = 0; i < 100'000; ++i)
    program +=
        "h\1\x93"
        "2";
  EXPECT_LT(memory_of_pickle(program), 200 * kMega);
}

TEST(Memory, CopiesOfStringsInPicklesAreShared) {
  std::string program = pickled(std::string(kMega, 'a')) + "q\1";
  for (int i = 0; i < 100'000; ++i) program += "h\1";
  EXPECT_LT(memory_of_pickle(program), 10 * kMega);
}

TEST(Memory, OfPicklesIsProportionalToTheirSize) {
  const std::size_t size = 300'000;
  for (const std::string part :
       {"N", ")", "]", "}", "(", "N\x85", "]\x94", "]q\1", "ca\nb\n", "c\n\n",
        "U", "N2", "K\7"}) {
    std::string program;
    while (program.size() < size) program += part;
    EXPECT_LT(memory_of_pickle(program), 128 * size) << part;
    EXPECT_LT(memory_of_pickle("](" + program + "e"), 128 * size) << part;
  }
}

TEST(Memory, OfADeflatedPickleIsLimitedByTheFile) {
  const std::string pickle = pickle_of(std::string(10 * kMega, ']'));
  const std::string archive =
      packed_archive(deflated(pickle), pickle, "a/data.pkl");
  ASSERT_LT(archive.size(), 20'000u);
  EXPECT_LT(memory_of([&] { TorchArchive("a.pt", archive).state(""); }), kMega);
}

// The same tensor with 64 axes under many names.
TEST(Memory, OfDescribedTensorsIsLimited) {
  const std::vector<std::int64_t> ones(64, 1);
  std::string program = pickled_view(0, ones, ones).text() + "q\1" + "0}(";
  for (int i = 0; i < 50'000; ++i) program += concat("U\5", 10'000 + i, "h\1");
  const std::string archive = archive_of(program + "u");
  std::string error;
  EXPECT_LT(memory_of([&] {
              error = error_of<IoError>(
                  [&] { TorchArchive("a.pt", archive).state(""); });
            }),
            128 * archive.size());
  EXPECT_NE(error.find("too many tensors"), std::string::npos);
}

// 4 GB claimed by 4 MB, and unpacked by 4 MB.
TEST(Memory, OfUnpackedEntriesGrowsWithTheirData) {
  std::string noise(4 * kMega, '\0');
  std::uint32_t state = 1;
  for (char& byte : noise)
    byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  std::string archive = packed_archive(deflated(noise), noise);
  const auto read = [&] {
    const ZipReader reader("a.zip", archive);
    reader.read(reader.entries()[0]);
  };
  EXPECT_EQ(error_of<IoError>(read), "");
  set_u32(archive, archive.rfind("PK\1\2") + 24, 0xf0000000);
  EXPECT_NE(error_of<IoError>(read), "");
  EXPECT_LT(memory_of(read), 60 * kMega);
}

// A gigabyte for each of the entries, which share their content.
TEST(Memory, OverlappingEntriesAreNotUnpacked) {
  const std::string zeros(64 * kMega, '\0'), packed = deflated(zeros);
  ASSERT_LT(packed.size(), 70'000u);
  const std::string one = packed_archive(packed, zeros);
  const std::size_t from = one.rfind("PK\1\2");
  std::string bytes = one.substr(0, from), directory;
  const std::size_t end = one.size() - 22;
  for (int i = 0; i < 100; ++i) directory += one.substr(from, end - from);
  std::string archive = bytes + directory + one.substr(end);
  const std::size_t at = archive.size() - 22;
  set_u16(archive, at + 10, 100);
  set_u32(archive, at + 12, static_cast<std::uint32_t>(directory.size()));
  EXPECT_LT(memory_of([&] {
              const ZipReader reader("a.zip", archive);
              std::vector<ZipContent> contents;
              for (const ZipEntry& entry : reader.entries())
                contents.push_back(reader.read(entry));
            }),
            kMega);
}

TEST(Memory, OfNpyHeadersIsProportionalToTheirSize) {
  const std::size_t size = 1'000'000;
  const auto memory = [&](const std::string& begin, const std::string& part) {
    std::string text = begin;
    while (text.size() < size) text += part;
    std::string bytes("\x93NUMPY\2\0", 8);
    put_u32(bytes, static_cast<std::uint32_t>(text.size()));
    bytes += text;
    return memory_of([&] {
      ByteReader reader("a.npy", bytes);
      read_npy(reader);
    });
  };
  EXPECT_LT(memory("{'shape': (", "1,"), 10'000u);
  EXPECT_LT(memory("{'", "x"), 10'000u);
  EXPECT_LT(memory("{'descr': '", "x"), 10'000u);
  EXPECT_LT(memory("{'descr': 'x", "x"), 10'000u);
}

}  // namespace
}  // namespace sheaf::formats
