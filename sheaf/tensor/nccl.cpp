#include "sheaf/tensor/nccl.hpp"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include <array>
#include <cstring>
#include <mutex>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group_core.hpp"
#include "sheaf/tensor/dtype.hpp"
#include "sheaf/tensor/memory.hpp"

namespace sheaf::tensor::nccl {
namespace {

using comm::CollectiveOptions;
using comm::Group;
using comm::ReduceOp;

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw CommError(concat(call, " failed: ", ncclGetErrorString(result),
                           "; NCCL_DEBUG=INFO tells more"));
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

// A GPU as all hosts can tell it from others.
using DeviceName = std::array<char, 64>;

DeviceName name_of_device(const Group& group, int device) {
  DeviceName name{};
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, device);
  std::memcpy(name.data(), &properties.uuid, sizeof properties.uuid);
  const int host = group.core().layout().host;
  std::memcpy(name.data() + sizeof properties.uuid, &host, sizeof host);
  return name;
}

// NCCL's own answer to two ranks on one GPU is an error that names neither.
void check_own_device(const Group& group, int device) {
  const DeviceName mine = name_of_device(group, device);
  std::vector<char> from(mine.begin(), mine.end());
  std::vector<char> all(mine.size() * static_cast<std::size_t>(group.size()));
  comm::all_gather(group,
                   comm::ConstBuffer{from.data(), from.size(), DType::kI8},
                   comm::Buffer{all.data(), all.size(), DType::kI8},
                   {.name = "NCCL device"});
  for (int rank = 0; rank < group.size(); ++rank) {
    const char* theirs =
        all.data() + mine.size() * static_cast<std::size_t>(rank);
    SHEAF_CHECK(rank == group.rank() ||
                    std::memcmp(theirs, mine.data(), mine.size()) != 0,
                "ranks ", std::min(rank, group.rank()), " and ",
                std::max(rank, group.rank()),
                " use the same GPU (cuda:", device,
                " here), which NCCL does not allow; give each rank of "
                "a host its own, or choose backend gloo or mpi");
  }
}

// The communicator of a group, made by the first operation.
class Communicator {
 public:
  Communicator(const Group& group, int device) : device_(device) {
    check_own_device(group, device);
    ncclUniqueId id{};
    if (group.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    comm::broadcast(group, comm::Buffer{&id, sizeof id, DType::kI8},
                    {.name = "NCCL id"});
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
    check(ncclCommInitRank(&comm_, group.size(), id, group.rank()),
          "ncclCommInitRank");
  }
  // Not destroyed in order: that waits for the other ranks, which may be gone.
  ~Communicator() { ncclCommAbort(comm_); }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int device() const { return device_; }
  ncclComm_t get() const { return comm_; }

 private:
  const int device_;
  ncclComm_t comm_ = nullptr;
};

Communicator& communicator_of(const Group& group, int device) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto& kept = group.core().extension();
  if (!kept) kept = std::make_shared<Communicator>(group, device);
  auto& communicator = *static_cast<Communicator*>(kept.get());
  SHEAF_CHECK(communicator.device() == device, "group ", group.core().id(),
              " uses cuda:", communicator.device(),
              " with NCCL, a tensor on "
              "cuda:",
              device, " was given; one GPU serves a rank of a group");
  return communicator;
}

bool is_ours(const Group& group, const at::Tensor& tensor) {
  return is_enabled(group) && tensor.defined() && tensor.is_cuda() &&
         tensor.is_contiguous() && type_of(tensor);
}

// Runs `fn(communicator, stream)` when all ranks want the same.
template <class Fn>
bool run(const Group& group, const at::Tensor& data, const char* call,
         const CollectiveOptions& options, Fn fn) {
  CollectiveOptions same;
  const std::string name =
      concat(call, " ", describe(data), " root ", options.root, " ",
             name_of(options.op), options.name);
  same.name = name;
  same.timeout = options.timeout;
  try {
    comm::barrier(group, same);
  } catch (const MismatchError& error) {
    throw MismatchError(concat(error.what(), "\n  here: ", name,
                               "; where some ranks have the tensor on the CPU, "
                               "choose backend gloo or mpi"));
  }
  const int device = data.get_device();
  Communicator& communicator = communicator_of(group, device);
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  check(fn(communicator.get(), c10::cuda::getCurrentCUDAStream(
                                   static_cast<c10::DeviceIndex>(device))
                                   .stream()),
        call);
  return true;
}

std::size_t count_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel());
}

}  // namespace

void check_available() {
  SHEAF_CHECK(at::hasCUDA() && c10::cuda::device_count() > 0,
              "backend nccl needs a GPU, and this process sees none; choose "
              "gloo or mpi, or look at CUDA_VISIBLE_DEVICES");
}

void enable(const Group& world, bool is_on) {
  world.core().runtime().set_nccl(is_on);
}

bool is_enabled(const Group& group) {
  return group.core().runtime().uses_nccl();
}

bool broadcast(const Group& group, const at::Tensor& data,
               const CollectiveOptions& options) {
  if (!is_ours(group, data)) return false;
  return run(group, data, "ncclBroadcast", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclBroadcast(data.data_ptr(), data.data_ptr(),
                                    count_of(data), *type_of(data),
                                    options.root, comm, stream);
             });
}

bool reduce(const Group& group, const at::Tensor& data,
            const CollectiveOptions& options) {
  const auto op = op_of(options.op);
  if (!is_ours(group, data) || !op) return false;
  return run(group, data, "ncclReduce", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclReduce(data.data_ptr(), data.data_ptr(),
                                 count_of(data), *type_of(data), *op,
                                 options.root, comm, stream);
             });
}

bool all_reduce(const Group& group, const at::Tensor& data,
                const CollectiveOptions& options) {
  const auto op = op_of(options.op);
  if (!is_ours(group, data) || !op) return false;
  return run(group, data, "ncclAllReduce", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclAllReduce(data.data_ptr(), data.data_ptr(),
                                    count_of(data), *type_of(data), *op, comm,
                                    stream);
             });
}

bool all_gather(const Group& group, const at::Tensor& input,
                const at::Tensor& output, const CollectiveOptions& options) {
  if (!is_ours(group, input) || !is_ours(group, output)) return false;
  SHEAF_CHECK(output.numel() == input.numel() * group.size() &&
                  output.scalar_type() == input.scalar_type(),
              "all_gather: the output ", describe(output),
              " does not hold one ", describe(input), " of each of ",
              group.size(), " ranks");
  return run(group, input, "ncclAllGather", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclAllGather(input.data_ptr(), output.data_ptr(),
                                    count_of(input), *type_of(input), comm,
                                    stream);
             });
}

bool reduce_scatter(const Group& group, const at::Tensor& input,
                    const at::Tensor& output,
                    const CollectiveOptions& options) {
  const auto op = op_of(options.op);
  if (!is_ours(group, input) || !is_ours(group, output) || !op) return false;
  SHEAF_CHECK(input.numel() == output.numel() * group.size() &&
                  output.scalar_type() == input.scalar_type(),
              "reduce_scatter: the input ", describe(input),
              " does not hold one ", describe(output), " for each of ",
              group.size(), " ranks");
  return run(group, output, "ncclReduceScatter", options,
             [&](ncclComm_t comm, cudaStream_t stream) {
               return ncclReduceScatter(input.data_ptr(), output.data_ptr(),
                                        count_of(output), *type_of(output), *op,
                                        comm, stream);
             });
}

}  // namespace sheaf::tensor::nccl
