// Pickles. All values of the result are visited.
// parser: sheaf/formats/archives/pickle.cpp
// sheaf/formats/archives/pickle_stack.hpp
#include "sheaf/formats/archives/pickle.hpp"

#include <cstdlib>
#include <set>
#include <vector>

#include "sheaf/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"

using namespace sheaf::formats;
using Kind = PickleValue::Kind;

namespace {

void check(const PickleValue& value) {
  const std::size_t count = value.items().size();
  if (describe(value).size() > 500) std::abort();
  if (value.is(Kind::kUnset)) std::abort();
  if (value.is(Kind::kDictionary) && count % 2 != 0) std::abort();
  if (value.is(Kind::kPersistent) && count != 1) std::abort();
  if (value.is(Kind::kCall) && value.text().empty()) std::abort();
}

}  // namespace

SHEAF_FUZZ_TARGET(pickle) try {
  const std::string bytes(input.begin(), input.end());
  ByteReader reader("input", bytes);
  const Pickle pickle = read_pickle(reader, max_pickle_memory(bytes.size()));
  check(pickle.root());
  std::set<const PickleValue*> seen;
  std::vector<std::span<const PickleValue>> left{pickle.root().items()};
  while (!left.empty()) {
    const auto items = left.back();
    left.pop_back();
    for (const PickleValue& item : items) {
      check(item);
      if (!item.items().empty() && seen.insert(item.items().data()).second)
        left.push_back(item.items());
    }
  }
} catch (const sheaf::Error&) {
}
