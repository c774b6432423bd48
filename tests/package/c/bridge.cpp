// Until a C header covers all of it: C++ behind a function of C.
#include <sheaf/topo/dims.hpp>

extern "C" int ranks_of(const char* dims) {
  return sheaf::topo::parse_dims(dims).product();
}
