#include "sheaf/formats/bytes/mapped_file.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"

namespace sheaf::formats {
namespace {

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
  const std::size_t now = file_.size_now();
  const bool has_failed = watch_->has_failed();
  if (has_failed || now < size()) was_reported_ = true;
  if (now < size())
    throw IoError(concat(file_.path(), ": the file was truncated from ", size(),
                         " to ", now,
                         " bytes while it was in use; restore it and repeat "
                         "what failed"));
  if (has_failed)
    throw IoError(concat(file_.path(),
                         ": a part of the file could not be read while it was "
                         "in use: it was truncated for a time, or its disk "
                         "has failed"));
  look_for_changes();
}

void MappedFile::look_for_changes() const {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  if (last_look_.load() == now.tv_sec) return;
  last_look_.store(now.tv_sec);
  if (file_.was_modified() && !was_logged_.exchange(true))
    log_warn(
        "{} was modified while it is in use; examples may come from its "
        "old or from its new content",
        file_.path());
}

}  // namespace sheaf::formats
