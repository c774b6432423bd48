#include "sheaf/tensor/groups/nccl.hpp"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <array>
#include <atomic>
#include <cstring>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::tensor::nccl {
namespace {

using comm::CollectiveOptions;
using comm::Group;
using comm::ReduceOp;

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw CommError(concat(call, " failed: ", ncclGetErrorString(result),
                           "; set NCCL_DEBUG=INFO for details"));
}

std::optional<ncclDataType_t> type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return ncclFloat64;
    case at::kFloat:
      return ncclFloat32;
    case at::kHalf:
      return ncclFloat16;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kLong:
      return ncclInt64;
    case at::kInt:
      return ncclInt32;
    case at::kChar:
      return ncclInt8;
    case at::kByte:
      return ncclUint8;
    default:
      return std::nullopt;
  }
}

std::optional<ncclRedOp_t> op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return ncclSum;
    case ReduceOp::kAvg:
      return ncclAvg;
    case ReduceOp::kProduct:
      return ncclProd;
    case ReduceOp::kMin:
      return ncclMin;
    case ReduceOp::kMax:
      return ncclMax;
    default:
      return std::nullopt;
  }
}

// An identifier of a GPU that is unique across hosts.
using DeviceName = std::array<char, 64>;

DeviceName name_of_device(const Group& group, int device) {
  DeviceName name{};
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, device);
  std::memcpy(name.data(), &properties.uuid, sizeof properties.uuid);
  const int host = group.core().host_map().host;
  std::memcpy(name.data() + sizeof properties.uuid, &host, sizeof host);
  return name;
}

// NCCL's own error for two ranks on one GPU does not name the ranks.
void check_own_device(const Group& group, int device) {
  const DeviceName mine = name_of_device(group, device);
  std::vector<char> from(mine.begin(), mine.end());
  std::vector<char> all(mine.size() * static_cast<std::size_t>(group.size()));
  comm::all_gather(
      group, comm::ConstBuffer{from.data(), from.size(), DType::kI8},
      comm::Buffer{all.data(), all.size(), DType::kI8}, {.name = "NCCL device"})
      .wait();
  for (int rank = 0; rank < group.size(); ++rank) {
    const char* theirs =
        all.data() + mine.size() * static_cast<std::size_t>(rank);
    SHEAF_CHECK(rank == group.rank() ||
                    std::memcmp(theirs, mine.data(), mine.size()) != 0,
                "ranks ", std::min(rank, group.rank()), " and ",
                std::max(rank, group.rank()),
                " use the same GPU (cuda:", device,
                " here), which NCCL does not allow; give each rank of "
                "a host a separate GPU, or choose backend gloo or mpi");
  }
}

// Whether the groups of a world use NCCL.
struct Switch : comm::Attachment {
  static constexpr Slot kSlot = Attachment::kDeviceBackend;
  std::atomic<bool> is_on{false};
};

Switch& switch_of(const Group& group) {
  return group.core().runtime().attachments().get<Switch>();
}

// The NCCL communicator of a group, created by the first operation.
class Communicator : public comm::Attachment {
 public:
  static constexpr Slot kSlot = Attachment::kDeviceGroup;
  Communicator(const Group& group, int device) : device_(device) {
    check_own_device(group, device);
    ncclUniqueId id{};
    if (group.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    comm::broadcast(group, comm::Buffer{&id, sizeof id, DType::kI8},
                    {.name = "NCCL id"})
        .wait();
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
    check(ncclCommInitRank(&comm_, group.size(), id, group.rank()),
          "ncclCommInitRank");
  }
  // Aborts rather than destroys: ncclCommDestroy() waits for the other ranks,
  // which may have exited.
  ~Communicator() override { ncclCommAbort(comm_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int device() const { return device_; }
  ncclComm_t get() const { return comm_; }

 private:
  const int device_;
  ncclComm_t comm_ = nullptr;
};

Communicator& communicator_of(const Group& group, int device) {
  auto& communicator =
      group.core().attachments().get<Communicator>(group, device);
  SHEAF_CHECK(communicator.device() == device, "group ", group.core().id(),
              " uses cuda:", communicator.device(),
              " with NCCL, but the tensor is on "
              "cuda:",
              device, "; a rank uses one GPU per group");
  return communicator;
}

bool is_ours(const Group& group, const at::Tensor& tensor) {
  return is_enabled(group) && tensor.defined() && tensor.is_cuda() &&
         tensor.layout() == at::kStrided && type_of(tensor);
}

// NCCL guarantees no summation order. Reproducible reductions use the route
// through host memory, which has a fixed order.
bool is_ours_to_reduce(const Group& group, const at::Tensor& tensor,
                       const CollectiveOptions& options) {
  return is_ours(group, tensor) && op_of(options.op) && !options.reproducible &&
         !group.core().runtime().options().reproducible;
}

// Runs `fn(communicator, stream)` if all ranks pass the same arguments. The
// stream uses `data` and `output` after this function returns, so their memory
// must not be reused earlier.
template <class Fn>
bool run(const Group& group, const at::Tensor& data, const at::Tensor& output,
         const char* call, const CollectiveOptions& options, Fn fn) {
  CollectiveOptions same;
  const std::string name =
      concat(call, " ", signature(data), " root ", options.root, " ",
             name_of(options.op), options.name);
  same.name = name;
  same.timeout = options.timeout;
  try {
    comm::barrier(group, same).wait();
  } catch (const MismatchError& error) {
    throw MismatchError(concat(error.what(), "\n  here: ", name,
                               "; if the tensor is on the CPU on some ranks, "
                               "choose backend gloo or mpi"));
  }
  const int device = data.get_device();
  Communicator& communicator = communicator_of(group, device);
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const auto stream =
      c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device));
  check(fn(communicator.get(), stream.stream()), call);
  data.record_stream(stream.unwrap());
  output.record_stream(stream.unwrap());
  return true;
}

// NCCL needs contiguous memory: the tensor's memory, or a copy that is written
// back in stream order. Thus strides, which may differ between ranks, do not
// decide whether a rank uses NCCL.
class Dense {
 public:
  explicit Dense(const at::Tensor& tensor)
      : tensor_(tensor.detach()), memory_(tensor_.contiguous()) {}
  void* data() const { return memory_.data_ptr(); }
  const at::Tensor& memory() const { return memory_; }
  bool write_back() const {
    const at::NoGradGuard no_grad;
    if (!tensor_.is_alias_of(memory_)) tensor_.copy_(memory_);
    return true;
  }

 private:
  at::Tensor tensor_;
  at::Tensor memory_;
};

std::size_t count_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel());
}

}  // namespace

void check_available() {
  SHEAF_CHECK(
      at::hasCUDA() && c10::cuda::device_count() > 0,
      "backend nccl needs a GPU, but none is visible to this process; choose "
      "gloo or mpi, or check CUDA_VISIBLE_DEVICES");
}

void enable(const Group& world, bool is_on) { switch_of(world).is_on = is_on; }

bool is_enabled(const Group& group) { return switch_of(group).is_on; }

bool broadcast(const Group& group, const at::Tensor& data,
               const CollectiveOptions& options) {
  if (!is_ours(group, data)) return false;
  const Dense all(data);
  return run(group, all.memory(), all.memory(), "ncclBroadcast", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclBroadcast(all.data(), all.data(), count_of(data),
                                    *type_of(data), options.root, comm, stream);
             }) &&
         all.write_back();
}

bool reduce(const Group& group, const at::Tensor& data,
            const CollectiveOptions& options) {
  if (!is_ours_to_reduce(group, data, options)) return false;
  const Dense all(data);
  return run(group, all.memory(), all.memory(), "ncclReduce", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclReduce(all.data(), all.data(), count_of(data),
                                 *type_of(data), *op_of(options.op),
                                 options.root, comm, stream);
             }) &&
         all.write_back();
}

bool all_reduce(const Group& group, const at::Tensor& data,
                const CollectiveOptions& options) {
  if (!is_ours_to_reduce(group, data, options)) return false;
  const Dense all(data);
  return run(group, all.memory(), all.memory(), "ncclAllReduce", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclAllReduce(all.data(), all.data(), count_of(data),
                                    *type_of(data), *op_of(options.op), comm,
                                    stream);
             }) &&
         all.write_back();
}

bool all_gather(const Group& group, const at::Tensor& input,
                const at::Tensor& output, const CollectiveOptions& options) {
  if (!is_ours(group, input) || !is_ours(group, output)) return false;
  SHEAF_CHECK(output.numel() == input.numel() * group.size() &&
                  output.scalar_type() == input.scalar_type(),
              "all_gather: the output ", describe(output), " must hold one ",
              describe(input), " from each of ", group.size(), " ranks");
  const Dense from(input);
  const Dense to(output);
  return run(group, from.memory(), to.memory(), "ncclAllGather", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclAllGather(from.data(), to.data(), count_of(input),
                                    *type_of(input), comm, stream);
             }) &&
         to.write_back();
}

bool reduce_scatter(const Group& group, const at::Tensor& input,
                    const at::Tensor& output,
                    const CollectiveOptions& options) {
  if (!is_ours_to_reduce(group, input, options) || !is_ours(group, output))
    return false;
  SHEAF_CHECK(input.numel() == output.numel() * group.size() &&
                  output.scalar_type() == input.scalar_type(),
              "reduce_scatter: the input ", describe(input), " must hold one ",
              describe(output), " for each of ", group.size(), " ranks");
  const Dense from(input);
  const Dense to(output);
  return run(group, from.memory(), to.memory(), "ncclReduceScatter", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclReduceScatter(from.data(), to.data(),
                                        count_of(output), *type_of(output),
                                        *op_of(options.op), comm, stream);
             }) &&
         to.write_back();
}

}  // namespace sheaf::tensor::nccl
