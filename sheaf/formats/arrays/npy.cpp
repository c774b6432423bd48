#include "sheaf/formats/arrays/npy.hpp"

#include <array>
#include <bit>
#include <charconv>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/arrays/elements.hpp"

namespace sheaf::formats {
namespace {

constexpr std::string_view kNpyMagic{"\x93NUMPY", 6};
constexpr std::size_t kNpyAlignment = 64;
constexpr char kNativeOrder =
    std::endian::native == std::endian::little ? '<' : '>';

// Indexed by DType. numpy writes the bfloat16 of ml_dtypes as "V2".
constexpr std::array<std::string_view, kDTypeCount> kNpyCodes{
    "f8", "f4", "f2", "V2", "i8", "i4", "i2", "i1", "u1", "b1"};

// Reads the text of a dictionary: strings, True, False and tuples of integers.
class DictionaryReader {
 public:
  DictionaryReader(ByteReader& reader, std::string_view text)
      : reader_(reader), text_(text), begin_(reader.offset() - text.size()) {}

  NpyHeader read() {
    expect('{');
    while (!next_is('}')) {
      read_entry(string());
      if (!next_is(',')) {
        expect('}');
        break;
      }
    }
    if (found_ != 7) fail("one of descr, fortran_order and shape is missing");
    skip_space();
    if (at_ < text_.size()) fail("text follows the dictionary");
    return header_;
  }

 private:
  void read_entry(std::string_view key) {
    expect(':');
    skip_space();
    if (key == "descr") {
      read_type();
      found_ |= 1;
    } else if (key == "fortran_order") {
      header_.is_fortran_order = boolean();
      found_ |= 2;
    } else if (key == "shape") {
      read_shape();
      found_ |= 4;
    } else {
      fail(concat("unknown key '", shown(key), "'"));
    }
  }

  void read_type() {
    if (at_ < text_.size() && text_[at_] == '[')
      fail("the array has several fields; save each as a separate array");
    const std::string_view descr = string();
    const std::string_view code = descr.empty() ? descr : descr.substr(1);
    for (std::size_t i = 0; i < kNpyCodes.size(); ++i) {
      if (code != kNpyCodes[i]) continue;
      if (std::string_view("<>|=").find(descr[0]) == std::string_view::npos)
        break;
      header_.dtype = static_cast<DType>(i);
      header_.is_swapped = (descr[0] == '<' || descr[0] == '>') &&
                           descr[0] != kNativeOrder &&
                           size_of(header_.dtype) > 1;
      return;
    }
    fail(concat("unsupported element type '", shown(descr),
                "'; convert the array, as in a.astype('float32')"));
  }

  bool boolean() {
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    fail("expected True or False");
  }

  void read_shape() {
    header_.shape.clear();
    expect('(');
    while (!next_is(')')) {
      if (header_.shape.size() == kMaxAxes)
        fail(concat("more than ", kMaxAxes, " axes"));
      header_.shape.push_back(integer());
      if (!next_is(',')) {
        expect(')');
        break;
      }
    }
  }

  std::int64_t integer() {
    skip_space();
    std::int64_t value = 0;
    const char* end = text_.data() + text_.size();
    const auto result = std::from_chars(text_.data() + at_, end, value);
    if (result.ec != std::errc{} || value < 0) fail("expected an axis size");
    at_ = static_cast<std::size_t>(result.ptr - text_.data());
    next_is('L');  // suffix of long integers in Python 2
    return value;
  }

  std::string_view string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string has no end");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n'))
      ++at_;
  }

  bool next_is(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!next_is(wanted)) fail(concat("expected '", wanted, "'"));
  }

  [[noreturn]] void fail(const std::string& message) const {
    reader_.fail(begin_ + at_, "in the header: " + message);
  }

  ByteReader& reader_;
  std::string_view text_;
  std::size_t begin_;
  std::size_t at_ = 0;
  int found_ = 0;
  NpyHeader header_;
};

}  // namespace

std::int64_t NpyHeader::count() const {
  return count_elements(dtype, shape).value();
}

std::int64_t NpyHeader::bytes() const {
  return count() * static_cast<std::int64_t>(size_of(dtype));
}

NpyHeader take_npy_header(ByteReader& reader) {
  if (reader.take(kNpyMagic.size(), "the magic of a .npy file") != kNpyMagic)
    reader.fail(0, "not a .npy file: it does not begin with \\x93NUMPY");
  const int version = reader.u8("the version");
  reader.u8("the version");
  if (version < 1 || version > 3)
    reader.fail(kNpyMagic.size(),
                concat("format version ", version, "; 1 to 3 are supported"));
  const std::size_t length = version == 1 ? reader.u16("the header's length")
                                          : reader.u32("the header's length");
  const std::string_view text = reader.take(length, "the header");
  NpyHeader header = DictionaryReader(reader, text).read();
  if (!count_elements(header.dtype, header.shape))
    reader.fail("in the header: the array is larger than any memory");
  return header;
}

std::string make_npy_header(DType dtype,
                            const std::vector<std::int64_t>& shape) {
  const char order = size_of(dtype) == 1 ? '|' : kNativeOrder;
  std::string text =
      concat("{'descr': '", order, kNpyCodes[static_cast<std::size_t>(dtype)],
             "', 'fortran_order': False, 'shape': (");
  for (const std::int64_t length : shape) text += std::to_string(length) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  text += "), }";
  const std::size_t used = kNpyMagic.size() + 4 + text.size() + 1;
  text.append((kNpyAlignment - used % kNpyAlignment) % kNpyAlignment, ' ');
  text += '\n';
  // Version 1 has room for 65535 bytes, more than any tensor's shape needs.
  std::string header(kNpyMagic);
  header += '\1';
  header += '\0';
  put_u16(header, static_cast<std::uint16_t>(text.size()));
  return header + text;
}

NpyArray read_npy(ByteReader& reader) {
  NpyArray array{take_npy_header(reader), {}};
  array.elements =
      reader.take(static_cast<std::size_t>(array.header.bytes()), "the array");
  if (reader.left() > 0)
    reader.fail(concat(reader.left(), " bytes follow the array"));
  return array;
}

}  // namespace sheaf::formats
