#include "sheaf/data/dataset/box.hpp"

#include <algorithm>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::data {

Box with_all_axes(Box box, const Sizes& image) {
  SHEAF_CHECK(box.size.size() <= image.size() &&
                  image.size() <= std::tuple_size_v<Corner>,
              "a part of ", box.size.size(), " axes of an image of ",
              image.size(), "; images have up to ", std::tuple_size_v<Corner>);
  for (std::size_t i = box.size.size(); i < image.size(); ++i)
    box.size.push_back(image[i]);
  return box;
}

BoxWalk::BoxWalk(Sizes shape, const Sizes& size)
    : shape_(std::move(shape)), size_(size) {
  SHEAF_CHECK(shape_.size() == size.size() + 1, "boxes of ", size.size(),
              " axes in examples of ", shape_.size(),
              "; boxes must have all axes but the first");
  size_.insert(size_.begin(), shape_[0]);
  for (const std::int64_t one : size_) box_elements_ *= one;
}

BoxWalk::Axis BoxWalk::axis(std::size_t index, const Corner& begin) const {
  const bool is_cut = index > 0 && index <= begin.size();
  const std::int64_t shift = is_cut ? begin[index - 1] : 0;
  return {std::max<std::int64_t>(0, -shift),
          std::min(size_[index], shape_[index] - shift), shift};
}

}  // namespace sheaf::data
