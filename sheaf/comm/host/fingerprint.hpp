#pragma once
// A compact description of a call. Ranks compare fingerprints before they
// exchange data.

#include <cstdint>
#include <string>
#include <string_view>

#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm {

enum class Operation : std::uint8_t {
  kNone,
  kBarrier,
  kBroadcast,
  kReduce,
  kAllReduce,
  kAllReduceN,
  kGather,
  kAllGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive,
  kSplit,
  kHalo  // used by a higher layer: see halo/
};
inline constexpr Operation kLastOperation = Operation::kHalo;

std::string_view name_of(Operation operation) noexcept;
// Whether the operation reduces elements, so that `op` applies.
bool is_reducing(Operation operation) noexcept;
// Whether the operation has a root rank.
bool has_root(Operation operation) noexcept;
// Whether a buffer on at least one rank holds a block for each rank.
bool has_blocks(Operation operation) noexcept;

struct Fingerprint {
  Operation operation = Operation::kNone;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  std::uint8_t flags = 0;  // forced algorithm and reproducible flag
  std::int32_t root = 0;
  std::uint64_t count = 0;  // 0 where ranks may differ
  std::uint32_t name_hash = 0;
  std::uint32_t sequence = 0;  // number of the call in its group

  bool operator==(const Fingerprint&) const = default;
};
static_assert(sizeof(Fingerprint) == 24);

// The name of the barrier at the end of a program.
inline constexpr std::string_view kEndOfProgram = "end of program";

std::uint32_t hash_name(std::string_view name) noexcept;
bool is_end_of_program(const Fingerprint& call) noexcept;

// "all_reduce #12 (f32 sum, 1024 elements)"; fields that do not apply are
// omitted.
std::string describe(const Fingerprint& call);

// A fingerprint has only the hash of a name. From now on describe() shows this
// name for calls with its hash, including calls of other ranks. Any thread may
// call it.
void remember_name(std::string name);

}  // namespace sheaf::comm
