#include "sheaf/comm/host/fingerprint.hpp"

#include <array>
#include <mutex>
#include <unordered_map>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::array<std::string_view, 15> kOperationNames{
    "nothing",      "barrier", "broadcast",  "reduce",  "all_reduce",
    "all_reduce_n", "gather",  "all_gather", "scatter", "reduce_scatter",
    "all_to_all",   "send",    "recv",       "split",   "halo"};

struct KnownNames {
  std::mutex mutex;
  std::unordered_map<std::uint32_t, std::string> by_hash;
};

// Never destroyed, because ranks may describe calls after exit() has begun.
KnownNames& known_names() {
  static auto* const names = new KnownNames;
  return *names;
}

std::string name_text(std::uint32_t hash) {
  KnownNames& names = known_names();
  const std::lock_guard lock(names.mutex);
  const auto found = names.by_hash.find(hash);
  return found == names.by_hash.end() ? concat("name hash ", hash)
                                      : concat('"', found->second, '"');
}

}  // namespace

void remember_name(std::string name) {
  const std::uint32_t hash = hash_name(name);
  KnownNames& names = known_names();
  const std::lock_guard lock(names.mutex);
  names.by_hash.insert_or_assign(hash, std::move(name));
}

std::string_view name_of(Operation operation) noexcept {
  return kOperationNames[static_cast<std::size_t>(operation) %
                         kOperationNames.size()];
}

bool is_reducing(Operation operation) noexcept {
  return operation == Operation::kReduce ||
         operation == Operation::kAllReduce ||
         operation == Operation::kAllReduceN ||
         operation == Operation::kReduceScatter;
}

bool has_root(Operation operation) noexcept {
  return operation == Operation::kBroadcast ||
         operation == Operation::kReduce || operation == Operation::kGather ||
         operation == Operation::kScatter;
}

bool has_blocks(Operation operation) noexcept {
  return operation == Operation::kGather ||
         operation == Operation::kAllGather ||
         operation == Operation::kScatter ||
         operation == Operation::kReduceScatter ||
         operation == Operation::kAllToAll;
}

std::uint32_t hash_name(std::string_view name) noexcept {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return name.empty() ? 0 : hash;
}

bool is_end_of_program(const Fingerprint& call) noexcept {
  static const std::uint32_t end = hash_name(kEndOfProgram);
  return call.operation == Operation::kBarrier && call.name_hash == end;
}

std::string describe(const Fingerprint& call) {
  std::string text =
      concat(is_end_of_program(call) ? kEndOfProgram : name_of(call.operation),
             " #", call.sequence);
  if (call.operation == Operation::kBarrier ||
      call.operation == Operation::kNone || call.operation == Operation::kSplit)
    return text;
  text += concat(" (", name_of(call.dtype));
  if (is_reducing(call.operation)) text += concat(" ", name_of(call.op));
  if (call.count) text += concat(", ", call.count, " elements");
  if (has_root(call.operation)) text += concat(", root ", call.root);
  if (call.operation == Operation::kSend) text += concat(" to ", call.root);
  if (call.operation == Operation::kReceive)
    text += call.root < 0 ? " from any rank" : concat(" from ", call.root);
  if (call.name_hash) text += concat(", ", name_text(call.name_hash));
  if (call.flags) text += concat(", mode ", static_cast<int>(call.flags));
  return text + ")";
}

}  // namespace sheaf::comm
