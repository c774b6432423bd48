#pragma once
// Parts of images: boxes of an example's axes from the second on, which for
// images are rows and columns.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sheaf::data {

using Sizes = std::vector<std::int64_t>;
using Corner = std::array<std::int64_t, 3>;  // 0 on axes that are not there

struct Box {
  Corner begin{};
  Sizes size;  // may leave out axes at the end, which then are whole
};

// This rank's part of an image of these sizes.
using TileOf = std::function<Box(const Sizes& image)>;

// A box of the same size in each of some examples. It may lie beyond the
// image's borders, in part or wholly.
struct Boxes {
  Sizes size;                 // of all the image's axes
  std::vector<Corner> begin;  // by example
};

// A box that has all axes of the image.
Box with_all_axes(Box box, const Sizes& image);

// An example of that shape, dense in memory, and boxes of one size in it.
class BoxWalk {
 public:
  // `shape` is of all the example's axes, `size` of those from the second on.
  BoxWalk(Sizes shape, const Sizes& size);

  std::int64_t box_elements() const { return box_elements_; }
  const Sizes& box_shape() const { return size_; }

  // Calls body(first element in the example, first in the box, how many) for
  // all runs of elements that box and image have in common.
  template <class Body>
  void for_each_run(const Corner& begin, const Body& body) const;

 private:
  struct Axis {
    std::int64_t begin, end;  // in the box, of what lies in the image
    std::int64_t shift;       // from there to the image
  };
  Axis axis(std::size_t index, const Corner& begin) const;
  template <class Body>
  void walk(std::size_t index, const Corner& begin, std::int64_t from,
            std::int64_t to, const Body& body) const;

  Sizes shape_;
  Sizes size_;
  std::int64_t box_elements_ = 1;
};

template <class Body>
void BoxWalk::for_each_run(const Corner& begin, const Body& body) const {
  if (box_elements_ > 0) walk(0, begin, 0, 0, body);
}

template <class Body>
void BoxWalk::walk(std::size_t index, const Corner& begin, std::int64_t from,
                   std::int64_t to, const Body& body) const {
  const Axis own = axis(index, begin);
  from *= shape_[index];
  to *= size_[index];
  if (index + 1 == shape_.size()) {
    if (own.begin < own.end)
      body(from + own.begin + own.shift, to + own.begin, own.end - own.begin);
    return;
  }
  for (std::int64_t i = own.begin; i < own.end; ++i)
    walk(index + 1, begin, from + i + own.shift, to + i, body);
}

}  // namespace sheaf::data
