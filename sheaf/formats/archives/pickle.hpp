#pragma once
// Reads Python pickles into plain values. Nothing in a pickle is executed: a
// call is stored as the callee's name and its arguments.

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/formats/bytes/byte_reader.hpp"

namespace sheaf::formats {

struct PickleItems;

// A value of a Pickle, valid as long as the Pickle and its bytes. Containers
// are shared by reference, nest to any depth and may contain themselves: do not
// visit them by recursion.
class PickleValue {
 public:
  enum class Kind : std::uint8_t {
    kUnset,  // used internally by the reader
    kNone,
    kBool,        // integer()
    kInteger,     // integer()
    kReal,        // real()
    kText,        // text(); byte strings too
    kGlobal,      // text(): "module.name"
    kList,        // items(); tuples and sets too
    kDictionary,  // items(): key, value, key, value ...; OrderedDict too
    kCall,        // text(): the callee; items(): the arguments
    kPersistent,  // items(): one, the description of an external object
  };

  explicit PickleValue(Kind kind = Kind::kUnset, std::int64_t integer = 0)
      : kind_(kind), integer_(integer) {}
  explicit PickleValue(double real) : kind_(Kind::kReal), real_(real) {}
  // The text has less than 4 GiB.
  PickleValue(Kind kind, std::string_view text)
      : kind_(kind),
        length_(static_cast<std::uint32_t>(text.size())),
        text_(text.data()) {}
  PickleValue(Kind kind, PickleItems* items) : kind_(kind), items_(items) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  // 0 or empty for other kinds than those listed above.
  std::int64_t integer() const;
  double real() const;
  std::string_view text() const;
  std::span<const PickleValue> items() const;

 private:
  friend class PickleStack;
  bool has_items() const { return kind_ >= Kind::kList && items_; }

  Kind kind_;
  std::uint32_t length_ = 0;
  union {
    std::int64_t integer_;
    double real_;
    const char* text_;
    PickleItems* items_;  // of a call: the callee, the tuple of arguments
  };
};

struct PickleItems {
  std::vector<PickleValue> values;
};

// Owns the containers of its values. They refer to the bytes of the pickle,
// which must outlive it.
class Pickle {
 public:
  const PickleValue& root() const { return root_; }

 private:
  friend class PickleStack;
  PickleValue root_;
  std::deque<PickleItems> containers_;
  std::deque<std::string> names_;
};

// "a dictionary", "an object of collections.Counter" ...
std::string describe(const PickleValue& value);

// The memory that the values of a pickle may take, by the size of its file:
// more than Python's pickles need, and little enough for damaged ones.
inline std::uint64_t max_pickle_memory(std::uint64_t file_bytes) {
  return (std::uint64_t{1} << 20) + 64 * file_bytes;
}

// Reads a pickle of protocol 2 to 5, which takes all of the reader's bytes.
// Throws IoError, which names the file and the byte offset, if it is invalid or
// needs more memory than `max_bytes`.
Pickle read_pickle(ByteReader& reader, std::uint64_t max_bytes);

}  // namespace sheaf::formats
