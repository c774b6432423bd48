#include <gtest/gtest.h>

#include "sheaf/data/formats/array_files.hpp"
#include "tests/data/made_files.hpp"

namespace sheaf::data {
namespace {

constexpr std::size_t kImage = 3072;

Bytes record(const Bytes& labels, std::uint8_t fill) {
  Bytes bytes = labels;
  bytes.resize(labels.size() + kImage, fill);
  return bytes;
}

Bytes joined(const std::vector<Bytes>& records) {
  Bytes all;
  for (const Bytes& one : records)
    all.insert(all.end(), one.begin(), one.end());
  return all;
}

class Cifar : public FileTest {
 protected:
  std::string error_of(const Bytes& bytes, CifarKind kind) const {
    const std::vector<std::string> files = {write("bad", bytes)};
    return io_error([&] { read_cifar(files, kind); });
  }
};

TEST_F(Cifar, JoinsFilesOfTen) {
  Bytes colored = record({7}, 10);
  colored[1 + 1024] = 99;       // green, first pixel
  colored[1 + 2048 + 33] = 98;  // blue, second row, second pixel
  const std::vector<std::string> files = {
      write("a", joined({record({3}, 5), colored})),
      write("b", gzip(record({0}, 6)))};
  const auto dataset = read_cifar(files, CifarKind::kCifar10);
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->classes(), 10);
  EXPECT_EQ(dataset->class_names()[3], "cat");
  EXPECT_EQ(dataset->example_shape(), (std::vector<std::int64_t>{3, 32, 32}));
  EXPECT_TRUE(at::equal(dataset->target(), at::tensor({3, 7, 0}, at::kLong)));
  EXPECT_EQ(dataset->data()[1][1][0][0].item<int>(), 99);
  EXPECT_EQ(dataset->data()[1][2][1][1].item<int>(), 98);
  EXPECT_EQ(dataset->data()[2][0][31][31].item<int>(), 6);
}

TEST_F(Cifar, TakesEitherLabelOfAHundred) {
  const std::vector<std::string> files = {
      write("train.bin", joined({record({19, 99}, 1), record({2, 50}, 2)}))};
  const auto fine = read_cifar(files, CifarKind::kCifar100);
  EXPECT_TRUE(at::equal(fine->target(), at::tensor({99, 50}, at::kLong)));
  EXPECT_EQ(fine->classes(), 100);
  EXPECT_EQ(fine->data()[1][0][0][0].item<int>(), 2);
  const auto coarse = read_cifar(files, CifarKind::kCifar100Coarse);
  EXPECT_TRUE(at::equal(coarse->target(), at::tensor({19, 2}, at::kLong)));
  EXPECT_EQ(coarse->classes(), 20);
}

TEST_F(Cifar, AFaultIsAnErrorThatNamesTheFile) {
  EXPECT_TRUE(contains(error_of(Bytes(3072), CifarKind::kCifar10), "bad"));
  EXPECT_TRUE(contains(error_of(record({10}, 0), CifarKind::kCifar10), "bad"));
}

TEST_F(Cifar, KnowsItsFiles) {
  EXPECT_EQ(cifar_file_names(CifarKind::kCifar10, "train").size(), 5u);
  EXPECT_EQ(cifar_file_names(CifarKind::kCifar10, "test")[0], "test_batch.bin");
  EXPECT_EQ(cifar_file_names(CifarKind::kCifar100, "train")[0], "train.bin");
  EXPECT_THROW(cifar_file_names(CifarKind::kCifar10, "dev"), UsageError);
}

}  // namespace
}  // namespace sheaf::data
