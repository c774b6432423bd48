#include "sheaf/data/formats/array_files.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "tests/data/made_files.hpp"

namespace sheaf::data {
namespace {

namespace fs = std::filesystem;

const auto kPage = static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE));

class File : public FileTest {};

TEST_F(File, ATensorIsInItsMemory) {
  const std::string path = write("content", counting_bytes(5000));
  for (const auto reader : {formats::read_bytes, formats::map_bytes}) {
    formats::FileBytes file = reader(path);
    const auto* first = file.data();
    const at::Tensor bytes = tensor_of(file);
    EXPECT_EQ(bytes.data_ptr<std::uint8_t>(), first);
    file = {};
    EXPECT_EQ(bytes[4999].item<int>(), 4999 % 251);
  }
  EXPECT_EQ(tensor_of(formats::read_bytes(write("empty", {}))).numel(), 0);
}

TEST_F(File, IsFoundInEitherForm) {
  const std::string folder = folder_.path().string();
  EXPECT_EQ(find_file(folder, "content"), "");
  const std::string packed = write("content.gz", gzip({1}));
  EXPECT_EQ(find_file(folder, "content"), packed);
  const std::string plain = write("content", {1});
  EXPECT_EQ(find_file(folder, "content"), plain);
}

// Datasets whose files are truncated while they are in use.
class Truncated : public FileTest {
 protected:
  std::string error_of_get(const Dataset& dataset, std::int64_t index) const {
    Random random;
    return io_error([&] { dataset.get({&index, 1}, random); });
  }
  // 100 images of a page each.
  std::string write_images() const {
    return write("images",
                 idx_bytes(8, {100, 1, kPage}, Bytes(100 * kPage, 3)));
  }
  std::string write_labels() const {
    return write("labels", idx_bytes(8, {100}, Bytes(100, 1)));
  }
};

TEST_F(Truncated, AnIdxFileIsAnErrorThatNamesIt) {
  const std::string images = write_images();
  const auto dataset = read_idx_dataset(images, write_labels());
  EXPECT_EQ(error_of_get(*dataset, 99), "");
  fs::resize_file(images, 50 * kPage);
  const std::string text = error_of_get(*dataset, 99);
  EXPECT_TRUE(contains(text, images + ": the file was truncated")) << text;
  // Once the file is damaged, no batch is trusted.
  EXPECT_NE(error_of_get(*dataset, 0), "");
  Random random;
  const std::int64_t index = 99;
  EXPECT_NE(io_error([&] {
              dataset->get_boxes({&index, 1}, {{1, 5}, {{0, 0}}}, random);
            }),
            "");
  EXPECT_NE(io_error([&] { dataset->data(); }), "");
  // A new file is a new chance.
  write_images();
  EXPECT_EQ(error_of_get(*read_idx_dataset(images, write_labels()), 99), "");
}

TEST_F(Truncated, LabelsAreInMemory) {
  const std::string labels = write_labels();
  const auto dataset = read_idx_dataset(write_images(), labels);
  fs::resize_file(labels, 0);
  EXPECT_EQ(error_of_get(*dataset, 99), "");
}

TEST_F(Truncated, ACifarFileIsAnErrorThatNamesIt) {
  const std::vector<std::string> files = {write("a", Bytes(3073 * 9)),
                                          write("b", Bytes(3073 * 9))};
  const auto dataset = read_cifar(files, CifarKind::kCifar10);
  EXPECT_EQ(error_of_get(*dataset, 17), "");
  fs::resize_file(files[1], 0);
  const std::string text = error_of_get(*dataset, 17);
  EXPECT_TRUE(contains(text, files[1])) << text;
}

TEST_F(Truncated, AnNpyFileIsAnErrorThatNamesIt) {
  const std::string data = (folder_.path() / "data.npy").string();
  const std::string target = (folder_.path() / "target.npy").string();
  tensor::save_npy(data, at::ones({100, 1000}));
  tensor::save_npy(target, at::ones({100}));
  const auto dataset = read_npy_dataset(data, target);
  fs::resize_file(data, 8000);
  const std::string text = error_of_get(*dataset, 99);
  EXPECT_TRUE(contains(text, data)) << text;
}

TEST_F(Truncated, AnArrayOfItsOwnIsInMemory) {
  const std::string path = write_images();
  const at::Tensor array = read_idx(path);
  fs::resize_file(path, 0);
  EXPECT_EQ(array[99][0][0].item<int>(), 3);
}

}  // namespace
}  // namespace sheaf::data
