#include "sheaf/data/load/read_tiles.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "sheaf/data/dataset/synthetic.hpp"
#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/data/load/loader.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "tests/data/made_files.hpp"

namespace sheaf::data {
namespace {

constexpr std::int64_t kTileExamples = 7;

// Part `part` of `parts`; sizes differ by at most one.
struct Span {
  std::int64_t begin, size;
};
Span part_of(std::int64_t size, std::int64_t part, std::int64_t parts) {
  const std::int64_t begin = size * part / parts;
  return {begin, size * (part + 1) / parts - begin};
}

TileOf tile_at(Sizes grid, Sizes place) {
  return [=](const Sizes& image) {
    Box box;
    for (std::size_t i = 0; i < grid.size(); ++i) {
      const Span own = part_of(image[i], place[i], grid[i]);
      box.begin[i] = own.begin;
      box.size.push_back(own.size);
    }
    return box;
  };
}

Batch first_batch(const std::shared_ptr<const Dataset>& dataset,
                  const TransformPtr& transform, const TileOf& tile,
                  int workers = 0) {
  Loader loader(dataset, 0, 1,
                {.batch_size = kTileExamples,
                 .workers = workers,
                 .seed = 3,
                 .transform = transform,
                 .tile = tile});
  loader.set_epoch(2);
  return *loader.begin();
}

at::Tensor cut(at::Tensor whole, const TileOf& tile) {
  const Sizes image = whole.sizes().slice(2).vec();
  const Box box = with_all_axes(tile(image), image);
  for (std::size_t i = 0; i < image.size(); ++i)
    whole = whole.narrow(static_cast<std::int64_t>(i) + 2, box.begin[i],
                         box.size[i]);
  return whole;
}

// Compares all tiles of a grid bitwise with tiles cut from whole images;
// returns the bytes read for each.
std::vector<std::int64_t> expect_tiles(
    const std::shared_ptr<const Dataset>& dataset,
    const TransformPtr& transform, std::int64_t rows, std::int64_t columns) {
  const Batch whole = first_batch(dataset, transform, nullptr);
  EXPECT_TRUE(whole.whole.empty());
  std::vector<std::int64_t> bytes;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const TileOf tile = tile_at({rows, columns}, {i / columns, i % columns});
    const Batch batch = first_batch(dataset, transform, tile);
    EXPECT_TRUE(at::equal(batch.data, cut(whole.data, tile)))
        << "tile " << i << " of " << rows << "x" << columns;
    EXPECT_TRUE(at::equal(batch.target, whole.target));
    EXPECT_EQ(batch.whole, whole.data.sizes().slice(1).vec());
    bytes.push_back(batch.bytes_read);
  }
  return bytes;
}

at::Tensor random_bytes(Sizes shape) {
  return at::randint(256, shape, at::TensorOptions(at::kByte));
}

std::shared_ptr<TensorDataset> bytes_of_size(std::int64_t height,
                                             std::int64_t width) {
  return std::make_shared<TensorDataset>(
      random_bytes({kTileExamples, 3, height, width}),
      at::arange(kTileExamples));
}

std::vector<TransformPtr> tile_transforms() {
  return {nullptr,
          to_float(),
          normalize({0.1, 0.2, 0.3}, {0.5, 0.6, 0.7}),
          pad(3, 7),
          random_crop(9, 8, 0),
          random_crop(13, 11, 4),
          center_crop(6, 9),
          horizontal_flip(1),
          horizontal_flip(0.5),
          compose({random_crop(13, 11, 2), horizontal_flip(), to_float()}),
          compose({pad(2, 9), horizontal_flip(), normalize({0.4}, {0.3}),
                   random_crop(12, 14, 3), horizontal_flip(), pad(1, -2),
                   center_crop(11, 13)})};
}

TEST(ReadTiles, HaveThePixelsOfTheWhole) {
  const auto dataset = bytes_of_size(13, 11);
  for (const TransformPtr& transform : tile_transforms())
    for (const auto& [rows, columns] :
         {std::pair{1, 1}, {2, 2}, {3, 2}, {1, 4}, {5, 1}, {16, 16}})
      expect_tiles(dataset, transform, rows, columns);
}

TEST(ReadTiles, TakeAQuarterOfTheBytes) {
  const auto dataset = bytes_of_size(64, 64);
  const std::int64_t whole = kTileExamples * 3 * 64 * 64;
  EXPECT_EQ(first_batch(dataset, nullptr, nullptr).bytes_read, whole);
  for (const TransformPtr& transform :
       {TransformPtr(), normalize({0.5}, {0.5}), horizontal_flip(),
        compose({horizontal_flip(), to_float()})})
    for (const std::int64_t bytes : expect_tiles(dataset, transform, 2, 2))
      EXPECT_EQ(bytes, whole / 4);
  // The padding of a crop is not read.
  for (const std::int64_t bytes :
       expect_tiles(dataset, random_crop(64, 64, 8), 2, 2)) {
    EXPECT_LE(bytes, whole / 4);
    EXPECT_GT(bytes, whole / 8);
  }
}

TEST(ReadTiles, ComeAheadByWorkersToo) {
  const auto dataset = bytes_of_size(13, 11);
  const TransformPtr transform = compose({random_crop(9, 9, 2), to_float()});
  const TileOf tile = tile_at({2, 2}, {1, 0});
  EXPECT_TRUE(at::equal(first_batch(dataset, transform, tile, 0).data,
                        first_batch(dataset, transform, tile, 3).data));
}

TEST(ReadTiles, OfVolumesAndOfRowsOnly) {
  const auto volumes = std::make_shared<TensorDataset>(
      random_bytes({kTileExamples, 2, 5, 6, 7}), at::arange(kTileExamples));
  for (const Sizes& grid : {Sizes{2, 3, 2}, Sizes{2}, Sizes{2, 2}}) {
    const TileOf tile = tile_at(grid, Sizes(grid.size(), 1));
    const Batch whole = first_batch(volumes, nullptr, nullptr);
    EXPECT_TRUE(at::equal(first_batch(volumes, nullptr, tile).data,
                          cut(whole.data, tile)));
    EXPECT_TRUE(at::equal(first_batch(volumes, to_float(), tile).data,
                          cut(whole.data, tile)));
  }
}

TEST(ReadTiles, WholeImagesWhereATransformNeedsThem) {
  const auto dataset = bytes_of_size(13, 11);
  const TransformPtr transform =
      compose({horizontal_flip(), resize(8, 10), to_float()});
  for (const std::int64_t bytes : expect_tiles(dataset, transform, 2, 2))
    EXPECT_EQ(bytes, kTileExamples * 3 * 13 * 11);
  const LoaderOptions options{
      .batch_size = 2, .transform = transform, .tile = tile_at({2, 2}, {0, 0})};
  EXPECT_EQ(Loader(dataset, 0, 1, options).reading(),
            "whole images and cuts its tile: resize needs them");
}

// Targets with one element per pixel are cut like the image; others are not.
TEST(ReadTiles, CutTargetsOfPixels) {
  const at::Tensor images = random_bytes({kTileExamples, 2, 6, 5});
  const TileOf tile = tile_at({2, 2}, {1, 0});
  for (const Sizes& shape :
       {Sizes{kTileExamples, 6, 5}, Sizes{kTileExamples, 3, 6, 5}}) {
    const at::Tensor targets = at::randn(shape);
    const auto dataset = std::make_shared<TensorDataset>(images, targets);
    const Batch whole = first_batch(dataset, nullptr, nullptr);
    for (const TransformPtr& transform : {to_float(), resize(6, 5)}) {
      const Batch batch = first_batch(dataset, transform, tile);
      const auto first = static_cast<std::int64_t>(shape.size()) - 2;
      EXPECT_TRUE(
          at::equal(batch.target,
                    whole.target.narrow(first, 3, 3).narrow(first + 1, 0, 2)));
      EXPECT_EQ(batch.whole_target, whole.target.sizes().slice(1).vec());
    }
  }
  const auto others =
      std::make_shared<TensorDataset>(images, at::randn({kTileExamples, 5, 6}));
  const Batch batch = first_batch(others, nullptr, tile);
  EXPECT_TRUE(batch.whole_target.empty());
  EXPECT_EQ(batch.target.sizes(), (Sizes{kTileExamples, 5, 6}));
}

// A dataset without support for tiles.
class Plain : public Dataset {
 public:
  explicit Plain(std::shared_ptr<const Dataset> inner)
      : inner_(std::move(inner)) {}
  std::int64_t size() const override { return inner_->size(); }
  Batch get(std::span<const std::int64_t> indices,
            Random& random) const override {
    return inner_->get(indices, random);
  }
  std::int64_t classes() const override { return inner_->classes(); }
  std::vector<std::int64_t> example_shape() const override {
    return inner_->example_shape();
  }

 private:
  std::shared_ptr<const Dataset> inner_;
};

TEST(ReadTiles, WholeImagesWhereTheDatasetGivesNoOthers) {
  const auto dataset = std::make_shared<Plain>(bytes_of_size(13, 11));
  for (const TransformPtr& transform : tile_transforms())
    for (const std::int64_t bytes : expect_tiles(dataset, transform, 2, 3))
      EXPECT_EQ(bytes, kTileExamples * 3 * 13 * 11);
  // The default get_boxes() cuts whole images.
  Random random;
  const std::vector<std::int64_t> indices{5, 1};
  const Boxes boxes{{4, 20}, {{-1, -2, 0}, {11, 8, 0}}};
  const at::Tensor whole =
      at::constant_pad_nd(dataset->get(indices, random).data, {2, 17, 1, 2});
  const at::Tensor boxed = dataset->get_boxes(indices, boxes, random).data;
  EXPECT_TRUE(at::equal(boxed[0], whole[0].narrow(1, 0, 4).narrow(2, 0, 20)));
  EXPECT_TRUE(at::equal(boxed[1], whole[1].narrow(1, 12, 4).narrow(2, 10, 20)));
}

// All pages except those of the tile are protected from access.
TEST(ReadTiles, TouchNothingElse) {
  constexpr std::int64_t kPage = 4096, kRows = 4;
  const std::size_t bytes = kTileExamples * kRows * 2 * kPage;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* first = static_cast<std::uint8_t*>(memory);
  const auto page = [&](std::int64_t i) { return first + i * kPage; };
  const std::int64_t pages = kTileExamples * kRows * 2;
  for (std::int64_t i = 0; i < pages; ++i) *page(i) = std::uint8_t(i);
  const auto is_own = [](std::int64_t i) {
    return i % 2 == 1 && i / 2 % kRows >= kRows / 2;
  };
  for (std::int64_t i = 0; i < pages; ++i)
    if (!is_own(i)) ASSERT_EQ(::mprotect(page(i), kPage, PROT_NONE), 0);
  {
    const auto dataset = std::make_shared<TensorDataset>(
        at::from_blob(memory, {kTileExamples, 1, kRows, 2 * kPage}, at::kByte),
        at::arange(kTileExamples));
    Random random;
    const std::vector<std::int64_t> indices{6, 2};
    const Batch batch =
        read_tiles(*dataset, nullptr, tile_at({2, 2}, {1, 1}), indices, random);
    EXPECT_EQ(batch.data.sizes(), (Sizes{2, 1, 2, kPage}));
    EXPECT_EQ(batch.data[0][0][1][0].item<int>(), (6 * kRows + 3) * 2 + 1);
    EXPECT_EQ(batch.data[1][0][0][0].item<int>(), (2 * kRows + 2) * 2 + 1);
  }
  ::munmap(memory, bytes);
}

class ReadTilesOfFiles : public FileTest {
 protected:
  void expect_quarters(const std::shared_ptr<const Dataset>& dataset,
                       const std::string& source) {
    const Batch whole = first_batch(dataset, nullptr, nullptr);
    for (const std::int64_t bytes : expect_tiles(dataset, nullptr, 2, 2))
      EXPECT_EQ(bytes, whole.bytes_read / 4);
    expect_tiles(dataset, compose({random_crop(10, 10, 2), horizontal_flip()}),
                 3, 2);
    const LoaderOptions options{.batch_size = 2,
                                .tile = tile_at({2, 2}, {0, 0})};
    EXPECT_EQ(Loader(dataset, 0, 1, options).reading(), "tiles of " + source);
  }
};

TEST_F(ReadTilesOfFiles, Idx) {
  const Bytes images = idx_bytes(8, {kTileExamples, 12, 14},
                                 counting_bytes(kTileExamples * 12 * 14));
  const std::string labels =
      write("labels", idx_bytes(8, {kTileExamples}, Bytes(kTileExamples)));
  expect_quarters(read_idx_dataset(write("images", images), labels),
                  "mapped files");
  expect_quarters(read_idx_dataset(write("packed", gzip(images)), labels),
                  "files decompressed into memory");
  // 16-bit elements are big-endian and must be converted.
  const std::string shorts =
      write("shorts", idx_bytes(11, {kTileExamples, 12, 14},
                                counting_bytes(kTileExamples * 12 * 14 * 2)));
  const auto dataset = read_idx_dataset(shorts, labels);
  EXPECT_EQ(dataset->source(), "memory");
}

TEST_F(ReadTilesOfFiles, Cifar) {
  constexpr std::size_t kRecord = 1 + 3 * 32 * 32;
  std::vector<std::string> files;
  for (const std::size_t records : {3, 4}) {
    Bytes bytes = counting_bytes(records * kRecord);
    for (std::size_t i = 0; i < records; ++i)
      bytes[i * kRecord] = std::uint8_t(i);
    files.push_back(write(std::to_string(records), bytes));
  }
  const auto dataset = read_cifar(files, CifarKind::kCifar10);
  ASSERT_EQ(dataset->size(), kTileExamples);
  expect_quarters(dataset, "mapped files");
}

TEST_F(ReadTilesOfFiles, Npy) {
  const std::string data = (folder_.path() / "data.npy").string();
  const std::string target = (folder_.path() / "target.npy").string();
  const at::Tensor images = at::rand({kTileExamples, 2, 10, 12}, at::kDouble);
  tensor::save_npy(data, images);
  tensor::save_npy(target, at::arange(kTileExamples));
  const auto dataset = read_npy_dataset(data, target);
  EXPECT_TRUE(at::equal(dataset->data(), images));
  expect_quarters(dataset, "mapped files");
}

TEST_F(ReadTilesOfFiles, Synthetic) {
  expect_quarters(std::make_shared<SyntheticDataset>(SyntheticOptions{
                      .examples = kTileExamples, .shape = {3, 10, 14}}),
                  "synthetic images");
}

}  // namespace
}  // namespace sheaf::data
