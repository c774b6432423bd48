#include "sheaf/data/dataset/memory.hpp"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <new>
#include <stdexcept>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

double host_bytes() {
  const auto pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<double>(::sysconf(_SC_PAGE_SIZE));
}

bool is_for_memory(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.find("allocate memory") != text.npos ||
         text.find("not enough memory") != text.npos;
}

}  // namespace

void with_memory(double bytes, const std::function<std::string()>& text,
                 const std::function<void()>& body) {
  // Checked before the allocation, since systems overcommit memory.
  SHEAF_CHECK(bytes <= host_bytes(), text());
  try {
    return body();
  } catch (const std::bad_alloc&) {
  } catch (const c10::Error& error) {
    if (!is_for_memory(error)) throw;
  }
  throw UsageError(text());
}

}  // namespace sheaf::data
