// Binomial tree, for small messages: additions up to the root, copies down.
// With participants counted from the root, the parent of participant p is p
// without its lowest set bit; its children are p + 1, p + 2, p + 4 .. below
// that bit.
//
// Cost: 2 log2 P messages on the longest path, the whole range in
// each.

#include "sheaf/comm/algorithms/schedule.hpp"

namespace sheaf::comm {
namespace {

int lowest_bit(int position) { return position & -position; }

}  // namespace

Schedule reduce_schedule(int size, int me, int root, Range range) {
  const int position = (me - root + size) % size;
  const auto participant = [&](int at) { return (at + root) % size; };
  Schedule steps;
  for (int bit = 1;
       position + bit < size && (position == 0 || bit < lowest_bit(position));
       bit *= 2)
    steps.push_back({.receive_from = participant(position + bit),
                     .received = range,
                     .adds = true,
                     .finishes = position == 0 && 2 * bit >= size});
  if (position != 0)
    steps.push_back({.send_to = participant(position - lowest_bit(position)),
                     .sent = range,
                     .is_partial = true});
  return steps;
}

Schedule broadcast_schedule(int size, int me, int root, Range range) {
  const int position = (me - root + size) % size;
  const auto participant = [&](int at) { return (at + root) % size; };
  Schedule steps;
  if (position != 0)
    steps.push_back(
        {.receive_from = participant(position - lowest_bit(position)),
         .received = range});
  int bit = 1;
  while (position + bit < size && (position == 0 || bit < lowest_bit(position)))
    bit *= 2;
  for (bit /= 2; bit >= 1; bit /= 2)
    steps.push_back({.send_to = participant(position + bit), .sent = range});
  return steps;
}

Schedule tree_schedule(int size, int me, Range range) {
  Schedule steps = reduce_schedule(size, me, /*root=*/0, range);
  const Schedule down = broadcast_schedule(size, me, /*root=*/0, range);
  steps.insert(steps.end(), down.begin(), down.end());
  return steps;
}

}  // namespace sheaf::comm
