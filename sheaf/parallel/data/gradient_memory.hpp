#pragma once
// Memory of the arena for the gradients that backward() is about to make, so
// that they are exchanged where they are made. A gradient is known by its
// size: what libtorch allocates between the two calls, on that thread, with
// exactly the size of a parameter, comes from the arena, as long as there is
// room in it.

#include <cstddef>
#include <memory>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/tensor/groups/memory_source.hpp"

namespace sheaf::parallel {

class GradientMemory {
 public:
  // The sizes in bytes, one for each parameter.
  GradientMemory(const comm::Group& group,
                 const std::vector<std::size_t>& sizes);
  ~GradientMemory();
  GradientMemory(const GradientMemory&) = delete;
  GradientMemory& operator=(const GradientMemory&) = delete;

  // On this thread, from now on; ends an earlier one's turn.
  void enter();
  // Whichever is on, on this thread.
  static void leave();

  class Shelf;

 private:
  std::shared_ptr<Shelf> shelf_;
  tensor::SourceId id_;
};

}  // namespace sheaf::parallel
