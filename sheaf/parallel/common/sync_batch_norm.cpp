// Forward: each rank sums x and counts its values; one all-reduce gives the
// mean. Each rank then sums (x - mean)^2; a second all-reduce gives the
// variance. (A single message with the sums of squares would lose precision if
// the mean is large.)
//
// Backward, with xhat = (x - mean) / sigma and N the global count:
//   dx = weight / sigma * (dy - (sum dy + xhat * sum(dy xhat)) / N)
// where both sums are over all ranks: one all-reduce. dweight and dbias stay
// local sums; they are averaged with all other gradients.
//
// Unmodified modules are reached through the dispatcher: `aten::batch_norm` is
// a composite operation, and a kernel registered here for the autograd keys
// overrides it.

#include "sheaf/parallel/common/sync_batch_norm.hpp"

#include <ATen/ops/batch_norm_native.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/nn/modules/batchnorm.h>

#include <map>
#include <mutex>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/buffers.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/keep.hpp"

namespace sheaf::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// All axes but the channels.
std::vector<std::int64_t> other_axes(const at::Tensor& input) {
  std::vector<std::int64_t> axes{0};
  for (std::int64_t axis = 2; axis < input.dim(); ++axis) axes.push_back(axis);
  return axes;
}

// Reshapes per-channel values to be combined with `like`, in the type of
// `like`.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& like) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(like.dim()), 1);
  sizes[1] = -1;
  return values.view(sizes).to(like.scalar_type());
}

// The type of all computations: rounding the mean to 16 bits before the
// subtraction would shift all results.
at::ScalarType sum_type(const at::Tensor& input) {
  return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

struct Moments {
  at::Tensor mean;
  at::Tensor variance;
  double count = 0;
  // Whether some rank needs gradients; equal on all ranks.
  bool has_backward = false;
};

// `input` is already in the type of the sums.
Moments global_moments(const at::Tensor& input, const comm::Group& group,
                       bool needs_gradient) {
  const auto axes = other_axes(input);
  const std::int64_t channels = input.size(1);
  const at::Tensor sums = at::empty({channels + 2}, input.options());
  sums.narrow(0, 0, channels).copy_(input.sum(axes));
  sums.narrow(0, channels, 1)
      .fill_(static_cast<double>(input.numel() /
                                 std::max<std::int64_t>(channels, 1)));
  sums.narrow(0, channels + 1, 1).fill_(needs_gradient ? 1 : 0);
  tensor::all_reduce(group, sums, {.name = "batch norm"}).wait();
  Moments moments;
  moments.count = sums[channels].item<double>();
  moments.has_backward = sums[channels + 1].item<double>() > 0;
  SHEAF_CHECK(moments.count > 1, "batch normalization over ", moments.count,
              " values per channel; at least 2 are needed over all ranks "
              "together");
  moments.mean = sums.narrow(0, 0, channels) / moments.count;
  const at::Tensor centred = input - per_channel(moments.mean, input);
  const at::Tensor squares = (centred * centred).sum(axes);
  tensor::all_reduce(group, squares, {.name = "batch norm"}).wait();
  moments.variance = squares / moments.count;
  return moments;
}

void update_running(const at::Tensor& mean, const at::Tensor& var,
                    const Moments& moments, double momentum) {
  if (!mean.defined()) return;
  const double unbiased = moments.count / (moments.count - 1);
  mean.mul_(1 - momentum).add_(moments.mean, momentum);
  var.mul_(1 - momentum).add_(moments.variance, momentum * unbiased);
}

struct Function : torch::autograd::Function<Function> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const Moments* moments, double eps,
                            comm::Group group) {
    const at::Tensor x = input.to(sum_type(input));
    const at::Tensor inverse = (moments->variance + eps).rsqrt();
    const at::Tensor scale = inverse * weight.to(inverse.scalar_type());
    context->save_for_backward({input, weight, moments->mean, inverse});
    context->saved_data["count"] = moments->count;
    tensor::keep(context, group);
    const at::Tensor y =
        (x - per_channel(moments->mean, x)) * per_channel(scale, x) +
        per_channel(bias, x);
    return y.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    SHEAF_CHECK(!at::GradMode::is_enabled(),
                "gradients of gradients (create_graph) are not supported by "
                "batch normalization over all ranks; call "
                "use_local_batch_norm() on the module, or leave this layer out "
                "of that part of the loss");
    const auto saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor x = input.to(sum_type(input));
    const at::Tensor dy = gradients[0].to(x.scalar_type());
    const auto axes = other_axes(x);
    const at::Tensor xhat =
        (x - per_channel(saved[2], x)) * per_channel(saved[3], x);
    const at::Tensor sums = at::stack({dy.sum(axes), (dy * xhat).sum(axes)});
    const at::Tensor local = sums.clone();
    const comm::Group& group = tensor::kept<comm::Group>(context);
    tensor::all_reduce(group, sums, {.name = "batch norm backward"}).wait();
    sums.div_(context->saved_data["count"].toDouble());
    at::Tensor dx =
        dy - per_channel(sums[0], x) - xhat * per_channel(sums[1], x);
    const at::Tensor scale = saved[3] * weight.to(saved[3].scalar_type());
    dx = dx * per_channel(scale, x);
    return {dx.to(input.scalar_type()),
            local[1].to(weight.scalar_type()),
            local[0].to(weight.scalar_type()),
            {},
            {},
            {}};
  }
};

// The group of each layer. A layer is identified by one of its tensors, because
// a call of the operator has nothing else that identifies it. The weak pointer
// keeps the tensor's address from being reused.
class Registry {
 public:
  void add(const at::Tensor& layer, const comm::Group& group) {
    const std::lock_guard lock(mutex_);
    groups_.insert_or_assign(layer.unsafeGetTensorImpl(),
                             Entry{WeakLayer(layer.getIntrusivePtr()), group});
  }
  void remove(const at::Tensor& layer) {
    const std::lock_guard lock(mutex_);
    groups_.erase(layer.unsafeGetTensorImpl());
  }
  comm::Group find(const at::Tensor& layer) {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(layer.unsafeGetTensorImpl());
    return found == groups_.end() ? comm::Group() : found->second.group;
  }

 private:
  using WeakLayer =
      c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Entry {
    WeakLayer layer;
    comm::Group group;
  };
  std::mutex mutex_;
  std::map<const void*, Entry> groups_;
};

Registry& registry() {
  static Registry* registry = new Registry;  // outlives other statics
  return *registry;
}

const at::Tensor& identity(const at::Tensor& mean, const at::Tensor& weight) {
  return mean.defined() ? mean : weight;
}

// The type of optional tensor arguments, which depends on the libtorch version.
template <class Result, class First, class Second, class... Rest>
Second second_argument(Result (*)(First, Second, Rest...));
using MaybeTensor =
    std::decay_t<decltype(second_argument(&at::native::batch_norm))>;

at::Tensor tensor_of(const MaybeTensor& maybe) {
  return maybe.has_value() ? *maybe : at::Tensor();
}

at::Tensor batch_norm(const at::Tensor& input, const MaybeTensor& weight,
                      const MaybeTensor& bias, const MaybeTensor& mean,
                      const MaybeTensor& var, bool training, double momentum,
                      double eps, bool cudnn) {
  if (training) {
    const at::Tensor running_mean = tensor_of(mean);
    const at::Tensor scale = tensor_of(weight);
    const comm::Group group = sync_batch_norm_group(running_mean, scale);
    if (group.is_member() && group.size() > 1)
      return sync_batch_norm(input, scale, tensor_of(bias), running_mean,
                             tensor_of(var), momentum, eps, group);
  }
  if (training) {
    note_uncounted_write(tensor_of(mean));
    note_uncounted_write(tensor_of(var));
  }
  return at::native::batch_norm(input, weight, bias, mean, var, training,
                                momentum, eps, cudnn);
}

template <class Visit>
int each_batch_norm(torch::nn::Module& module, Visit visit) {
  int count = 0;
  const auto look = [&](auto* layer) {
    if (!layer) return;
    const at::Tensor& key = identity(layer->running_mean, layer->weight);
    SHEAF_CHECK(key.defined(),
                "a BatchNorm layer without weights and running statistics "
                "cannot be identified; enable affine or "
                "track_running_stats");
    visit(key);
    ++count;
  };
  const auto look_at = [&](torch::nn::Module& any) {
    look(any.as<torch::nn::BatchNorm1dImpl>());
    look(any.as<torch::nn::BatchNorm2dImpl>());
    look(any.as<torch::nn::BatchNorm3dImpl>());
  };
  look_at(module);
  for (const auto& child : module.modules(/*include_self=*/false))
    look_at(*child);
  return count;
}

template <class Layer>
bool is_synced(torch::nn::Module& any) {
  const auto* layer = any.as<Layer>();
  if (!layer) return false;
  const at::Tensor& key = identity(layer->running_mean, layer->weight);
  if (!key.defined()) return false;
  const comm::Group group = registry().find(key);
  return group.is_member() && group.size() > 1;
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) {
  library.impl("batch_norm", batch_norm);
}
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) {
  library.impl("batch_norm", batch_norm);
}

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias,
                           const at::Tensor& running_mean,
                           const at::Tensor& running_var, double momentum,
                           double eps, const comm::Group& group) {
  SHEAF_CHECK(input.dim() >= 2,
              "batch normalization needs an input [batch, channels, "
              "...], but the input is ",
              input.sizes());
  const auto needs = [](const at::Tensor& one) {
    return one.defined() && one.requires_grad();
  };
  const bool needs_gradient = at::GradMode::is_enabled() &&
                              (needs(input) || needs(weight) || needs(bias));
  Moments moments;
  {
    const at::NoGradGuard no_grad;
    moments = global_moments(input.to(sum_type(input)), group, needs_gradient);
    update_running(running_mean, running_var, moments, momentum);
  }
  // A rank that needs no gradient itself still contributes to the sums of the
  // others.
  const bool is_for_others = moments.has_backward && !needs_gradient;
  const auto options = input.options().dtype(sum_type(input));
  const std::int64_t channels = input.size(1);
  return Function::apply(
      is_for_others ? input.detach().requires_grad_() : input,
      weight.defined() ? weight : at::ones({channels}, options),
      bias.defined() ? bias : at::zeros({channels}, options), &moments, eps,
      group);
}

comm::Group sync_batch_norm_group(const at::Tensor& running_mean,
                                  const at::Tensor& weight) {
  const at::Tensor& layer = identity(running_mean, weight);
  return layer.defined() ? registry().find(layer) : comm::Group();
}

int use_sync_batch_norm(torch::nn::Module& module, const comm::Group& group) {
  return each_batch_norm(
      module, [&](const at::Tensor& layer) { registry().add(layer, group); });
}

void use_local_batch_norm(torch::nn::Module& module) {
  each_batch_norm(module,
                  [](const at::Tensor& layer) { registry().remove(layer); });
}

std::string first_sync_batch_norm(torch::nn::Module& module) {
  const auto is_one = [](torch::nn::Module& any) {
    return is_synced<torch::nn::BatchNorm1dImpl>(any) ||
           is_synced<torch::nn::BatchNorm2dImpl>(any) ||
           is_synced<torch::nn::BatchNorm3dImpl>(any);
  };
  if (is_one(module)) return "itself";
  for (const auto& child : module.named_modules("", /*include_self=*/false))
    if (is_one(*child.value())) return child.key();
  return "";
}

}  // namespace sheaf::parallel
