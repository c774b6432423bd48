#pragma once
// Reads Python pickles into plain values. Nothing in a pickle is executed: a
// call is stored as the callee's name and its arguments.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sheaf/formats/byte_reader.hpp"

namespace sheaf::formats {

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
    kCall,        // text: the callee; items: the arguments
    kPersistent,  // items: one, the description of an external object
    kMark,        // used internally by the reader
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

// Reads a pickle of protocol 2 to 5. Throws IoError, which names the file and
// the byte offset, if it is invalid.
PickleValue read_pickle(ByteReader& reader);

}  // namespace sheaf::formats
