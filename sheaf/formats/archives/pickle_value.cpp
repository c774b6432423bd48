#include "sheaf/base/error.hpp"
#include "sheaf/formats/archives/pickle.hpp"

namespace sheaf::formats {
namespace {

using Kind = PickleValue::Kind;

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

}  // namespace sheaf::formats
