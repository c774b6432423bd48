#pragma once
// Internal data structures of Lines, for halo_channels*.cpp only.

#include <array>
#include <memory>
#include <vector>

#include "sheaf/comm/group/buffer.hpp"
#include "sheaf/comm/host/futex.hpp"
#include "sheaf/halo/halo_channels.hpp"

namespace sheaf::halo {

inline constexpr std::size_t kLine = 64;

inline comm::ConstBuffer bytes_of(const void* data, std::size_t bytes) {
  return {data, bytes, DType::kU8};
}

struct Lines::Block {
  std::atomic<std::uint32_t> users{0};
};

// The content of one round of a line.
struct Lines::Content {
  std::int64_t planes = 0;
  bool is_packed = true;
  std::uint64_t offset = 0;  // if read in place: offset in the sender's heap
  std::array<std::int64_t, 2> outer_stride{};
  std::array<std::int64_t, kMaxAxes> stride{};
};

struct Lines::State {
  alignas(kLine) comm::Counter sent;
  std::atomic<std::uint32_t> sent_sleepers{0};
  std::array<Content, 2> contents{};  // written before `sent` is published
  alignas(kLine) comm::Counter taken;
  std::atomic<std::uint32_t> taken_sleepers{0};
};

struct Lines::Card {
  std::uint64_t block = 0;  // offset in the sender's heap, as `state`
  std::uint64_t state = 0;
  std::uint64_t plane_bytes = 0;
  std::int64_t capacity = 0;
};

struct Lines::Sender {
  int peer = 0;
  std::size_t plane_bytes = 0;
  State* state = nullptr;  // null if the peer is on another host
  std::array<std::byte*, 2> places{};
  // The memory of the places if the peer is on another host.
  std::unique_ptr<std::vector<std::byte>> own{};
  std::array<comm::Work, 2> works{};
};

struct Lines::Receiver {
  int peer = 0;
  std::size_t plane_bytes = 0;
  bool is_local = false;
  State* state = nullptr;  // set by connect()
  Block* block = nullptr;
  std::byte* heap = nullptr;
  std::array<std::byte*, 2> places{};
  std::vector<std::byte> own{};
  std::array<comm::Work, 2> works{};
  std::unique_ptr<Card> card{};
  comm::Work card_work{};
};

}  // namespace sheaf::halo
