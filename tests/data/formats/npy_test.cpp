#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/formats/bytes/file_bytes.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "tests/data/made_files.hpp"

namespace sheaf::data {
namespace {

class CompressedNpy : public FileTest {
 protected:
  std::string save(const std::string& name, const at::Tensor& array) const {
    const std::string path = (folder_.path() / name).string();
    tensor::save_npy(path, array);
    return path;
  }
  void compress(const std::string& path) const {
    const formats::FileBytes plain = formats::read_bytes(path);
    write_bytes(path, gzip(Bytes(plain.data(), plain.data() + plain.size)));
  }
};

TEST_F(CompressedNpy, IsReadAsIfItWerePlain) {
  const at::Tensor images = at::arange(24).to(at::kFloat).view({4, 3, 2});
  const at::Tensor flags = at::tensor({1, 0, 1, 1}).to(at::kBool);
  const std::string data = save("data.npy", images);
  const std::string target = save("target.npy", at::arange(4));
  const std::string other = save("flags.npy", flags);
  for (const std::string& path : {data, target, other}) compress(path);
  const auto dataset = read_npy_dataset(data, target);
  EXPECT_TRUE(dataset->data().equal(images));
  EXPECT_TRUE(dataset->target().equal(at::arange(4)));
  EXPECT_EQ(dataset->source(), "files decompressed into memory");
  // Elements that cannot be used in the memory of the file.
  EXPECT_TRUE(read_npy_dataset(other, target)->data().equal(flags));
}

// Bools are not used in the memory of a mapped file, where they may have any
// value.
TEST_F(CompressedNpy, BoolsAreZeroOrOne) {
  const std::string data = save("flags.npy", at::ones({3}, at::kBool));
  const formats::FileBytes file = formats::read_bytes(data);
  Bytes bytes(file.data(), file.data() + file.size);
  bytes.back() = 2;
  write_bytes(data, bytes);
  const auto dataset = read_npy_dataset(data, save("t.npy", at::arange(3)));
  const auto* flags = static_cast<const char*>(dataset->data().data_ptr());
  EXPECT_EQ(flags[2], 1);
}

TEST_F(CompressedNpy, ACorruptFileIsNamed) {
  const std::string data = save("data.npy", at::zeros({4, 3}));
  const std::string target = save("target.npy", at::arange(4));
  Bytes packed = gzip(counting_bytes(100));
  packed.resize(packed.size() / 2);
  write_bytes(target, packed);
  const std::string text = io_error([&] { read_npy_dataset(data, target); });
  EXPECT_NE(text.find("target.npy"), std::string::npos) << text;
}

}  // namespace
}  // namespace sheaf::data
