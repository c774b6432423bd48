#pragma once
// Replaces libtorch's CPU allocator for the tensors that selected threads
// allocate while a source is in use.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sheaf::tensor {

class MemorySource {
 public:
  using Memory = std::shared_ptr<std::byte>;

  virtual ~MemorySource() = default;
  // Memory for an allocation of libtorch; null: the next source or libtorch's
  // allocator serves it. A tensor keeps its memory and may outlive the source.
  virtual Memory take(std::size_t bytes) = 0;
};

// In the order in which sources are queried.
enum class SourceKind { kGradients, kTiles };
using SourceId = std::uint64_t;  // 0: none

// Registers a source, without sharing ownership. Thread-safe.
SourceId add_source(const std::shared_ptr<MemorySource>& source);
// Selects the source of this kind for the calling thread and returns the
// previous one. A source that has been destroyed is ignored.
SourceId use_source(SourceKind kind, SourceId id);
SourceId source_in_use(SourceKind kind);

// Whether a tensor's memory came from any source.
bool is_from_source(const at::Tensor& tensor);

}  // namespace sheaf::tensor
