#pragma once
// Arena memory for the results of operations on split tensors, so that
// neighbors on the same host can read them in place. A rank that is alone on
// its host also benefits: libtorch's allocator gets large tensors from the
// system in each step, page by page, while the arena keeps its pages.

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

  // While it exists, large tensors that libtorch allocates on this thread are
  // in the arena, as long as there is room. The tensors may outlive this
  // object.
  class Use {
   public:
    explicit Use(const TileMemory& memory);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    tensor::SourceId before_;
  };
  // The same, until the end of the current backward pass on this thread.
  void use_in_backward() const;

  // Sets the minimum size of large tensors for the whole process and returns
  // the previous value. For tests with small tiles.
  static std::size_t set_smallest(std::size_t bytes);

 private:
  class Source;
  const std::shared_ptr<Source> source_;
  const tensor::SourceId id_;
};

}  // namespace sheaf::spatial
