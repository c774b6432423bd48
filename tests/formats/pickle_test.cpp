#include "sheaf/formats/pickle.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect_error.hpp"

namespace sheaf::formats {
namespace {

using namespace std::string_literals;
using Kind = PickleValue::Kind;

// The result of a program of protocol 2, without its first and last
// instruction.
PickleValue unpickled(const std::string& program) {
  const std::string bytes = "\x80\2" + program + ".";
  ByteReader reader("a.pkl", bytes);
  const PickleValue value = read_pickle(reader);
  EXPECT_EQ(reader.left(), 0u);
  return value;
}

std::int64_t integer_in(const std::string& program) {
  const PickleValue value = unpickled(program);
  EXPECT_EQ(value.kind, Kind::kInteger);
  return value.integer;
}

std::string text_in(const std::string& program) {
  const PickleValue value = unpickled(program);
  EXPECT_EQ(value.kind, Kind::kText);
  return value.text;
}

// "[1 [2 3]]" for a list or a dictionary, "callee(1 2)" for a call.
std::string shape_of(const PickleValue& value) {
  if (value.kind == Kind::kInteger) return std::to_string(value.integer);
  std::string text;
  for (const PickleValue& item : value.items->values)
    text += (text.empty() ? "" : " ") + shape_of(item);
  if (value.kind == Kind::kList) return "[" + text + "]";
  if (value.kind == Kind::kDictionary) return "{" + text + "}";
  return value.text + "(" + text + ")";
}

std::string shape_in(const std::string& program) {
  return shape_of(unpickled(program));
}

std::string pickle_error(const std::string& bytes) {
  ByteReader reader("a.pkl", bytes);
  return error_of<IoError>([&] { read_pickle(reader); });
}

void expect_fault(const std::string& program, std::size_t offset,
                  const std::string& fault) {
  EXPECT_EQ(pickle_error("\x80\2" + program + "."),
            concat("a.pkl: byte ", offset, ": in the pickle: ", fault,
                   "; the file is corrupt, or not written by torch.save"));
}

TEST(Pickle, Constants) {
  EXPECT_EQ(unpickled("N").kind, Kind::kNone);
  for (const bool is_true : {false, true}) {
    const PickleValue value = unpickled(is_true ? "\x88" : "\x89");
    EXPECT_EQ(value.kind, Kind::kBool);
    EXPECT_EQ(value.integer, is_true);
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
  const PickleValue value = unpickled("G\xc0\x04\0\0\0\0\0\0"s);
  EXPECT_EQ(value.kind, Kind::kReal);
  EXPECT_EQ(value.real, -2.5);
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
  const PickleValue name = unpickled("cos\nsystem\n");
  EXPECT_EQ(name.kind, Kind::kGlobal);
  EXPECT_EQ(name.text, "os.system");
  EXPECT_EQ(unpickled("U\1aU\1b\x93").text, "a.b");
  EXPECT_EQ(shape_in("ca\nB\n(K\1K\2tR"), "a.B(1 2)");
  EXPECT_EQ(shape_in("ca\nB\nK\1\x85\x81"), "a.B(1)");
  EXPECT_EQ(shape_in("ca\nB\nK\1\x85}\x92"), "a.B(1)");
  EXPECT_EQ(unpickled("ca\nB\n)R").kind, Kind::kCall);
  const PickleValue external = unpickled("K\7Q");
  EXPECT_EQ(external.kind, Kind::kPersistent);
  EXPECT_EQ(external.items->values.at(0).integer, 7);
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

TEST(Pickle, NestingHasALimit) {
  const std::string deepest = ")" + std::string(999, '\x85');
  EXPECT_EQ(unpickled(deepest).items->depth, 1000);
  expect_fault(deepest + "\x85", 1002, "values nested too deeply");
  expect_fault("K\1" + deepest + "\x86", 1004, "values nested too deeply");
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
    return describe(unpickled(program));
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
