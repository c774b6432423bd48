#pragma once
// Arena memory for the gradients that backward() will allocate, so that they
// can be exchanged in place. A gradient is recognized by its size: between
// enter() and leave(), an allocation by libtorch on this thread with exactly
// the size of a parameter comes from the arena, as long as the arena has room.

#include <cstddef>
#include <memory>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/tensor/groups/memory_source.hpp"

namespace sheaf::parallel {

class GradientMemory {
 public:
  // `sizes` are in bytes, one for each parameter.
  GradientMemory(const comm::Group& group,
                 const std::vector<std::size_t>& sizes);
  ~GradientMemory();
  GradientMemory(const GradientMemory&) = delete;
  GradientMemory& operator=(const GradientMemory&) = delete;

  // Applies to this thread from now on, and replaces any other active
  // GradientMemory.
  void enter();
  // Deactivates the active GradientMemory of this thread.
  static void leave();

  class Shelf;

 private:
  std::shared_ptr<Shelf> shelf_;
  tensor::SourceId id_;
};

}  // namespace sheaf::parallel
