#include "sheaf/formats/mapped_file.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"

namespace sheaf::formats {
namespace {

bool is_same_time(const struct timespec& a, const struct timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

std::uint8_t* map_whole(const OpenFile& file) {
  void* place = ::mmap(nullptr, file.size(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_NORESERVE, file.descriptor(), 0);
  if (place == MAP_FAILED)
    throw IoError(
        concat("cannot map ", file.path(), ": ", std::strerror(errno)));
  return static_cast<std::uint8_t*>(place);
}

}  // namespace

MappedFile::MappedFile(OpenFile file)
    : file_(std::move(file)), begin_(map_whole(file_)) {
  watch_.emplace(begin_, size());
}

MappedFile::~MappedFile() {
  const bool has_failed = watch_->has_failed();
  watch_.reset();
  ::munmap(begin_, size());
  if (has_failed && !was_reported_)
    log_error(
        "{} was truncated, or its disk failed, while it was in use: "
        "zeros were read instead of its content",
        file_.path());
}

void MappedFile::check() const {
  const struct stat now = file_.status();
  const bool has_failed = watch_->has_failed();
  const bool is_shorter = now.st_size < file_.first_status().st_size;
  if (has_failed || is_shorter) was_reported_ = true;
  if (is_shorter)
    throw IoError(concat(file_.path(), ": the file was truncated from ", size(),
                         " to ", now.st_size,
                         " bytes while it was in use; restore it and repeat "
                         "what failed"));
  if (has_failed)
    throw IoError(concat(file_.path(),
                         ": a part of the file could not be read "
                         "while it was in use: it was truncated "
                         "for a time, or its disk has failed"));
  if (!is_same_time(now.st_mtim, file_.first_status().st_mtim) &&
      !was_logged_.exchange(true))
    log_warn(
        "{} was modified while it is in use; examples may come from its "
        "old or from its new content",
        file_.path());
}

}  // namespace sheaf::formats
