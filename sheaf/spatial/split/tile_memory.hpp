#pragma once
// Memory of the arena for what operations on split tensors make, so that
// neighbours of the host read it where it lies. A rank that is alone on its
// host gains as well: libtorch's allocator fetches large tensors from the
// system anew in each step, page by page, and the arena keeps its pages.

#include <memory>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/tensor/groups/memory_source.hpp"

namespace sheaf::spatial {

class TileMemory {
 public:
  explicit TileMemory(const comm::Group& group);
  ~TileMemory();
  TileMemory(const TileMemory&) = delete;
  TileMemory& operator=(const TileMemory&) = delete;

  // While it lives, what libtorch makes on this thread lies in the arena: what
  // is large, as long as there is room. Tensors may outlive all of this.
  class Use {
   public:
    explicit Use(const TileMemory& memory);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    tensor::SourceId before_;
  };
  // The same from now to the end of the backward pass that runs on this thread.
  void use_in_backward() const;

  // What counts as large, from now on, in all of this process. Returns what
  // did: for tests, whose tiles are small.
  static std::size_t set_smallest(std::size_t bytes);

 private:
  class Source;
  const std::shared_ptr<Source> source_;
  const tensor::SourceId id_;
};

}  // namespace sheaf::spatial
