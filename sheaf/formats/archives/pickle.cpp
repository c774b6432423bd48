#include "sheaf/formats/archives/pickle.hpp"

#include <bit>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/archives/pickle_ops.hpp"
#include "sheaf/formats/archives/pickle_stack.hpp"

// A pickle is a program for a machine with a stack and a memo. Containers are
// shared by reference, as in Python, since some are filled after they were
// stored in the memo. No instruction copies a text or a container, so that the
// memory is proportional to the number of instructions.
namespace sheaf::formats {
namespace {

using namespace pickle_ops;
using Kind = PickleValue::Kind;

class Machine : private PickleStack {
 public:
  Machine(ByteReader& reader, std::uint64_t max_bytes)
      : PickleStack(reader, max_bytes) {}

  Pickle run() {
    for (;;) {
      op_offset_ = reader_.offset();
      const int op = reader_.u8("an instruction");
      if (op == kStop) return finish();
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
        push(PickleValue(Kind::kNone));
        break;
      case kNewTrue:
        push(PickleValue(Kind::kBool, 1));
        break;
      case kNewFalse:
        push(PickleValue(Kind::kBool));
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
        push_mark();
        break;
      case kEmptyTuple:
        push(PickleValue(Kind::kList, nullptr));
        break;
      case kEmptyList:
      case kEmptySet:
        gather(Kind::kList, 0);
        break;
      case kTuple:
      case kListOp:
      case kFrozenSet:
        gather_to_mark(Kind::kList);
        break;
      case kTuple1:
        gather(Kind::kList, 1);
        break;
      case kTuple2:
        gather(Kind::kList, 2);
        break;
      case kTuple3:
        gather(Kind::kList, 3);
        break;
      case kAppend:
        append(Kind::kList, 1);
        break;
      case kAppends:
      case kAddItems:
        append_to_mark(Kind::kList);
        break;
      default:
        return false;
    }
    return true;
  }

  bool do_dictionary(int op) {
    switch (op) {
      case kEmptyDict:
        gather(Kind::kDictionary, 0);
        break;
      case kDict:
        gather_to_mark(Kind::kDictionary);
        break;
      case kSetItem:
        append(Kind::kDictionary, 2);
        break;
      case kSetItems:
        append_to_mark(Kind::kDictionary);
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
      case kStackGlobal:
        push_stack_global();
        break;
      case kReduce:
      case kNewObj:
        push_call();
        break;
      case kNewObjEx:
        drop(1);  // the named arguments
        push_call();
        break;
      case kBuild:
        last(2);  // an object and its state, which is ignored
        drop(1);
        break;
      case kBinPersId:
        gather(Kind::kPersistent, 1);
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
        drop(1);
        break;
      case kPopMark:
        drop(pop_mark());
        break;
      case kDup:
        push(top());
        break;
      case kBinPut:
        store(reader_.u8(kWhat), top());
        break;
      case kLongBinPut:
        store(reader_.u32(kWhat), top());
        break;
      case kMemoize:
        store(stored(), top());
        break;
      case kBinGet:
        push_stored(reader_.u8(kWhat));
        break;
      case kLongBinGet:
        push_stored(reader_.u32(kWhat));
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
    push(PickleValue(Kind::kInteger, value));
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
    push(PickleValue(std::bit_cast<double>(bits)));
  }

  void push_text(std::uint64_t length) {
    if (length > 0xffffffff) fail(concat("a string of ", length, " bytes"));
    push(PickleValue(Kind::kText, reader_.take(length, "a string")));
  }

  void push_global() {
    const auto module = reader_.until('\n', "the name of a module");
    push_name(module, reader_.until('\n', "the name of a class"));
  }

  void push_stack_global() {
    const PickleValue module = last(2)[0], name = last(2)[1];
    if (!module.is(Kind::kText) || !name.is(Kind::kText))
      fail("a name that is not a string");
    drop(2);
    push_name(module.text(), name.text());
  }

  // On the stack: the callee and a tuple of arguments.
  void push_call() {
    const PickleValue callee = last(2)[0], arguments = last(2)[1];
    if (!callee.is(Kind::kGlobal) || !arguments.is(Kind::kList))
      fail("a call without a callee or without arguments");
    const bool is_ordered = callee.text() == "collections.OrderedDict";
    if (is_ordered && !arguments.items().empty())
      fail("an OrderedDict with arguments");
    if (!is_ordered && callee.text() != "collections.defaultdict")
      return gather(Kind::kCall, 2);
    drop(2);
    gather(Kind::kDictionary, 0);
  }
};

}  // namespace

std::int64_t PickleValue::integer() const {
  return is(Kind::kBool) || is(Kind::kInteger) ? integer_ : 0;
}

double PickleValue::real() const { return is(Kind::kReal) ? real_ : 0; }

std::string_view PickleValue::text() const {
  if (is(Kind::kCall)) return items_->values[0].text();
  if (!is(Kind::kText) && !is(Kind::kGlobal)) return {};
  return {text_, length_};
}

std::span<const PickleValue> PickleValue::items() const {
  if (!has_items()) return {};
  return is(Kind::kCall) ? items_->values[1].items() : items_->values;
}

std::string describe(const PickleValue& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.integer() ? "True" : "False";
    case Kind::kInteger:
      return concat("the integer ", value.integer());
    case Kind::kReal:
      return concat("the number ", value.real());
    case Kind::kText:
      return concat("the string '", shown(value.text()), "'");
    case Kind::kGlobal:
      return concat("the name ", shown(value.text()));
    case Kind::kList:
      return "a list or tuple";
    case Kind::kDictionary:
      return "a dictionary";
    case Kind::kCall:
      return concat("an object of ", shown(value.text()));
    default:
      return "a storage";
  }
}

Pickle read_pickle(ByteReader& reader, std::uint64_t max_bytes) {
  return Machine(reader, max_bytes).run();
}

}  // namespace sheaf::formats
