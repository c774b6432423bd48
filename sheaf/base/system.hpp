#pragma once
// The machine that this process runs on, and the settings of its C library and
// its OpenBLAS that training needs to run fast.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace sheaf {

std::string host_name();  // from gethostname; "localhost" if that fails

// An identifier that differs between machines, even machines with the same
// name, and changes at each boot. Empty if the kernel does not provide one.
std::string boot_id();

// An identifier of the namespace in which process ids are valid: containers
// usually have one of their own. Empty if the kernel does not provide one.
std::string process_namespace();

// The memory that this process can still allocate, in bytes: that of the
// machine, or less in a control group with a limit, as in most containers;
// nullopt if the system does not report it.
std::optional<std::uint64_t> available_memory();

// The same, with /proc and /sys/fs/cgroup in another folder: for tests.
std::optional<std::uint64_t> available_memory(
    const std::filesystem::path& root);

// The C library returns large freed blocks to the system; a training step that
// needs them again then takes a page fault for every page. Makes this process
// keep freed memory for reuse from now on. Has no effect if the user set
// MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ or GLIBC_TUNABLES, or uses
// another allocator.
void keep_freed_memory();

// OpenBLAS selects its kernels from a list of known processors. A processor
// newer than the list gets kernels of 2004, which are several times slower.

// Value of OPENBLAS_CORETYPE that selects suitable kernels for this processor.
// Empty where OpenBLAS needs no help: non-Intel or old processors.
std::string openblas_core();

// Sets OPENBLAS_CORETYPE for child processes, unless it is already set.
void choose_openblas_kernels();

// A warning for the user if the OpenBLAS of this process uses kernels that are
// far slower than the processor allows; empty otherwise.
std::string slow_openblas();

}  // namespace sheaf
