#include "sheaf/formats/archives/pickle.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect_error.hpp"

namespace sheaf::formats {
namespace {

using namespace std::string_literals;
using Kind = PickleValue::Kind;

// The result of a program of protocol 2, without its first and last
// instruction.
class Unpickled {
 public:
  explicit Unpickled(const std::string& program)
      : bytes_("\x80\2" + program + "."),
        reader_("a.pkl", bytes_),
        pickle_(read_pickle(reader_, max_pickle_memory(bytes_.size()))) {
    EXPECT_EQ(reader_.left(), 0u);
  }
  Unpickled(const Unpickled&) = delete;
  Unpickled& operator=(const Unpickled&) = delete;

  const PickleValue& operator*() const { return pickle_.root(); }
  const PickleValue* operator->() const { return &pickle_.root(); }

 private:
  std::string bytes_;
  ByteReader reader_;
  Pickle pickle_;
};

std::int64_t integer_in(const std::string& program) {
  const Unpickled value(program);
  EXPECT_EQ(value->kind(), Kind::kInteger);
  return value->integer();
}

std::string text_in(const std::string& program) {
  const Unpickled value(program);
  EXPECT_EQ(value->kind(), Kind::kText);
  return std::string(value->text());
}

// "[1 [2 3]]" for a list or a dictionary, "callee(1 2)" for a call.
std::string shape_of(const PickleValue& value) {
  if (value.is(Kind::kInteger)) return std::to_string(value.integer());
  std::string text;
  for (const PickleValue& item : value.items())
    text += (text.empty() ? "" : " ") + shape_of(item);
  if (value.is(Kind::kList)) return "[" + text + "]";
  if (value.is(Kind::kDictionary)) return "{" + text + "}";
  return concat(value.text(), "(", text, ")");
}

std::string shape_in(const std::string& program) {
  return shape_of(*Unpickled(program));
}

std::string pickle_error(const std::string& bytes) {
  ByteReader reader("a.pkl", bytes);
  return error_of<IoError>(
      [&] { read_pickle(reader, max_pickle_memory(bytes.size())); });
}

void expect_fault(const std::string& program, std::size_t offset,
                  const std::string& fault) {
  EXPECT_EQ(pickle_error("\x80\2" + program + "."),
            concat("a.pkl: byte ", offset, ": in the pickle: ", fault,
                   "; the file is corrupt, or not written by torch.save"));
}

TEST(Pickle, Constants) {
  EXPECT_EQ(Unpickled("N")->kind(), Kind::kNone);
  for (const bool is_true : {false, true}) {
    const Unpickled value(is_true ? "\x88" : "\x89");
    EXPECT_EQ(value->kind(), Kind::kBool);
    EXPECT_EQ(value->integer(), is_true);
  }
}

TEST(Pickle, Integers) {
  EXPECT_EQ(integer_in("K\xff"), 255);
  EXPECT_EQ(integer_in("M\xfe\xff"), 65534);
  EXPECT_EQ(integer_in("J\xfe\xff\xff\xff"), -2);
  EXPECT_EQ(integer_in("J\1\0\0\x7f"s), 0x7f000001);
  EXPECT_EQ(integer_in("\x8a\0"s), 0);
  EXPECT_EQ(integer_in("\x8a\1\xff"), -1);
  EXPECT_EQ(integer_in("\x8a\2\xff\0"s), 255);
  EXPECT_EQ(integer_in("\x8a\x08\0\0\0\0\0\0\0\x80"s),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(integer_in("\x8b\2\0\0\0\1\x80"s), -32767);
}

TEST(Pickle, RealNumbersAreBigEndian) {
  const Unpickled value("G\xc0\x04\0\0\0\0\0\0"s);
  EXPECT_EQ(value->kind(), Kind::kReal);
  EXPECT_EQ(value->real(), -2.5);
}

TEST(Pickle, Strings) {
  for (const char* op : {"X", "T", "B"})
    EXPECT_EQ(text_in(op + "\2\0\0\0ab"s), "ab");
  for (const char* op : {"\x8c", "U", "C"}) {
    EXPECT_EQ(text_in(op + "\2ab"s), "ab");
    EXPECT_EQ(text_in(op + "\0"s), "");
  }
  for (const char* op : {"\x8d", "\x8e"})
    EXPECT_EQ(text_in(op + "\3\0\0\0\0\0\0\0a\0b"s), "a\0b"s);
}

TEST(Pickle, Sequences) {
  for (const char* empty : {")", "]", "\x8f", "(t"})
    EXPECT_EQ(shape_in(empty), "[]");
  for (const char* op : {"t", "l", "\x91"})
    EXPECT_EQ(shape_in("(K\1K\2K\3K\4"s + op), "[1 2 3 4]");
  EXPECT_EQ(shape_in("K\1\x85"), "[1]");
  EXPECT_EQ(shape_in("K\1K\2\x86"), "[1 2]");
  EXPECT_EQ(shape_in("K\1K\2K\3\x87"), "[1 2 3]");
  EXPECT_EQ(shape_in("]K\1aK\2a"), "[1 2]");
  EXPECT_EQ(shape_in("](K\1(K\2te"), "[1 [2]]");
  EXPECT_EQ(shape_in("\x8f(K\1K\2\x90"), "[1 2]");
}

TEST(Pickle, Dictionaries) {
  EXPECT_EQ(shape_in("}"), "{}");
  EXPECT_EQ(shape_in("(K\1K\2d"), "{1 2}");
  EXPECT_EQ(shape_in("}K\1K\2s(K\3]K\4}u"), "{1 2 3 [] 4 {}}");
}

TEST(Pickle, TheMemoSharesContainers) {
  // The list enters a tuple before it gets its element.
  EXPECT_EQ(shape_in("]q\005h\005\x86q\0060h\005K\7a0h\006"), "[[7] [7]]");
  EXPECT_EQ(shape_in("K\7r\5\1\0\0000j\5\1\0\0\x85"s), "[7]");
  // Memoize uses the next index.
  EXPECT_EQ(shape_in("K\7\x94"s + "0K\010\x94"s + "0h\1h\0\x86"s), "[8 7]");
}

TEST(Pickle, TheStackCanBeRearranged) {
  EXPECT_EQ(shape_in("K\0072\x86"), "[7 7]");
  EXPECT_EQ(integer_in("K\7K\0100"), 7);
  EXPECT_EQ(integer_in("K\7(K\1K\0021"), 7);
}

TEST(Pickle, CallsAreStoredNotMade) {
  const Unpickled name("cos\nsystem\n");
  EXPECT_EQ(name->kind(), Kind::kGlobal);
  EXPECT_EQ(name->text(), "os.system");
  EXPECT_EQ(Unpickled("U\1aU\1b\x93")->text(), "a.b");
  EXPECT_EQ(shape_in("ca\nB\n(K\1K\2tR"), "a.B(1 2)");
  EXPECT_EQ(shape_in("ca\nB\nK\1\x85\x81"), "a.B(1)");
  EXPECT_EQ(shape_in("ca\nB\nK\1\x85}\x92"), "a.B(1)");
  EXPECT_EQ(Unpickled("ca\nB\n)R")->kind(), Kind::kCall);
  const Unpickled external("K\7Q");
  EXPECT_EQ(external->kind(), Kind::kPersistent);
  ASSERT_EQ(external->items().size(), 1u);
  EXPECT_EQ(external->items()[0].integer(), 7);
}

// The items of classes that derive from list or dict are skipped, too.
TEST(Pickle, TheStateOfObjectsIsIgnored) {
  EXPECT_EQ(shape_in("ca\nB\n)R}b"), "a.B()");
  EXPECT_EQ(shape_in("ca\nB\n)RK\1a(K\2K\3u"), "a.B()");
}

TEST(Pickle, DictionariesOfTheStandardLibrary) {
  for (const std::string name : {"OrderedDict", "defaultdict"})
    EXPECT_EQ(shape_in("ccollections\n" + name + "\n)RK\1K\2s"), "{1 2}");
}

TEST(Pickle, ProtocolsTwoToFive) {
  for (const char protocol : {2, 3, 4, 5}) {
    // Protocol 4 has frames.
    const std::string bytes = "\x80"s + protocol + "\x95\2\0\0\0\0\0\0\0N."s;
    EXPECT_EQ(pickle_error(bytes), "");
  }
  EXPECT_EQ(pickle_error("\x80\1N."),
            "a.pkl: byte 0: in the pickle: pickle protocol 1; 2 to 5 are "
            "supported; the file is corrupt, or not written by torch.save");
  EXPECT_NE(pickle_error("\x80\6N.").find("pickle protocol 6;"),
            std::string::npos);
}

TEST(Pickle, FaultsHaveTheirPlace) {
  expect_fault("NZ", 3, "unknown instruction 90");
  expect_fault("", 2, "a value is missing");
  expect_fault("(", 3, "a value is missing");
  expect_fault("K\1\x86", 4, "a value is missing");
  expect_fault("K\1t", 4, "a mark is missing");
  expect_fault("K\1K\2a", 6, "items for a value that is not a container");
  expect_fault("]K\1K\2s", 7, "items for a value that is not a container");
  expect_fault("}K\1a", 5, "items for a value that is not a container");
  expect_fault("(K\1d", 5, "a key without a value");
  expect_fault("h\3", 2, "an empty memo entry is used");
  expect_fault("K\1)R", 5, "a call without a callee or without arguments");
  expect_fault("ca\nb\nK\1R", 9,
               "a call without a callee or without arguments");
  expect_fault("\x8a\x09" + std::string(9, '\0'), 2, "an integer of 9 bytes");
}

// The value in `depth` lists of one element.
const PickleValue& inner(const PickleValue& value, int depth) {
  const PickleValue* at = &value;
  for (int i = 0; i < depth; ++i) at = &at->items()[0];
  return *at;
}

TEST(Pickle, AnyDepthIsRead) {
  constexpr int kDepth = 1'000'000;
  const Unpickled inside_out("K\7" + std::string(kDepth, '\x85'));
  EXPECT_EQ(inner(*inside_out, kDepth).integer(), 7);
  // Each list is stored in the memo, appended to the last one and dropped.
  std::string program = "]q\1]q\1ah\1";
  for (int i = 2; i < kDepth; ++i) program += "]q\1a0h\1";
  const Unpickled outside_in("]q\2" + program + "0h\2\x85");
  EXPECT_TRUE(outside_in->is(Kind::kList));
}

TEST(Pickle, AListMayContainItself) {
  const Unpickled list("]q\1h\1a");
  ASSERT_EQ(list->items().size(), 1u);
  EXPECT_EQ(list->items().data(), list->items()[0].items().data());
  const Unpickled dictionary("}q\1K\7h\1s");
  EXPECT_EQ(dictionary->items().data(), dictionary->items()[1].items().data());
}

TEST(Pickle, NamesAreOfStrings) {
  expect_fault("U\1aN\x93", 6, "a name that is not a string");
  expect_fault("NU\1a\x93", 6, "a name that is not a string");
  // Twice as long each time.
  expect_fault("U\1a2\x93" + std::string("2\x93"), 8,
               "a name that is not a string");
}

TEST(Pickle, TheMemoHasNoGaps) {
  EXPECT_EQ(shape_in("K\7r\xff\x0f\0\0000j\xff\x0f\0\0\x85"s), "[7]");
  expect_fault("K\7r\0\x10\0\0"s, 4, "a memo index of 4096");
  expect_fault("h\1", 2, "an empty memo entry is used");
  expect_fault("K\7q\0h\1"s, 6, "an empty memo entry is used");
  expect_fault("K\7q\1h\0"s, 6, "an empty memo entry is used");
  // Memoize counts the entries that are used.
  EXPECT_EQ(shape_in("K\7q\2K\010\x94"s + "00h\1h\2\x86"s), "[8 7]");
}

TEST(Pickle, MemoryIsLimited) {
  const auto error = [](const std::string& program, std::uint64_t max_bytes) {
    const std::string bytes = "\x80\2" + program + ".";
    ByteReader reader("a.pkl", bytes);
    return error_of<IoError>([&] { read_pickle(reader, max_bytes); });
  };
  const std::string fault = "its values need more than 5000 bytes of memory";
  const auto is_limited = [&](const std::string& program) {
    return error(program, 5000).find(fault) != std::string::npos;
  };
  EXPECT_FALSE(is_limited(std::string(300, 'N')));
  EXPECT_TRUE(is_limited(std::string(320, 'N')));
  EXPECT_TRUE(is_limited("]q\1" + std::string(1000, '(')));
  EXPECT_TRUE(is_limited("N" + std::string(200, '\x85')));
  EXPECT_TRUE(is_limited("](" + std::string(200, 'N') + "e"));
  EXPECT_TRUE(is_limited("Nr\xe0\x0f\0\0"s));
  const std::string name(3000, 'a');
  EXPECT_FALSE(is_limited("c" + name + "\nB\n"));
  EXPECT_TRUE(is_limited("c" + name + "\nB\nc" + name + "\nB\n"));
  // Values of the stack are counted once.
  std::string pairs;
  for (int i = 0; i < 1000; ++i) pairs += "NN00";
  EXPECT_FALSE(is_limited(pairs + "N"));
}

TEST(Pickle, UnorderedArgumentsAreRefused) {
  expect_fault("ccollections\nOrderedDict\n]\x85R", 29,
               "an OrderedDict with arguments");
  EXPECT_EQ(shape_in("ccollections\ndefaultdict\nca\nB\n\x85R"), "{}");
}

TEST(Pickle, ValuesOfOtherKindsAreEmpty) {
  const Unpickled text("U\2hi");
  EXPECT_EQ(text->integer(), 0);
  EXPECT_EQ(text->real(), 0);
  EXPECT_TRUE(text->items().empty());
  const Unpickled number("K\7");
  EXPECT_EQ(number->text(), "");
  EXPECT_TRUE(number->items().empty());
  EXPECT_EQ(Unpickled("]")->text(), "");
}

TEST(Pickle, EveryTruncatedPickleIsRefused) {
  const std::string whole =
      "\x80\2}q\0X\1\0\0\0wca\nB\n(J\1\0\0\0\x8a\2\1\1G\0\0\0\0\0\0\0\0tRs."s;
  EXPECT_EQ(pickle_error(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(pickle_error(whole.substr(0, size)).rfind("a.pkl: byte ", 0), 0u)
        << size;
}

TEST(Pickle, ValuesAreDescribed) {
  const auto described = [](const std::string& program) {
    return describe(*Unpickled(program));
  };
  EXPECT_EQ(described("N"), "None");
  EXPECT_EQ(described("\x88"), "True");
  EXPECT_EQ(described("\x89"), "False");
  EXPECT_EQ(described("K\7"), "the integer 7");
  EXPECT_EQ(described("G\xc0\x04\0\0\0\0\0\0"s), "the number -2.5");
  EXPECT_EQ(described("U\2hi"), "the string 'hi'");
  EXPECT_EQ(described("ca\nB\n"), "the name a.B");
  EXPECT_EQ(described(")"), "a list or tuple");
  EXPECT_EQ(described("}"), "a dictionary");
  EXPECT_EQ(described("ca\nB\n)R"), "an object of a.B");
  EXPECT_EQ(described("K\7Q"), "a storage");
}

}  // namespace
}  // namespace sheaf::formats
