#include "sheaf/comm/transport/code_ranges.hpp"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace sheaf::comm {
namespace {

struct CodeRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool contains(std::uintptr_t at) const { return at >= begin && at < end; }
};

// Plain arrays, because a signal handler reads them.
std::array<CodeRange, 4> allocator_code;  // other than the C library's
std::array<CodeRange, 4> locking_code;
std::array<CodeRange, 12> waiting_code;

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// The loaded object that contains an address.
struct ObjectSearch {
  std::uintptr_t address;
  CodeRange found;
};

int look_at_object(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<ObjectSearch*>(data);
  CodeRange all{~std::uintptr_t{0}, 0};
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    all.begin = std::min<std::uintptr_t>(all.begin, begin);
    all.end = std::max<std::uintptr_t>(all.end, begin + part.p_memsz);
  }
  if (!all.contains(search.address)) return 0;
  search.found = all;
  return 1;
}

// Empty if there is none.
CodeRange object_of(std::uintptr_t address) {
  ObjectSearch search{address, {}};
  dl_iterate_phdr(look_at_object, &search);
  return search.found;
}

CodeRange function_at(const void* function) {
  Dl_info info{};
  const ElfW(Sym)* symbol = nullptr;
  if (!dladdr1(function, &info,
               reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
               RTLD_DL_SYMENT) ||
      !symbol)
    return {};
  const std::uintptr_t begin = address_of(info.dli_saddr);
  return {begin, begin + symbol->st_size};
}

// Whether the signal ended a system call that waited. In the C library its
// caller does not hold a lock of the allocator, which waits only for its first.
bool has_ended_a_wait(std::uintptr_t at, std::uintptr_t result) {
  if (static_cast<std::intptr_t>(result) != -EINTR) return false;
#if defined(__x86_64__)
  constexpr unsigned char kCall[] = {0x0f, 0x05};  // syscall
#elif defined(__aarch64__)
  constexpr unsigned char kCall[] = {0x01, 0x00, 0x00, 0xd4};  // svc #0
#else
  constexpr unsigned char kCall[] = {0};
#endif
  return std::memcmp(reinterpret_cast<const void*>(at - sizeof kCall), kCall,
                     sizeof kCall) == 0;
}

}  // namespace

void find_code_ranges() {
  const CodeRange libc =
      object_of(address_of(dlsym(RTLD_DEFAULT, "gnu_get_libc_version")));
  std::size_t count = 0;
  for (const char* name : {"malloc", "free", "calloc"}) {
    const std::uintptr_t at = address_of(dlsym(RTLD_DEFAULT, name));
    if (at && !libc.contains(at)) allocator_code[count++] = object_of(at);
  }
  locking_code = {
      libc, object_of(static_cast<std::uintptr_t>(getauxval(AT_BASE))),
      // The kernel's clocks, which allocators read while they hold a lock.
      object_of(static_cast<std::uintptr_t>(getauxval(AT_SYSINFO_EHDR)))};
  const char* const waits[] = {"poll",        "ppoll",       "epoll_wait",
                               "epoll_pwait", "select",      "pselect",
                               "pause",       "sched_yield", "usleep",
                               "nanosleep",   "sleep",       "clock_nanosleep"};
  count = 0;
  for (const char* name : waits)
    if (const void* function = dlsym(RTLD_DEFAULT, name))
      waiting_code[count++] = function_at(function);
}

bool may_leave(const ucontext_t& context) noexcept {
#if defined(__x86_64__)
  const auto at =
      static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
  const auto result =
      static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RAX]);
#elif defined(__aarch64__)
  const auto at = static_cast<std::uintptr_t>(context.uc_mcontext.pc);
  const auto result = static_cast<std::uintptr_t>(context.uc_mcontext.regs[0]);
#else
  return true;  // unknown registers: a lock may stay held
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  const auto contains = [at](const CodeRange& range) {
    return range.contains(at);
  };
  const auto is_in = [&](const auto& ranges) {
    for (const CodeRange& range : ranges)
      if (contains(range)) return true;
    return false;
  };
  if (is_in(allocator_code)) return false;
  return !is_in(locking_code) || is_in(waiting_code) ||
         has_ended_a_wait(at, result);
#endif
}

}  // namespace sheaf::comm
