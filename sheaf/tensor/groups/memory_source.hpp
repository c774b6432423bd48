#pragma once
// Memory for tensors of the CPU from elsewhere than libtorch's allocator: of
// what libtorch makes on some threads, and for a while.

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sheaf::tensor {

class MemorySource {
 public:
  using Memory = std::shared_ptr<std::byte>;

  virtual ~MemorySource() = default;
  // For what libtorch is about to make; null leaves that to others. A tensor
  // keeps its memory, and may outlive the source.
  virtual Memory take(std::size_t bytes) = 0;
};

// In the order in which they are asked.
enum class SourceKind { kGradients, kTiles };
using SourceId = std::uint64_t;  // 0: none

// Makes a source known. Known sources are kept by their owners.
SourceId add_source(const std::shared_ptr<MemorySource>& source);
// On this thread, from now on, in place of another one of that kind, which is
// returned. A source that has ended meanwhile is as none.
SourceId use_source(SourceKind kind, SourceId id);
SourceId source_in_use(SourceKind kind);

// Whether a tensor's memory came from any.
bool is_from_source(const at::Tensor& tensor);

}  // namespace sheaf::tensor
