#pragma once
// Reads batches that hold only a part (tile) of each example's data.

#include <string>

#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/data/transform/transform.hpp"

namespace sheaf::data {

// The reason why whole images must be read and cut after the transform; empty
// if reading tiles is enough.
std::string reads_whole_for(const Dataset& dataset, const Transform* transform);

// The tile of each example's transformed data, bitwise equal to a tile cut from
// the whole transformed image. `transform` may be null. Only for datasets and
// transforms for which reads_whole_for() is empty.
Batch read_tiles(const Dataset& dataset, const Transform* transform,
                 const TileOf& tile, std::span<const std::int64_t> indices,
                 Random& random);

// Cuts whole data to this rank's tile.
void cut_tiles(Batch& batch, const TileOf& tile);
// The same for targets whose last axes are those of the image.
void cut_targets(Batch& batch, const TileOf& tile);

}  // namespace sheaf::data
