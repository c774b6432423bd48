/* usage: c RANKS, where RANKS is the number of ranks it is started on. */
#include <sheaf/sheaf.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, sheaf_last_error());
  return 1;
}

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 1;
  float data[2] = {1, 2};
  if (sheaf_init(NULL) != SHEAF_OK) return fail("sheaf_init");
  if (sheaf_all_reduce(data, 2, SHEAF_F32, SHEAF_SUM) != SHEAF_OK)
    return fail("sheaf_all_reduce");
  printf("%d of %d: %g\n", sheaf_rank(), sheaf_size(), data[1]);
  if (sheaf_size() != ranks || data[1] != 2.0f * (float)ranks) return 1;
  return sheaf_finalize() == SHEAF_OK ? 0 : fail("sheaf_finalize");
}
