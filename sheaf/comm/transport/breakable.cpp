#include "sheaf/comm/transport/breakable.hpp"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

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

// Finds the C library, the dynamic loader and the memory allocator, which may
// hold a lock. Called before the handler is installed.
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

// Whether a thread that a signal has interrupted in this context may leave the
// functions it is in. Safe in a signal handler. In the C library it may only
// leave the functions that wait: in the kernel, or in a loop of sched_yield().
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

// This signal is ignored by default. Libraries that do not use out-of-band data
// ignore it, too.
constexpr int kSignal = SIGURG;

constexpr int kTries = 50;
constexpr auto kPause = std::chrono::milliseconds(1);

// Jump target of this thread when it is interrupted; null outside of calls.
thread_local sigjmp_buf* way_out = nullptr;

void leave_call(int /*signal*/, siginfo_t* /*info*/, void* context) {
  if (!way_out || !may_leave(*static_cast<const ucontext_t*>(context))) return;
  sigjmp_buf* const target = way_out;
  way_out = nullptr;
  // The jump does not restore the signal mask.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, kSignal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  siglongjmp(*target, 1);
}

// Called only when needed, because the program may use the signal itself.
void install_handler() {
  find_code_ranges();
  struct sigaction action {};
  action.sa_sigaction = leave_call;
  // Blocked in the handler: a second signal would find the thread there, and
  // not in the function that the first one has interrupted.
  action.sa_flags = SA_SIGINFO;
  sigaction(kSignal, &action, nullptr);
}

}  // namespace

bool Breakable::run(void (*fn)(void*), void* context) {
  if (is_broken()) return false;
  const std::uint64_t before = calls_.load(std::memory_order_relaxed);
  caller_.store(pthread_self(), std::memory_order_relaxed);
  if (sigsetjmp(before_, /*savemask=*/0) == 0) {
    way_out = &before_;
    calls_.store(before + 1, std::memory_order_release);
    fn(context);
    way_out = nullptr;
  }
  calls_.store(before + 2, std::memory_order_release);
  return !is_broken();
}

void Breakable::interrupt(std::uint64_t call, const std::string& reason) {
  if (call == 0 || this->call() != call) return;
  if (!is_broken()) {
    reason_ = reason;
    is_broken_.store(true, std::memory_order_release);
    install_handler();
  }
  for (int i = 0; i < kTries && this->call() == call; ++i) {
    pthread_kill(caller_.load(std::memory_order_relaxed), kSignal);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace sheaf::comm
