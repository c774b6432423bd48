#pragma once
// Faults that were compiled in beside the original code, each selected by its
// number. The environment of the process decides, when it starts:
// SHEAF_MUTANT=17 selects fault 17; SHEAF_MUTANT_RECORD=FILE selects none, and
// appends a line "<number> <test>" when a test first reaches a fault's place.

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

inline int sheaf_chosen_mutant() {
  const char* text = std::getenv("SHEAF_MUTANT");
  return text ? std::atoi(text) : -1;
}

inline int sheaf_open_record() {
  const char* name = std::getenv("SHEAF_MUTANT_RECORD");
  if (!name) return -1;
  return ::open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

inline const int sheaf_mutant_number = sheaf_chosen_mutant();
inline const int sheaf_mutant_record = sheaf_open_record();
inline std::array<std::atomic<bool>, 2000> sheaf_mutants_reached{};

// Called when a test starts. Processes that it starts inherit its name.
inline void sheaf_begin_test(const std::string& name) {
  ::setenv("SHEAF_MUTANT_TEST", name.c_str(), 1);
  for (auto& reached : sheaf_mutants_reached) reached = false;
}

inline void sheaf_record_mutant(int number) {
  auto& reached = sheaf_mutants_reached[static_cast<std::size_t>(number)];
  if (reached || reached.exchange(true)) return;
  const char* test = std::getenv("SHEAF_MUTANT_TEST");
  const std::string line =
      std::to_string(number) + " " + (test ? test : "") + "\n";
  if (::write(sheaf_mutant_record, line.data(), line.size()) < 0)
    reached = false;
}

constexpr bool sheaf_mutant(int number) {
  if (std::is_constant_evaluated()) return false;
  if (sheaf_mutant_record > 0) sheaf_record_mutant(number);
  return sheaf_mutant_number == number;
}

// A symbol in programs where fault `number` swaps arguments of types that
// cannot be swapped.
template <int number>
[[gnu::noinline, gnu::used]] void sheaf_unlike_arguments() {
  asm volatile("");
}

// `first`, or `second` if the fault is selected.
template <int number, typename First, typename Second>
constexpr decltype(auto) sheaf_pick(First&& first, Second&& second) {
  using A = std::remove_cvref_t<First>;
  using B = std::remove_cvref_t<Second>;
  if constexpr (std::is_same_v<First, Second>) {
    return sheaf_mutant(number) ? std::forward<Second>(second)
                                : std::forward<First>(first);
  } else if constexpr (std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) {
    return sheaf_mutant(number) ? static_cast<A>(second) : first;
  } else {
    if (!std::is_constant_evaluated()) sheaf_unlike_arguments<number>();
    return std::forward<First>(first);
  }
}
