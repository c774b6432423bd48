#pragma once
// Where a thread may be interrupted for good by a signal handler that jumps out
// of a call: not in the C library, the dynamic loader or the memory allocator,
// which may hold a lock there.

#include <ucontext.h>

namespace sheaf::comm {

// Finds these libraries. Call it before the handler is installed.
void find_code_ranges();

// Whether a thread that a signal has interrupted in this context may leave the
// functions it is in. Safe in a signal handler. In the C library it may only
// leave the functions that wait: in the kernel, or in a loop of sched_yield().
bool may_leave(const ucontext_t& context) noexcept;

}  // namespace sheaf::comm
