// Gloo's collectives with the newer API, which takes the buffers with the call,
// over TCP. Reductions use Gloo's own loops.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/rivals/rival.hpp"

namespace sheaf::comm {
namespace {

constexpr auto kTimeout = std::chrono::seconds(60);
constexpr std::uint64_t kSendSlot = 1;

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using ReduceFunction = void (*)(void*, const void*, const void*, std::size_t);

template <class T>
ReduceFunction function_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return gloo::sum<T>;
    case ReduceOp::kProduct:
      return gloo::product<T>;
    case ReduceOp::kMin:
      return gloo::min<T>;
    default:
      return gloo::max<T>;
  }
}

// One call on elements of type T.
template <class T>
struct GlooCall {
  Context context;
  RivalCall call;
  ReduceFunction function;

  bool is_root() const { return context->rank == call.root; }
  std::size_t count() const { return call.count; }
  std::size_t all() const {
    return call.count * static_cast<std::size_t>(context->size);
  }

  void operator()(const void* input, void* output) const {
    // Gloo takes inputs as pointers to non-const and does not write to them.
    run(static_cast<T*>(const_cast<void*>(input)), static_cast<T*>(output));
  }

  void run(T* input, T* output) const {
    switch (call.operation) {
      case Operation::kBarrier:
        return barrier();
      case Operation::kBroadcast:
        return broadcast(output);
      case Operation::kReduce:
        return reduce(input, output);
      case Operation::kAllGather:
        return all_gather(input, output);
      case Operation::kGather:
        return gather(input, output);
      case Operation::kScatter:
        return scatter(input, output);
      case Operation::kAllToAll:
        return all_to_all(input, output);
      case Operation::kSend:
        return send_receive(input, output);
      default:
        return all_reduce(input, output);
    }
  }

  void barrier() const {
    gloo::BarrierOptions options(context);
    gloo::barrier(options);
  }
  void all_reduce(T* input, T* output) const {
    gloo::AllreduceOptions options(context);
    if (!call.in_place) options.setInput(input, count());
    options.setOutput(output, count());
    options.setReduceFunction(function);
    gloo::allreduce(options);
  }
  void reduce(T* input, T* output) const {
    gloo::ReduceOptions options(context);
    if (!call.in_place) options.setInput(input, count());
    options.setOutput(output, count());
    options.setRoot(call.root);
    options.setReduceFunction(function);
    gloo::reduce(options);
  }
  void broadcast(T* output) const {
    gloo::BroadcastOptions options(context);
    options.setOutput(output, count());
    options.setRoot(call.root);
    gloo::broadcast(options);
  }
  void all_gather(T* input, T* output) const {
    gloo::AllgatherOptions options(context);
    if (!call.in_place) options.setInput(input, count());
    options.setOutput(output, all());
    gloo::allgather(options);
  }
  void gather(T* input, T* output) const {
    gloo::GatherOptions options(context);
    options.setInput(input, count());
    if (is_root()) options.setOutput(output, all());
    options.setRoot(call.root);
    gloo::gather(options);
  }
  void scatter(T* input, T* output) const {
    gloo::ScatterOptions options(context);
    if (is_root()) {
      std::vector<T*> blocks;
      for (int i = 0; i < context->size; ++i)
        blocks.push_back(input + static_cast<std::size_t>(i) * count());
      options.setInputs(blocks, count());
    }
    options.setOutput(output, count());
    options.setRoot(call.root);
    gloo::scatter(options);
  }
  void all_to_all(T* input, T* output) const {
    gloo::AlltoallOptions options(context);
    options.setInput(input, all());
    options.setOutput(output, all());
    gloo::alltoall(options);
  }
  void send_receive(T* input, T* output) const {
    const int size = context->size;
    const auto bytes = count() * sizeof(T);
    auto from = context->createUnboundBuffer(input, bytes);
    auto to = context->createUnboundBuffer(output, bytes);
    to->recv((context->rank + size - 1) % size, kSendSlot);
    from->send((context->rank + 1) % size, kSendSlot);
    from->waitSend(kTimeout);
    to->waitRecv(kTimeout);
  }
};

class GlooBaseline final : public RivalLibrary {
 public:
  explicit GlooBaseline(const GlooOptions& options)
      : context_(std::make_shared<gloo::rendezvous::Context>(options.rank,
                                                             options.size)) {
    gloo::transport::tcp::attr attributes;
    attributes.iface = options.interface;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(options.folder);
    context_->setTimeout(kTimeout);
    context_->connectFullMesh(store, device);
  }

  std::string name() const override { return "gloo"; }

  Run prepare(const RivalCall& call) override {
    check_gloo_rival(call);
    switch (call.dtype) {
      case DType::kF64:
        return prepare_typed<double>(call);
      case DType::kF32:
        return prepare_typed<float>(call);
      case DType::kF16:
        return prepare_typed<gloo::float16>(call);
      case DType::kI64:
        return prepare_typed<std::int64_t>(call);
      case DType::kI32:
        return prepare_typed<std::int32_t>(call);
      case DType::kI8:
        return prepare_typed<std::int8_t>(call);
      default:
        return prepare_typed<std::uint8_t>(call);
    }
  }

 private:
  template <class T>
  Run prepare_typed(const RivalCall& call) {
    GlooCall<T> prepared{context_, call, function_of<T>(call.op)};
    return [prepared](const void* input, void* output) {
      try {
        prepared(input, output);
      } catch (const gloo::Exception& error) {
        throw CommError(concat("Gloo failed: ", error.what()));
      }
    };
  }

  Context context_;
};

}  // namespace

void check_gloo_rival(const RivalCall& call) {
  SHEAF_CHECK(call.operation != Operation::kReduceScatter,
              "Gloo has no reduce-scatter; omit --versus gloo");
  SHEAF_CHECK(call.dtype != DType::kBF16 && call.dtype != DType::kI16 &&
                  call.dtype != DType::kBool,
              "Gloo has no element type ", name_of(call.dtype),
              "; compare with another --dtype");
  SHEAF_CHECK(call.op != ReduceOp::kAvg && call.op <= ReduceOp::kMax,
              "Gloo has no reduction ", name_of(call.op),
              "; compare with --op sum, product, min or max");
}

std::unique_ptr<RivalLibrary> make_gloo_rival(const GlooOptions& options) {
  try {
    return std::make_unique<GlooBaseline>(options);
  } catch (const std::runtime_error& error) {
    throw CommError(concat("Gloo cannot connect the ranks over interface ",
                           options.interface, ": ", error.what()));
  }
}

}  // namespace sheaf::comm
