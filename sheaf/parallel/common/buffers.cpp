// A write to a tensor increments its version counter, which libtorch uses for
// autograd. Batch normalization is an exception: its operators do not declare
// their writes to the running statistics. Sheaf's batch_norm kernel
// (sync_batch_norm.cpp) reports these writes, and they are counted here for the
// watched tensors.

#include "sheaf/parallel/common/buffers.hpp"

#include <mutex>
#include <unordered_map>

#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::parallel {
namespace {

NamedTensors buffers_of(torch::nn::Module& module) {
  NamedTensors list;
  for (const auto& item : module.named_buffers())
    if (item.value().defined()) list.emplace_back(item.key(), item.value());
  return list;
}

class UncountedWrites {
 public:
  void watch(const void* tensor) {
    const std::lock_guard lock(mutex_);
    ++counts_[tensor].watchers;
  }
  void forget(const void* tensor) {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(tensor);
    if (--found->second.watchers == 0) counts_.erase(found);
  }
  void add(const void* tensor) {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(tensor);
    if (found != counts_.end()) ++found->second.writes;
  }
  std::uint64_t count(const void* tensor) {
    const std::lock_guard lock(mutex_);
    return counts_.at(tensor).writes;
  }

 private:
  struct Count {
    int watchers = 0;
    std::uint64_t writes = 0;
  };
  std::mutex mutex_;
  std::unordered_map<const void*, Count> counts_;
};

UncountedWrites& uncounted_writes() {
  static auto* writes = new UncountedWrites;  // outlives other statics
  return *writes;
}

}  // namespace

// Holds references to the tensors, so that their addresses are not reused.
class ModuleBuffers::Watched {
 public:
  explicit Watched(const NamedTensors& tensors) : tensors_(tensors) {
    for (const auto& [name, tensor] : tensors_)
      uncounted_writes().watch(tensor.unsafeGetTensorImpl());
  }
  ~Watched() {
    for (const auto& [name, tensor] : tensors_)
      uncounted_writes().forget(tensor.unsafeGetTensorImpl());
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  const NamedTensors tensors_;
};

void note_uncounted_write(const at::Tensor& tensor) {
  if (tensor.defined()) uncounted_writes().add(tensor.unsafeGetTensorImpl());
}

ModuleBuffers::ModuleBuffers(torch::nn::Module& module)
    : tensors_(buffers_of(module)), changed_(tensors_.size()) {
  if (!tensors_.empty()) watched_ = std::make_shared<Watched>(tensors_);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    last_.push_back(stamp_of(i));
}

void ModuleBuffers::inherit(const ModuleBuffers& old) {
  const std::vector<std::int32_t> before = old.changed();
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    for (std::size_t k = 0; k < before.size(); ++k)
      if (tensors_[i].second.is_same(old.tensors_[k].second)) {
        changed_[i] = before[k] != 0;
        last_[i] = old.last_[k];
      }
}

ModuleBuffers::Stamp ModuleBuffers::stamp_of(std::size_t i) const {
  const at::Tensor& tensor = tensors_[i].second;
  Stamp stamp;
  if (!tensor.is_inference())
    stamp.version = static_cast<std::uint64_t>(tensor._version());
  stamp.uncounted = uncounted_writes().count(tensor.unsafeGetTensorImpl());
  return stamp;
}

void ModuleBuffers::broadcast(const comm::Group& group, int root) {
  if (tensors_.empty()) return;
  // Graphs save the running statistics, which batch normalization writes
  // without incrementing their version. The broadcast does the same, so that
  // backward() through such a graph works as it does in a single process.
  std::vector<bool> is_uncounted;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Stamp now = stamp_of(i);
    is_uncounted.push_back(now.version == last_[i].version &&
                           now.uncounted != last_[i].uncounted);
  }
  broadcast_tensors(group, tensors_, root, is_uncounted);
  changed_.assign(tensors_.size(), false);
  before_.clear();
  for (std::size_t i = 0; i < tensors_.size(); ++i) last_[i] = stamp_of(i);
}

void ModuleBuffers::begin_forward() {
  end_forward();
  before_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    before_.push_back(stamp_of(i));
}

void ModuleBuffers::end_forward() {
  const std::vector<std::int32_t> now = changed();
  for (std::size_t i = 0; i < now.size(); ++i) changed_[i] = now[i] != 0;
  before_.clear();
}

std::vector<std::int32_t> ModuleBuffers::changed() const {
  std::vector<std::int32_t> list(changed_.begin(), changed_.end());
  for (std::size_t i = 0; i < before_.size(); ++i)
    if (!(before_[i] == stamp_of(i))) list[i] = 1;
  return list;
}

NamedTensors ModuleBuffers::shared(const comm::Group& group) const {
  NamedTensors result;
  std::vector<std::int32_t> anywhere = changed();
  if (!anywhere.empty())
    comm::all_reduce(
        group, anywhere,
        {.op = comm::ReduceOp::kMax, .name = "buffers that were changed"})
        .wait();
  for (std::size_t i = 0; i < anywhere.size(); ++i)
    if (anywhere[i] == 0) result.push_back(tensors_[i]);
  return result;
}

}  // namespace sheaf::parallel
