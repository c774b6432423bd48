// Compares the messages that operations report with a formula and with the
// messages sent.

#include "sheaf/spatial/split/notes.hpp"

#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

// Samples x channels in tiles of equal size.
struct EvenTiles {
  std::int64_t samples, channels, rows, columns;
};

struct Traffic {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};

// A convolution with stride 1 and padded borders needs `reach` rows or columns
// of each neighbor, and a square of that side at corners.
Traffic formula(const halo::Grid& grid, int rank, const EvenTiles& tiles,
                std::int64_t reach, std::int64_t element_bytes) {
  const halo::Coordinates at = grid.coordinates(rank);
  const auto neighbors = [&](int axis) {
    const int place = at[static_cast<std::size_t>(axis)];
    return (place > 0 ? 1 : 0) + (place + 1 < grid.size(axis) ? 1 : 0);
  };
  const std::int64_t rows = neighbors(0), columns = neighbors(1);
  const std::int64_t places = rows * reach * tiles.columns +
                              columns * reach * tiles.rows +
                              rows * columns * reach * reach;
  return {rows + columns + rows * columns,
          places * tiles.samples * tiles.channels * element_bytes};
}

Traffic traffic_of(const ExchangeNote& note) {
  return {note.messages, note.bytes};
}

std::vector<ExchangeNote> notes_of_two_layers(
    const std::shared_ptr<Tiles>& tiles, const EvenTiles& sizes,
    std::int64_t kernel, at::ScalarType type) {
  const at::Tensor image =
      random({sizes.samples, sizes.channels, sizes.rows * tiles->grid().size(0),
              sizes.columns * tiles->grid().size(1)},
             type, 1);
  const at::Tensor first =
      random({5, sizes.channels, kernel, kernel}, type, 2).requires_grad_();
  const at::Tensor second =
      random({3, 5, kernel, kernel}, type, 3).requires_grad_();
  std::vector<ExchangeNote> notes;
  tiles->listen([&](const ExchangeNote& note) { notes.push_back(note); },
                {{first.unsafeGetTensorImpl(), "first"},
                 {second.unsafeGetTensorImpl(), "second"}});
  tiles->reset_stats();
  const std::int64_t padding = (kernel - 1) / 2;
  const at::Tensor hidden =
      at::conv2d(cut(image, tiles), first, {}, 1, padding).relu();
  const at::Tensor output = at::conv2d(hidden, second, {}, 1, padding);
  local_of(output).sum().backward();
  tiles->listen(nullptr);
  return notes;
}

// In forward, each layer fetches its input. In backward, the second layer sends
// the gradient of its input back or, with overlap, fetches that of its output;
// the first layer does not send a gradient.
void expect_formula(const std::string& text, std::int64_t kernel,
                    at::ScalarType type, parallel::Overlap overlap) {
  const halo::Grid grid = halo::Grid::parse(text);
  comm::run_threads(grid.ranks(), [&](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, grid, overlap);
    const bool is_overlapped = overlap == parallel::Overlap::kOn;
    EvenTiles sizes{2, 4, 6, 5};
    const auto notes = notes_of_two_layers(tiles, sizes, kernel, type);
    ASSERT_EQ(notes.size(), 3u) << text;
    const char* names[] = {"convolution of first", "convolution of second",
                           "convolution of second, backward"};
    const std::int64_t channels[] = {4, 5, is_overlapped ? 3 : 5};
    std::int64_t messages = 0, bytes = 0;
    for (std::size_t i = 0; i < notes.size(); ++i) {
      sizes.channels = channels[i];
      const Traffic wanted =
          formula(grid, group.rank(), sizes, (kernel - 1) / 2,
                  static_cast<std::int64_t>(at::elementSize(type)));
      EXPECT_EQ(notes[i].operation, names[i]);
      EXPECT_EQ(notes[i].is_overlapped, is_overlapped);
      EXPECT_EQ(traffic_of(notes[i]), wanted)
          << names[i] << " on " << text << ", rank " << group.rank() << ": "
          << notes[i].messages << " and " << notes[i].bytes << ", not "
          << wanted.messages << " and " << wanted.bytes;
      messages += wanted.messages;
      bytes += wanted.bytes;
    }
    const SpatialStats moved = tiles->stats();
    EXPECT_EQ(moved.halo_exchanges, 3);
    EXPECT_EQ(moved.halo_messages, messages);
    EXPECT_EQ(moved.halo_bytes, bytes);
    EXPECT_EQ(moved.halo_bytes_read, bytes);
  });
}

TEST(SpatialNotes, BytesAndMessagesAreThoseOfTheFormula) {
  for (const auto overlap : {parallel::Overlap::kOff, parallel::Overlap::kOn})
    for (const char* grid : {"1x2", "2x1", "2x2", "1x3", "3x2", "3x3"})
      for (const std::int64_t kernel : {3, 5, 7})
        for (const auto type : {at::kFloat, at::kDouble})
          expect_formula(grid, kernel, type, overlap);
}

// Sums and a count, then squares; in backward, two sums in one message.
TEST(SpatialNotes, TellOfMoments) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("1x2"));
    torch::nn::BatchNorm2d norm(3);
    std::vector<ExchangeNote> notes;
    tiles->listen([&](const ExchangeNote& note) { notes.push_back(note); },
                  {{norm->weight.unsafeGetTensorImpl(), "bn.weight"}});
    const at::Tensor output = norm(cut(at::rand({2, 3, 4, 4}), tiles));
    local_of(output).relu_().sum().backward();
    tiles->listen(nullptr);
    ASSERT_EQ(notes.size(), 2u);
    EXPECT_EQ(notes[0].operation, "batch_norm of bn.weight");
    EXPECT_EQ(traffic_of(notes[0]), (Traffic{2, 7 * 4}));
    EXPECT_EQ(notes[1].operation, "batch_norm of bn.weight, backward");
    EXPECT_EQ(traffic_of(notes[1]), (Traffic{1, 6 * 4}));
    EXPECT_EQ(tiles->stats().reductions, 3);
    EXPECT_EQ(tiles->stats().reduced_bytes, 13 * 4);
  });
}

TEST(SpatialNotes, NothingIsSentByOneRankOrForKernelsOfOne) {
  for (const auto& [grid, kernel] :
       {std::pair{"1x1", std::int64_t{3}}, {"2x2", std::int64_t{1}}})
    comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
      const auto tiles =
          std::make_shared<Tiles>(group, halo::Grid::parse(grid));
      for (const ExchangeNote& note :
           notes_of_two_layers(tiles, {1, 1, 4, 4}, kernel, at::kFloat))
        EXPECT_EQ(traffic_of(note), Traffic()) << note.operation;
      EXPECT_EQ(tiles->stats().halo_bytes, 0);
    });
}

}  // namespace
}  // namespace sheaf::spatial
