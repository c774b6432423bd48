#pragma once
// Python's pickles as plain values. Nothing in them is ever executed: a call
// stays a note of what would be called with which arguments.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/tensor/files/byte_reader.hpp"

namespace sheaf::tensor {

struct PickleItems;

struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,        // integer
    kInteger,     // integer
    kReal,        // real
    kText,        // text; byte strings too
    kGlobal,      // text: "module.name"
    kList,        // items; tuples and sets too
    kDictionary,  // items: key, value, key, value ...; OrderedDict too
    kCall,        // text: what is called; items: with which arguments
    kPersistent,  // items: one, the description of what is kept elsewhere
    kMark,        // inside the reader only
  };

  Kind kind = Kind::kNone;
  std::int64_t integer = 0;
  double real = 0;
  std::string text{};
  std::shared_ptr<PickleItems> items{};
};

struct PickleItems {
  std::vector<PickleValue> values;
  int depth = 1;
};

// "a dictionary", "an object of collections.Counter" ...
std::string describe(const PickleValue& value);

// The value of a pickle of protocol 2 to 5. IoError names file and byte.
PickleValue read_pickle(ByteReader& reader);

}  // namespace sheaf::tensor
