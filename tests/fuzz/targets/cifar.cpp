#include "sheaf/formats/arrays/cifar.hpp"

#include "sheaf/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"

SHEAF_FUZZ_TARGET(cifar) {
  using namespace sheaf::formats;
  const FileBytes file = view_bytes("input", input);
  for (const CifarKind kind :
       {CifarKind::kCifar10, CifarKind::kCifar100, CifarKind::kCifar100Coarse})
    try {
      check_cifar(file, cifar_layout(kind));
    } catch (const sheaf::Error&) {
    }
}
