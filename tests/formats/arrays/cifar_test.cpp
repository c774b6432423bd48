#include "sheaf/formats/arrays/cifar.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/formats/bytes/made_files.hpp"

namespace sheaf::formats::made {
namespace {

Bytes records(const std::vector<Bytes>& labels) {
  Bytes bytes;
  for (const Bytes& one : labels) {
    bytes.insert(bytes.end(), one.begin(), one.end());
    bytes.resize(bytes.size() + kCifarImageBytes, 200);
  }
  return bytes;
}

std::size_t checked(const Bytes& bytes, CifarKind kind) {
  return check_cifar(view_bytes("batch.bin", bytes), cifar_layout(kind));
}

std::string check_error(const Bytes& bytes, CifarKind kind) {
  return io_error([&] { checked(bytes, kind); });
}

TEST(CifarRecords, AreCounted) {
  EXPECT_EQ(checked(records({{3}, {9}}), CifarKind::kCifar10), 2u);
  EXPECT_EQ(checked(records({{19, 99}}), CifarKind::kCifar100), 1u);
  EXPECT_EQ(cifar_layout(CifarKind::kCifar10).record_bytes(), 3073u);
  EXPECT_EQ(cifar_layout(CifarKind::kCifar100).classes(), 100);
  EXPECT_EQ(cifar_layout(CifarKind::kCifar100Coarse).classes(), 20);
  EXPECT_THROW(cifar_layout(static_cast<CifarKind>(9)), UsageError);
}

TEST(CifarRecords, AFileCutWithinOneIsAnError) {
  const Bytes whole = records({{3}, {4}});
  for (const long size : {1L, 3072L, 3074L, 6145L}) {
    const std::string text = check_error(
        Bytes(whole.begin(), whole.begin() + size), CifarKind::kCifar10);
    EXPECT_EQ(offset_in(text), size < 3073 ? 0 : 3073) << text;
    EXPECT_TRUE(contains(text, "batch.bin")) << text;
  }
  EXPECT_TRUE(contains(check_error({}, CifarKind::kCifar10), "empty"));
}

TEST(CifarRecords, LabelsMustBeClasses) {
  EXPECT_EQ(offset_in(check_error(records({{3}, {10}}), CifarKind::kCifar10)),
            3073);
  EXPECT_EQ(offset_in(check_error(records({{20, 0}}), CifarKind::kCifar100)),
            0);
  EXPECT_EQ(offset_in(check_error(records({{0, 100}}), CifarKind::kCifar100)),
            1);
}

}  // namespace
}  // namespace sheaf::formats::made
