/* usage: c RANKS, where RANKS is the number of ranks it is started on. */
#include <stdio.h>
#include <stdlib.h>

int ranks_of(const char* dims);

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 1;
  char dims[32];
  snprintf(dims, sizeof dims, "%dx1", ranks);
  return ranks_of(dims) == ranks ? 0 : 1;
}
