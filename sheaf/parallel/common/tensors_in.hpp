#pragma once
// Finds the tensors in the arguments or results of a module's forward(): a
// tensor, or tuples and lists of tensors.

#include <torch/types.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sheaf::parallel {

// Appends pointers to all tensors in `value`.
template <class T>
void collect_tensors(T& value, std::vector<T*>& list) requires
    std::is_same_v<std::remove_const_t<T>, at::Tensor> {
  list.push_back(&value);
}
template <class T, class Tensor>
void collect_tensors(T& value, std::vector<Tensor*>& list) {
  if constexpr (requires { std::tuple_size<std::remove_const_t<T>>::value; })
    std::apply([&](auto&... one) { (collect_tensors(one, list), ...); }, value);
  else if constexpr (requires { value.begin() == value.end(); } &&
                     !std::is_convertible_v<T, std::string>)
    for (auto& one : value) collect_tensors(one, list);
}

template <class T>
constexpr bool holds_tensors() {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<Plain, at::Tensor>)
    return true;
  else if constexpr (requires { std::tuple_size<Plain>::value; })
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (holds_tensors<std::tuple_element_t<I, Plain>>() || ...);
    }
  (std::make_index_sequence<std::tuple_size_v<Plain>>());
  else if constexpr (
      requires(Plain value) { *value.begin(); } &&
      !std::is_convertible_v<
          Plain,
          std::string>) return holds_tensors<decltype(*std::declval<Plain&>()
                                                           .begin())>();
  else return false;
}

// Whether collect_tensors() can be used to replace all tensors in a copy of a
// value of this type. Not the case for views such as at::TensorList.
template <class T>
constexpr bool has_replaceable_tensors() {
  if constexpr (!holds_tensors<T>() || std::is_const_v<T> ||
                !std::is_copy_constructible_v<T>) {
    return false;
  } else if constexpr (std::is_same_v<T, at::Tensor>) {
    return true;
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return ((!holds_tensors<std::tuple_element_t<I, T>>() ||
               has_replaceable_tensors<std::tuple_element_t<I, T>>()) &&
              ...);
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    using Element = decltype(*std::declval<T&>().begin());
    return std::is_lvalue_reference_v<Element> &&
           has_replaceable_tensors<std::remove_reference_t<Element>>();
  }
}

// The tensors in a result of forward(); empty if its type holds none.
template <class T>
std::vector<at::Tensor*> tensors_in(T& value) {
  std::vector<at::Tensor*> list;
  if constexpr (holds_tensors<T>()) collect_tensors(value, list);
  return list;
}

}  // namespace sheaf::parallel
