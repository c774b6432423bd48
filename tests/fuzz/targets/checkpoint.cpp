// state.json of a checkpoint: as given, and with a valid checksum. What is
// accepted must read back the same after it is written.
// parser: sheaf/train/checkpoint/state_read.cpp
// parser: sheaf/train/checkpoint/state_write.cpp
// parser: sheaf/train/files/crc32c.cpp

#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/train/checkpoint/state_file.hpp"
#include "sheaf/train/files/durable.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace {

using namespace sheaf::train;

void check(const std::string& text) {
  try {
    const KnownState known = parse_state(text, "fuzz");
    const std::string written = state_text(known.numbers, known.files);
    const KnownState again = parse_state(written, "written");
    if (state_text(again.numbers, again.files) != written) std::abort();
  } catch (const sheaf::Error&) {
  }
}

// Replaces the checksum, which ends the text.
std::string sealed(const std::string& text) {
  std::string body;
  bool is_quoted = false, is_escaped = false;
  for (const char byte : text.substr(0, text.rfind(",\"crc32c\""))) {
    if (!is_quoted && (byte == ' ' || byte == '\n')) continue;
    if (byte == '"' && !is_escaped) is_quoted = !is_quoted;
    is_escaped = is_quoted && byte == '\\' && !is_escaped;
    body += byte;
  }
  return sheaf::concat(body, ",\"crc32c\":", crc32c(body + "}"), "}");
}

}  // namespace

SHEAF_FUZZ_TARGET(checkpoint) {
  const std::string text(input.begin(), input.end());
  check(text);
  check(sealed(text));
}
