#pragma once
// Batches of which each example's data is a part only.

#include <string>

#include "sheaf/data/dataset/dataset.hpp"
#include "sheaf/data/transform/transform.hpp"

namespace sheaf::data {

// Why whole images are read, and cut when they are transformed; empty: only
// tiles are.
std::string reads_whole_for(const Dataset& dataset, const Transform* transform);

// The tile of each example's transformed data, with the bits that one cut from
// the whole would have. `transform` may be null; it is not for what
// reads_whole_for() has a reason.
Batch read_tiles(const Dataset& dataset, const Transform* transform,
                 const TileOf& tile, std::span<const std::int64_t> indices,
                 Random& random);

// Leaves this rank's tile of data that are whole.
void cut_tiles(Batch& batch, const TileOf& tile);
// The same of targets, where their last axes are those of the image.
void cut_targets(Batch& batch, const TileOf& tile);

}  // namespace sheaf::data
