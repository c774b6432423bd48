#pragma once
namespace sheaf::comm {
class Tuner {};
}  // namespace sheaf::comm
