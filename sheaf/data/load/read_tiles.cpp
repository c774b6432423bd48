// The source of a tile is found backwards: starting with the tile's place in
// the result, each transform maps it to the place in its input, which gives the
// box of each example to read. The boxes then pass through the transforms. All
// transforms that support this only move pixels, so the size of a tile does not
// change.
#include "sheaf/data/load/read_tiles.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/data/transform/transform_check.hpp"

namespace sheaf::data {
namespace {

struct Sources {
  Boxes boxes;
  std::vector<std::int64_t> mirrored;  // rows of the batch
};

Sources boxes_of(const std::vector<Place>& places, const Sizes& size) {
  Sources result{{size, {}}, {}};
  for (std::size_t i = 0; i < places.size(); ++i) {
    Corner begin = places[i].begin;
    if (places[i].is_mirrored) {
      begin[1] -= size[1] - 1;
      result.mirrored.push_back(static_cast<std::int64_t>(i));
    }
    result.boxes.begin.push_back(begin);
  }
  return result;
}

Sizes image_of(const Sizes& example) {
  SHEAF_CHECK(!example.empty(), "examples without axes cannot have tiles");
  return {example.begin() + 1, example.end()};
}

at::Tensor last_axes_cut(at::Tensor whole, const Sizes& image,
                         const TileOf& tile) {
  const Box box = with_all_axes(tile(image), image);
  const std::int64_t before =
      whole.dim() - static_cast<std::int64_t>(image.size());
  for (std::size_t i = 0; i < image.size(); ++i)
    whole = whole.narrow(before + static_cast<std::int64_t>(i), box.begin[i],
                         box.size[i]);
  return whole.contiguous();
}

}  // namespace

std::string reads_whole_for(const Dataset& dataset,
                            const Transform* transform) {
  const std::string name = transform ? transform->needs_whole_images() : "";
  return name.empty() ? dataset.reads_whole_for() : name + " needs them";
}

Batch read_tiles(const Dataset& dataset, const Transform* transform,
                 const TileOf& tile, std::span<const std::int64_t> indices,
                 Random& random) {
  const Sizes image = image_of(dataset.example_shape());
  const Sizes result = transform ? transform->image_after(image) : image;
  const Box box = with_all_axes(tile(result), result);
  const std::vector<Place> places(indices.size(), Place{box.begin});
  std::vector<Place> sources = places;
  for (std::size_t i = 0; transform && i < indices.size(); ++i)
    sources[i] = transform->source_of(places[i], image, indices[i], random);
  const Sources wanted = boxes_of(sources, box.size);
  Batch batch = dataset.get_boxes(indices, wanted.boxes, random);
  batch.data = with_turned_rows(batch.data, wanted.mirrored);
  if (transform)
    batch.data =
        transform->apply_to_tiles(batch.data, places, image, indices, random);
  batch.whole = result;
  batch.whole.insert(batch.whole.begin(), batch.data.size(1));
  return batch;
}

void cut_tiles(Batch& batch, const TileOf& tile) {
  batch.whole = batch.data.sizes().slice(1).vec();
  batch.data = last_axes_cut(batch.data, image_of(batch.whole), tile);
}

void cut_targets(Batch& batch, const TileOf& tile) {
  const Sizes image = image_of(batch.whole);
  const at::IntArrayRef sizes = batch.target.sizes();
  const bool has_pixels =
      sizes.size() > image.size() &&
      sizes.slice(sizes.size() - image.size()).equals(image);
  if (!has_pixels) return;
  batch.whole_target = sizes.slice(1).vec();
  batch.target = last_axes_cut(batch.target, image, tile);
}

}  // namespace sheaf::data
