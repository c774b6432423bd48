#pragma once
namespace sheaf::comm {
class Reporter {};
}  // namespace sheaf::comm
