#pragma once
// Boxes: parts of an example along all axes but the first (the channels). For
// images these axes are rows and columns.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sheaf::data {

using Sizes = std::vector<std::int64_t>;
using Corner = std::array<std::int64_t, 3>;  // 0 on unused axes

struct Box {
  Corner begin{};
  Sizes size;  // trailing axes may be omitted; the box has them whole
};

// Maps the sizes of an image to this rank's part of it.
using TileOf = std::function<Box(const Sizes& image)>;

// One box in each of several examples, all of the same size. A box may be
// partly or entirely outside of the image.
struct Boxes {
  Sizes size;                 // for all axes of the image
  std::vector<Corner> begin;  // by example
};

// Adds the omitted axes to the box. Throws UsageError if it has more axes than
// the image.
Box with_all_axes(Box box, const Sizes& image);

// Iterates over the elements of boxes of one size in contiguous examples of one
// shape.
class BoxWalk {
 public:
  // `shape` has all axes of an example, `size` all but the first.
  BoxWalk(Sizes shape, const Sizes& size);

  std::int64_t box_elements() const { return box_elements_; }
  const Sizes& box_shape() const { return size_; }

  // Calls body(offset in the example, offset in the box, count) for each
  // contiguous run of elements that is in both box and image.
  template <class Body>
  void for_each_run(const Corner& begin, const Body& body) const;

 private:
  struct Axis {
    std::int64_t begin, end;  // the part inside of the image, in the box
    std::int64_t shift;       // from box to image coordinates
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
