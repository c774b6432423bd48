#pragma once
// The members that DataParallel, DadParallel and SpatialParallel have in
// common: a module of a known type on top of a *core*, the part of the wrapper
// that does not depend on that type.
//
// The constructors and forward() accept any arguments, so that the first error
// of the compiler names a mistake: static assertions check the arguments, and
// an unknown option name is reported as used for UnknownOption.

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/common/tensors_in.hpp"

namespace sheaf::parallel {

// The type of the module that an argument of a constructor holds: T for
// std::shared_ptr<T>, for a module holder of T, and for the mistakes T and T*.
template <class T>
struct HeldModuleOf {
  using type = T;
};
template <class T>
struct HeldModuleOf<T*> {
  using type = T;
};
template <class T>
struct HeldModuleOf<std::shared_ptr<T>> {
  using type = T;
};
template <class T>
struct HeldModuleOf<std::unique_ptr<T>> {
  using type = T;
};
template <class T>
requires requires { typename T::ContainedType; }
struct HeldModuleOf<T> {
  using type = typename T::ContainedType;
};
template <class T>
using HeldModule = std::remove_const_t<typename HeldModuleOf<T>::type>;

// Matches any option name that a wrapper's options do not have.
struct UnknownOption {
  template <class T>
  UnknownOption(T&&) {}  // NOLINT: any value
};
// Makes deduction with unknown options the second choice.
struct GroupArgument {
  GroupArgument(const comm::Group&) {}  // NOLINT: any group
  GroupArgument(const comm::World&) {}  // NOLINT: any group
};

// Deduces the module of a wrapper from the first argument of its constructors,
// whatever the others are, so that the constructors report mistakes in them.
#define SHEAF_DEDUCE_MODULE(Wrapper, Options)             \
  template <class First, class... Rest>                   \
  Wrapper(const First&, const Rest&...)                   \
      -> Wrapper<::sheaf::parallel::HeldModule<First>>;   \
  template <class First, class Group>                     \
  Wrapper(const First&, const Group&, Options)            \
      -> Wrapper<::sheaf::parallel::HeldModule<First>>;   \
  template <class First, std::size_t N>                   \
  Wrapper(const First&, ::sheaf::parallel::GroupArgument, \
          const ::sheaf::parallel::UnknownOption(&)[N])   \
      ->Wrapper<::sheaf::parallel::HeldModule<First>>

template <class Module, class T>
inline constexpr bool is_module_argument =
    std::is_convertible_v<const T&, std::shared_ptr<Module>> ||
    std::is_convertible_v<const T&, const torch::nn::ModuleHolder<Module>&>;

template <class Module, class Options, class... Args>
inline constexpr bool are_wrapper_arguments = false;
template <class Module, class Options, class First, class Second>
inline constexpr bool are_wrapper_arguments<Module, Options, First, Second> =
    is_module_argument<Module, First>&&
        std::is_convertible_v<const Second&, const comm::Group&>;
template <class Module, class Options, class First, class Second, class Third>
inline constexpr bool
    are_wrapper_arguments<Module, Options, First, Second, Third> =
        are_wrapper_arguments<Module, Options, First, Second>&&
            std::is_convertible_v<const Third&, Options>;

struct MissingArgument {};

template <class Module, class Options, class First = MissingArgument,
          class Second = MissingArgument, class Third = Options, class... More>
constexpr void explain_wrapper_arguments() {
  static_assert(!std::is_pointer_v<First>,
                "the module must be passed as a std::shared_ptr or a module "
                "holder, not as a raw pointer");
  static_assert(!std::is_base_of_v<torch::nn::Module, First>,
                "the module must be passed as a std::shared_ptr, such as "
                "std::make_shared<Net>(), or a module holder, not as an "
                "object");
  static_assert(
      !std::is_same_v<First, std::shared_ptr<const Module>>,
      "the module is const, but training changes it; pass a std::shared_ptr "
      "to a module that is not const");
  static_assert(is_module_argument<Module, First>,
                "the first argument must be the module: a std::shared_ptr or a "
                "module holder");
  static_assert(!std::is_same_v<Second, MissingArgument>,
                "the group is missing; pass the world that sheaf::init() "
                "returned as the second argument");
  static_assert(std::is_convertible_v<const Second&, const comm::Group&>,
                "the second argument must be a group: the sheaf::World that "
                "sheaf::init() returned, or a sheaf::Group");
  static_assert(std::is_convertible_v<const Third&, Options>,
                "the third argument must be the options of this wrapper: "
                "DataParallelOptions for DataParallel, DadOptions for "
                "DadParallel, SpatialOptions for SpatialParallel");
  static_assert(sizeof...(More) == 0,
                "too many arguments; pass the module, the group and the "
                "options");
}

// `Core` has a type `Options`, a constructor with a module, a group and
// options, device(), and run(call, arguments...), which runs one forward pass.
// Shares the ownership of the module. Not thread-safe; backward() may run on
// other threads, but not during other calls.
template <class Module, class Core>
class ModuleWrapper : public Core {
  static_assert(std::is_base_of_v<torch::nn::Module, Module>,
                "the wrapped type must be derived from torch::nn::Module; for "
                "a module holder such as Linear, name its LinearImpl");
  using Options = typename Core::Options;

 public:
  ModuleWrapper(std::shared_ptr<Module> module, const comm::Group& group,
                Options options = {})
      : Core(module, group, std::move(options)), module_(std::move(module)) {}
  ModuleWrapper(const torch::nn::ModuleHolder<Module>& module,
                const comm::Group& group, Options options = {})
      : ModuleWrapper(module.ptr(), group, std::move(options)) {}

  // Compile-time errors for wrong arguments.
  template <std::size_t N>
  ModuleWrapper(const std::shared_ptr<Module>&, const comm::Group&,
                const UnknownOption (&)[N])
      : Core(nullptr, {}, {}) {
    static_assert(N == 0,
                  "an option has a name that does not exist, a value of the "
                  "wrong type, or comes before one that is declared earlier");
  }
  template <std::size_t N>
  ModuleWrapper(const torch::nn::ModuleHolder<Module>& module,
                const comm::Group& group, const UnknownOption (&options)[N])
      : ModuleWrapper(module.ptr(), group, options) {}
  template <class... Args>
  requires(!are_wrapper_arguments<Module, Options, Args...>)  //
      explicit ModuleWrapper(const Args&...)
      : Core(nullptr, {}, {}) {
    explain_wrapper_arguments<Module, Options, Args...>();
  }

  template <class First, class Second>
  requires(!are_wrapper_arguments<Module, Options, First, Second>)  //
      explicit ModuleWrapper(const First&, const Second&, Options)
      : Core(nullptr, {}, {}) {
    explain_wrapper_arguments<Module, Options, First, Second>();
  }

  // Runs the module's forward() and prepares the exchange of its gradients. All
  // ranks must call it. If the options name a device, tensors in the arguments,
  // including tuples and lists of them, are moved there first.
  template <class... Args>
  auto forward(Args&&... args) {
    constexpr bool is_call = requires {
      module_->forward(std::forward<Args>(args)...);
    };
    static_assert(is_call,
                  "the module has no forward() that takes these arguments");
    if constexpr (is_call) {
      constexpr bool has_result = !std::is_void_v<decltype(module_->forward(
          std::forward<Args>(args)...))>;
      static_assert(has_result,
                    "the module's forward() returns nothing; it must return "
                    "its output");
      if constexpr (has_result) return run(std::forward<Args>(args)...);
    }
  }
  template <class... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  Module& operator*() const { return *module_; }
  Module* operator->() const { return module_.get(); }
  const std::shared_ptr<Module>& module() const { return module_; }

  // Those of the module.
  std::vector<at::Tensor> parameters(bool recurse = true) const {
    return module_->parameters(recurse);
  }
  auto named_parameters(bool recurse = true) const {
    return module_->named_parameters(recurse);
  }
  void train(bool is_on = true) { module_->train(is_on); }
  void eval() { module_->eval(); }
  bool is_training() const { return module_->is_training(); }

 private:
  // A copy for arguments whose tensors can be replaced, otherwise a reference.
  template <class Arg>
  using Moved =
      std::conditional_t<has_replaceable_tensors<std::remove_cvref_t<Arg>>(),
                         std::remove_cvref_t<Arg>, Arg&>;

  template <class... Args>
  auto run(Args&&... args) {
    const auto call = [this](auto&&... given) {
      return module_->forward(std::forward<decltype(given)>(given)...);
    };
    if (!Core::device()) return Core::run(call, std::forward<Args>(args)...);
    std::tuple<Moved<Args>...> moved(args...);
    std::vector<at::Tensor*> tensors;
    std::apply([&](auto&... one) { (add_tensors(one, tensors), ...); }, moved);
    for (at::Tensor* const one : tensors)
      if (one->defined() && one->device() != *Core::device())
        *one = one->to(*Core::device());
    return std::apply(
        [this, &call](auto&... one) {
          return this->Core::run(call, static_cast<Args&&>(one)...);
        },
        moved);
  }
  template <class T>
  static void add_tensors(T& value, std::vector<at::Tensor*>& list) {
    if constexpr (has_replaceable_tensors<T>()) collect_tensors(value, list);
  }

  std::shared_ptr<Module> module_;
};

}  // namespace sheaf::parallel
