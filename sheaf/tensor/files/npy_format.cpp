#include "sheaf/tensor/files/npy_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::tensor {
namespace {

constexpr std::string_view kMagic{"\x93NUMPY", 6};
constexpr std::size_t kHeaderAlignment = 64;
constexpr std::size_t kMostAxes = 64;  // numpy's and libtorch's
constexpr char kNativeOrder =
    std::endian::native == std::endian::little ? '<' : '>';

// Indexed by DType. numpy writes the bfloat16 of ml_dtypes as "V2".
constexpr std::array<std::string_view, kDTypeCount> kCodes{
    "f8", "f4", "f2", "V2", "i8", "i4", "i2", "i1", "u1", "b1"};

// Reads the text of a dictionary: strings, True, False and tuples of integers.
class DictionaryReader {
 public:
  DictionaryReader(formats::ByteReader& reader, std::string_view text)
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
      fail(concat("unknown key '", key, "'"));
    }
  }

  void read_type() {
    if (at_ < text_.size() && text_[at_] == '[')
      fail("the array has several fields; save each as a separate array");
    const std::string_view descr = string();
    const std::string_view code = descr.empty() ? descr : descr.substr(1);
    for (std::size_t i = 0; i < kCodes.size(); ++i) {
      if (code != kCodes[i]) continue;
      if (std::string_view("<>|=").find(descr[0]) == std::string_view::npos)
        break;
      header_.dtype = static_cast<DType>(i);
      header_.is_swapped = (descr[0] == '<' || descr[0] == '>') &&
                           descr[0] != kNativeOrder &&
                           size_of(header_.dtype) > 1;
      return;
    }
    fail(concat("unsupported element type '", descr,
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

  formats::ByteReader& reader_;
  std::string_view text_;
  std::size_t begin_;
  std::size_t at_ = 0;
  int found_ = 0;
  NpyHeader header_;
};

void check_size(const formats::ByteReader& reader, const NpyHeader& header) {
  if (header.shape.size() > kMostAxes)
    reader.fail(concat("in the header: ", header.shape.size(),
                       " axes; an array has at most ", kMostAxes));
  auto bytes = static_cast<std::int64_t>(size_of(header.dtype));
  for (const std::int64_t length : header.shape)
    if (length > 0 && __builtin_mul_overflow(bytes, length, &bytes))
      reader.fail("in the header: the array is larger than any memory");
}

// An array in Fortran order is its transpose in C order.
at::Tensor shaped(const at::Tensor& flat, const NpyHeader& header) {
  if (!header.is_fortran_order) return flat.view(header.shape);
  const std::vector<std::int64_t> reversed(header.shape.rbegin(),
                                           header.shape.rend());
  std::vector<std::int64_t> axes(reversed.size());
  std::iota(axes.rbegin(), axes.rend(), 0);
  return flat.view(reversed).permute(axes).contiguous();
}

}  // namespace

std::int64_t NpyHeader::count() const {
  std::int64_t count = 1;
  for (const std::int64_t length : shape) count *= length;
  return count;
}

NpyHeader take_npy_header(formats::ByteReader& reader) {
  if (reader.take(kMagic.size(), "the magic of a .npy file") != kMagic)
    reader.fail(0, "not a .npy file: it does not begin with \\x93NUMPY");
  const int version = reader.u8("the version");
  reader.u8("the version");
  if (version < 1 || version > 3)
    reader.fail(kMagic.size(),
                concat("format version ", version, "; 1 to 3 are supported"));
  const std::size_t length = version == 1 ? reader.u16("the header's length")
                                          : reader.u32("the header's length");
  const std::string_view text = reader.take(length, "the header");
  const NpyHeader header = DictionaryReader(reader, text).read();
  check_size(reader, header);
  return header;
}

std::string make_npy_header(DType dtype,
                            const std::vector<std::int64_t>& shape) {
  const char order = size_of(dtype) == 1 ? '|' : kNativeOrder;
  std::string text =
      concat("{'descr': '", order, kCodes[static_cast<std::size_t>(dtype)],
             "', 'fortran_order': False, 'shape': (");
  for (const std::int64_t length : shape) text += std::to_string(length) + ", ";
  if (shape.size() > 1) text.resize(text.size() - 2);
  text += "), }";
  const std::size_t used = kMagic.size() + 4 + text.size() + 1;
  text.append((kHeaderAlignment - used % kHeaderAlignment) % kHeaderAlignment,
              ' ');
  text += '\n';
  // Version 1 has room for 65535 bytes, more than any tensor's shape needs.
  std::string header(kMagic);
  header += '\1';
  header += '\0';
  formats::put_u16(header, static_cast<std::uint16_t>(text.size()));
  return header + text;
}

at::Tensor parse_npy(formats::ByteReader& reader) {
  const NpyHeader header = take_npy_header(reader);
  // Checked before memory is allocated: the header may claim any size.
  const std::string_view elements = reader.take(
      static_cast<std::size_t>(header.count()) * size_of(header.dtype),
      "the array");
  if (reader.left() > 0)
    reader.fail(concat(reader.left(), " bytes follow the array"));
  // numpy treats all nonzero bytes as true; a C++ bool must be 0 or 1.
  const bool is_bool = header.dtype == DType::kBool;
  const at::Tensor flat = at::empty(
      {header.count()}, is_bool ? at::kByte : scalar_type_of(header.dtype));
  if (!elements.empty())
    std::memcpy(flat.data_ptr(), elements.data(), elements.size());
  if (header.is_swapped) swap_bytes(flat);
  return shaped(is_bool ? flat.to(at::kBool) : flat, header);
}

std::string npy_header(const at::Tensor& tensor) {
  return make_npy_header(dtype_of(tensor.scalar_type()), tensor.sizes().vec());
}

at::Tensor plain(const at::Tensor& tensor) {
  SHEAF_CHECK(tensor.defined() && tensor.layout() == at::kStrided,
              "only dense tensors can be saved; this one is ",
              tensor.defined() ? "sparse: pass tensor.to_dense()"
                               : "undefined: assign one first");
  return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous();
}

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.data_ptr()), tensor.nbytes()};
}

void swap_bytes(const at::Tensor& tensor) {
  auto* bytes = static_cast<char*>(tensor.data_ptr());
  const std::size_t size = tensor.element_size();
  for (std::size_t i = 0; i < tensor.nbytes(); i += size)
    std::reverse(bytes + i, bytes + i + size);
}

}  // namespace sheaf::tensor
