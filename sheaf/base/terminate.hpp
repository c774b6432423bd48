#pragma once
// Reports exceptions that a program does not catch.

namespace sheaf {

// From now on, an exception that no code of this process catches prints the
// line "sheaf: rank RANK: MESSAGE" to standard error, leaves a note for the
// launcher and ends the process with exit_code(), without a core file. Other
// ranks then notice that this rank has died.
//
// A handler that the program installed before with std::set_terminate is kept:
// it is called instead of printing and exiting. The default handler is called
// where there is no exception, such as for a joinable thread that is destroyed.
// Called by init(), first without a rank, so that its own errors are reported,
// too; later calls only set the rank. Thread-safe.
void report_uncaught_exceptions(int rank = -1) noexcept;

}  // namespace sheaf
