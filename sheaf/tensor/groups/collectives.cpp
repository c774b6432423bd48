#include "sheaf/tensor/groups/collectives.hpp"

#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/groups/memory.hpp"
#include "sheaf/tensor/groups/nccl.hpp"

namespace sheaf::tensor {
namespace {

using comm::Buffer;

// Adds the tensor shapes to the operation's name, since the fingerprint that
// ranks compare has element counts only. An undefined tensor is passed if ranks
// may use different shapes.
class ShapedCall {
 public:
  ShapedCall(const CollectiveOptions& options, const at::Tensor& shaped)
      : ShapedCall(options, Tensors{shaped}) {}
  ShapedCall(const CollectiveOptions& options, const Tensors& shaped)
      : options_(options) {
    for (const at::Tensor& one : shaped) shape_ += signature(one);
    shape_ += options.name;
    options_.name = shape_;
  }

  // `after` runs when the operation has succeeded, and keeps the tensors alive
  // until then.
  template <class Start, class After>
  Work run(Start start, After after) const {
    try {
      Work work = start(options_);
      if (options_.async)
        work.append(std::move(after));
      else
        after();
      return work;
    } catch (const MismatchError& error) {
      throw MismatchError(concat(error.what(), "\n  here: ", shape_));
    }
  }

 private:
  CollectiveOptions options_;
  std::string shape_;
};

// Several tensors, concatenated in one block of memory.
class Joined {
 public:
  Joined(const Tensors& parts, const at::Tensor& like, bool with_content)
      : parts_(parts) {
    std::int64_t total = 0;
    for (const at::Tensor& part : parts) {
      SHEAF_CHECK(part.defined() && part.scalar_type() == like.scalar_type(),
                  "all tensors of an operation must have the same type: ",
                  describe(part), " differs from ", describe(like));
      counts_.push_back(static_cast<std::size_t>(part.numel()));
      total += part.numel();
    }
    memory_ = at::empty({total}, at::TensorOptions(like.scalar_type()));
    if (with_content)
      each([](const at::Tensor& slice, const at::Tensor& part) {
        slice.copy_(part.detach());
      });
  }

  const std::vector<std::size_t>& counts() const { return counts_; }
  Buffer buffer() const { return buffer_of(memory_); }
  void write_back() const {
    each([](const at::Tensor& slice, const at::Tensor& part) {
      part.detach().copy_(slice);
    });
  }

 private:
  template <class Visit>
  void each(Visit visit) const {
    const at::NoGradGuard no_grad;
    std::int64_t at = 0;
    for (const at::Tensor& part : parts_) {
      visit(memory_.narrow(0, at, part.numel()).view(part.sizes()), part);
      at += part.numel();
    }
  }

  Tensors parts_;
  std::vector<std::size_t> counts_;
  at::Tensor memory_;
};

void check_one_each(const Group& group, const Tensors& list, const char* what) {
  SHEAF_CHECK(list.size() == static_cast<std::size_t>(group.size()), what,
              " needs one tensor for each of the ", group.size(), " ranks; ",
              list.size(), " were passed");
}

void check_only_root(const Group& group, const Tensors& list, int root,
                     const char* what) {
  if (group.rank() == root) return check_one_each(group, list, what);
  SHEAF_CHECK(list.empty(), what, ": only the root, rank ", root,
              ", passes a list of tensors; rank ", group.rank(), " passed ",
              list.size());
}

}  // namespace

Work broadcast(const Group& group, const at::Tensor& data,
               const CollectiveOptions& options) {
  if (nccl::broadcast(group, data, options)) return {};
  const at::Tensor memory = staged(data, group.rank() == options.root);
  return ShapedCall(options, data)
      .run(
          [&](const auto& o) {
            return comm::broadcast(group, buffer_of(memory), o);
          },
          [memory, data] { unstage(memory, data); });
}

Work reduce(const Group& group, const at::Tensor& data,
            const CollectiveOptions& options) {
  if (nccl::reduce(group, data, options)) return {};
  const at::Tensor memory = staged(data);
  const bool is_root = group.rank() == options.root;
  const Buffer buffer = buffer_of(memory);
  return ShapedCall(options, data)
      .run(
          [&](const auto& o) {
            return comm::reduce(group, buffer, is_root ? buffer : Buffer{}, o);
          },
          [=] {
            if (is_root) unstage(memory, data);
          });
}

Work all_reduce(const Group& group, const at::Tensor& data,
                const CollectiveOptions& options) {
  if (nccl::all_reduce(group, data, options)) return {};
  const at::Tensor memory = staged(data);
  return ShapedCall(options, data)
      .run(
          [&](const auto& o) {
            return comm::all_reduce(group, buffer_of(memory), o);
          },
          [memory, data] { unstage(memory, data); });
}

Work all_reduce_n(const Group& group, const Tensors& data,
                  const CollectiveOptions& options) {
  Tensors memory;
  std::vector<Buffer> buffers;
  for (const at::Tensor& tensor : data) {
    memory.push_back(staged(tensor));
    buffers.push_back(buffer_of(memory.back()));
  }
  return ShapedCall(options, data)
      .run([&](const auto& o) { return comm::all_reduce_n(group, buffers, o); },
           [memory, data] {
             for (std::size_t i = 0; i < data.size(); ++i)
               unstage(memory[i], data[i]);
           });
}

Work all_gather(const Group& group, const at::Tensor& input,
                const Tensors& outputs, const CollectiveOptions& options) {
  check_one_each(group, outputs, "all_gather");
  const at::Tensor memory = staged(input);
  const Joined all(outputs, input, /*with_content=*/false);
  return ShapedCall(options, at::Tensor())
      .run(
          [&](const auto& o) {
            return comm::all_gather(group, buffer_of(memory), all.buffer(), o,
                                    all.counts());
          },
          [memory, all] { all.write_back(); });
}

Work gather(const Group& group, const at::Tensor& input, const Tensors& outputs,
            const CollectiveOptions& options) {
  check_only_root(group, outputs, options.root, "gather");
  const at::Tensor memory = staged(input);
  const Joined all(outputs, input, /*with_content=*/false);
  return ShapedCall(options, at::Tensor())
      .run(
          [&](const auto& o) {
            return comm::gatherv(group, buffer_of(memory), all.buffer(), o,
                                 all.counts());
          },
          [memory, all] { all.write_back(); });
}

Work all_gather(const Group& group, const at::Tensor& input,
                const at::Tensor& output, const CollectiveOptions& options) {
  if (nccl::all_gather(group, input, output, options)) return {};
  const at::Tensor from = staged(input);
  const at::Tensor to = staged(output, /*with_content=*/false);
  return ShapedCall(options, input)
      .run(
          [&](const auto& o) {
            return comm::all_gather(group, buffer_of(from), buffer_of(to), o);
          },
          [from, to, output] { unstage(to, output); });
}

Work scatter(const Group& group, const Tensors& inputs,
             const at::Tensor& output, const CollectiveOptions& options) {
  check_only_root(group, inputs, options.root, "scatter");
  const Joined all(inputs, output, /*with_content=*/true);
  const at::Tensor memory = staged(output, /*with_content=*/false);
  return ShapedCall(options, at::Tensor())
      .run(
          [&](const auto& o) {
            return comm::scatterv(group, all.buffer(), buffer_of(memory), o,
                                  all.counts());
          },
          [all, memory, output] { unstage(memory, output); });
}

Work reduce_scatter(const Group& group, const Tensors& inputs,
                    const at::Tensor& output,
                    const CollectiveOptions& options) {
  check_one_each(group, inputs, "reduce_scatter");
  const Joined all(inputs, output, /*with_content=*/true);
  const at::Tensor memory = staged(output, /*with_content=*/false);
  return ShapedCall(options, at::Tensor())
      .run(
          [&](const auto& o) {
            return comm::reduce_scatter(group, all.buffer(), buffer_of(memory),
                                        o, all.counts());
          },
          [all, memory, output] { unstage(memory, output); });
}

Work reduce_scatter(const Group& group, const at::Tensor& input,
                    const at::Tensor& output,
                    const CollectiveOptions& options) {
  if (nccl::reduce_scatter(group, input, output, options)) return {};
  const at::Tensor from = staged(input);
  const at::Tensor to = staged(output, /*with_content=*/false);
  return ShapedCall(options, output)
      .run(
          [&](const auto& o) {
            return comm::reduce_scatter(group, buffer_of(from), buffer_of(to),
                                        o);
          },
          [from, to, output] { unstage(to, output); });
}

Work all_to_all(const Group& group, const Tensors& inputs,
                const Tensors& outputs, const CollectiveOptions& options) {
  check_one_each(group, inputs, "all_to_all");
  check_one_each(group, outputs, "all_to_all");
  const Joined from(inputs, inputs[0], /*with_content=*/true);
  const Joined to(outputs, inputs[0], /*with_content=*/false);
  return ShapedCall(options, at::Tensor())
      .run(
          [&](const auto& o) {
            return comm::all_to_all(group, from.buffer(), to.buffer(), o,
                                    from.counts(), to.counts());
          },
          [from, to] { to.write_back(); });
}

void send(const Group& group, const at::Tensor& data, int to,
          const MessageOptions& options) {
  const at::Tensor memory = staged(data);
  comm::send(group, buffer_of(memory), to, options);
}

int recv(const Group& group, const at::Tensor& data, int from,
         const MessageOptions& options) {
  const at::Tensor memory = staged(data, /*with_content=*/false);
  const int source = comm::recv(group, buffer_of(memory), from, options);
  unstage(memory, data);
  return source;
}

Work isend(const Group& group, const at::Tensor& data, int to,
           const MessageOptions& options) {
  const at::Tensor memory = staged(data);
  Work work = comm::isend(group, buffer_of(memory), to, options);
  work.append([memory] {});  // keeps it alive until the message is sent
  return work;
}

Work irecv(const Group& group, const at::Tensor& data, int from,
           const MessageOptions& options) {
  const at::Tensor memory = staged(data, /*with_content=*/false);
  Work work = comm::irecv(group, buffer_of(memory), from, options);
  work.append([memory, data] { unstage(memory, data); });
  return work;
}

}  // namespace sheaf::tensor
