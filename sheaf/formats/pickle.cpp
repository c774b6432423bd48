#include "sheaf/formats/pickle.hpp"

#include <bit>
#include <unordered_map>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/pickle_ops.hpp"
#include "sheaf/formats/pickle_stack.hpp"

// A pickle is a program for a machine with a stack and a memo. Containers are
// shared by reference, as in Python, since some are filled after they were
// stored in the memo.
namespace sheaf::formats {
namespace {

using namespace pickle_ops;
using Kind = PickleValue::Kind;

class Machine : private PickleStack {
 public:
  explicit Machine(ByteReader& reader) : PickleStack(reader) {}

  PickleValue run() {
    for (;;) {
      op_offset_ = reader_.offset();
      const int op = reader_.u8("an instruction");
      if (op == kStop) return pop();
      if (!do_number(op) && !do_text(op) && !do_sequence(op) &&
          !do_dictionary(op) && !do_object(op) && !do_memo(op))
        fail(concat("unknown instruction ", op));
    }
  }

 private:
  bool do_number(int op) {
    constexpr std::string_view kWhat = "a number";
    switch (op) {
      case kNone:
        push({});
        break;
      case kNewTrue:
        push({.kind = Kind::kBool, .integer = 1});
        break;
      case kNewFalse:
        push({.kind = Kind::kBool});
        break;
      case kBinInt:
        push_integer(static_cast<std::int32_t>(reader_.u32(kWhat)));
        break;
      case kBinInt1:
        push_integer(reader_.u8(kWhat));
        break;
      case kBinInt2:
        push_integer(reader_.u16(kWhat));
        break;
      case kLong1:
        push_long(reader_.u8(kWhat));
        break;
      case kLong4:
        push_long(reader_.u32(kWhat));
        break;
      case kBinFloat:
        push_real();
        break;
      default:
        return false;
    }
    return true;
  }

  bool do_text(int op) {
    constexpr std::string_view kWhat = "the length of a string";
    switch (op) {
      case kBinUnicode:
      case kBinString:
      case kBinBytes:
        push_text(reader_.u32(kWhat));
        break;
      case kShortBinUnicode:
      case kShortBinString:
      case kShortBinBytes:
        push_text(reader_.u8(kWhat));
        break;
      case kBinUnicode8:
      case kBinBytes8:
        push_text(reader_.u64(kWhat));
        break;
      default:
        return false;
    }
    return true;
  }

  bool do_sequence(int op) {
    switch (op) {
      case kMarkOp:
        push({.kind = Kind::kMark});
        break;
      case kEmptyTuple:
      case kEmptyList:
      case kEmptySet:
        push_items(Kind::kList, {});
        break;
      case kTuple:
      case kListOp:
      case kFrozenSet:
        push_items(Kind::kList, pop_to_mark());
        break;
      case kTuple1:
        push_items(Kind::kList, pop_last(1));
        break;
      case kTuple2:
        push_items(Kind::kList, pop_last(2));
        break;
      case kTuple3:
        push_items(Kind::kList, pop_last(3));
        break;
      case kAppend:
        add(Kind::kList, pop_last(1));
        break;
      case kAppends:
      case kAddItems:
        add(Kind::kList, pop_to_mark());
        break;
      default:
        return false;
    }
    return true;
  }

  bool do_dictionary(int op) {
    switch (op) {
      case kEmptyDict:
        push_items(Kind::kDictionary, {});
        break;
      case kDict:
        push_items(Kind::kDictionary, pop_to_mark());
        break;
      case kSetItem:
        add(Kind::kDictionary, pop_last(2));
        break;
      case kSetItems:
        add(Kind::kDictionary, pop_to_mark());
        break;
      default:
        return false;
    }
    return true;
  }

  bool do_object(int op) {
    switch (op) {
      case kGlobalOp:
        push_global();
        break;
      case kStackGlobal: {
        const auto names = pop_last(2);
        push({.kind = Kind::kGlobal,
              .text = names[0].text + "." + names[1].text});
        break;
      }
      case kReduce:
      case kNewObj:
        push_call(pop_last(2));
        break;
      case kNewObjEx:
        push_call(pop_last(3));
        break;
      case kBuild:
        pop();
        break;  // an object's state is ignored
      case kBinPersId:
        push_items(Kind::kPersistent, pop_last(1));
        break;
      default:
        return false;
    }
    return true;
  }

  bool do_memo(int op) {
    constexpr std::string_view kWhat = "a memo index";
    switch (op) {
      case kProto:
        check_protocol();
        break;
      case kFrame:
        reader_.u64("the length of a frame");
        break;
      case kPop:
        pop();
        break;
      case kPopMark:
        pop_to_mark();
        break;
      case kDup:
        push(top());
        break;
      case kBinPut:
        memo_[reader_.u8(kWhat)] = top();
        break;
      case kLongBinPut:
        memo_[reader_.u32(kWhat)] = top();
        break;
      case kMemoize: {
        const auto place = static_cast<std::uint32_t>(memo_.size());
        memo_[place] = top();
        break;
      }
      case kBinGet:
        push_memo(reader_.u8(kWhat));
        break;
      case kLongBinGet:
        push_memo(reader_.u32(kWhat));
        break;
      default:
        return false;
    }
    return true;
  }

  void check_protocol() {
    const int protocol = reader_.u8("the protocol");
    if (protocol < 2 || protocol > 5)
      fail(concat("pickle protocol ", protocol, "; 2 to 5 are supported"));
  }

  void push_integer(std::int64_t value) {
    push({.kind = Kind::kInteger, .integer = value});
  }

  // A little-endian two's complement number of minimal length.
  void push_long(std::size_t length) {
    if (length > 8) fail(concat("an integer of ", length, " bytes"));
    const std::string_view bytes = reader_.take(length, "an integer");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const bool is_negative = !bytes.empty() && (bytes.back() & 0x80);
      const unsigned char fill = is_negative ? 0xff : 0;
      const unsigned char byte = i < length ? bytes[i] : fill;
      value |= static_cast<std::uint64_t>(byte) << (8 * i);
    }
    push_integer(static_cast<std::int64_t>(value));
  }

  void push_real() {
    std::uint64_t bits = 0;
    for (const unsigned char byte : reader_.take(8, "a number"))
      bits = bits << 8 | byte;
    push({.kind = Kind::kReal, .real = std::bit_cast<double>(bits)});
  }

  void push_text(std::size_t length) {
    std::string text(reader_.take(length, "a string"));
    push({.kind = Kind::kText, .text = std::move(text)});
  }

  void push_global() {
    std::string name(reader_.until('\n', "the name of a module"));
    name += '.';
    name += reader_.until('\n', "the name of a class");
    push({.kind = Kind::kGlobal, .text = std::move(name)});
  }

  // `parts`: the callee and a tuple of arguments.
  void push_call(std::vector<PickleValue> parts) {
    if (parts[0].kind != Kind::kGlobal || parts[1].kind != Kind::kList)
      fail("a call without a callee or without arguments");
    const bool is_dictionary = parts[0].text == "collections.OrderedDict" ||
                               parts[0].text == "collections.defaultdict";
    if (is_dictionary) return push_items(Kind::kDictionary, {});
    push({.kind = Kind::kCall, .text = parts[0].text, .items = parts[1].items});
  }

  void push_memo(std::uint32_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail("an empty memo entry is used");
    push(found->second);
  }

  std::unordered_map<std::uint32_t, PickleValue> memo_;
};

}  // namespace

std::string describe(const PickleValue& value) {
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.integer ? "True" : "False";
    case Kind::kInteger:
      return concat("the integer ", value.integer);
    case Kind::kReal:
      return concat("the number ", value.real);
    case Kind::kText:
      return concat("the string '", value.text, "'");
    case Kind::kGlobal:
      return concat("the name ", value.text);
    case Kind::kList:
      return "a list or tuple";
    case Kind::kDictionary:
      return "a dictionary";
    case Kind::kCall:
      return concat("an object of ", value.text);
    default:
      return "a storage";
  }
}

PickleValue read_pickle(ByteReader& reader) { return Machine(reader).run(); }

}  // namespace sheaf::formats
