/* One rank, the last, kills itself; the others must live on for long enough
 * to notice it and to say so. Used by run_grace_test.cpp. */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(long ms) {
  struct timespec time = {0, ms * 1000000L};
  nanosleep(&time, NULL);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int victim = (int)getpid();
  MPI_Bcast(&victim, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1) raise(SIGKILL);
  while (kill(victim, 0) == 0 || errno != ESRCH) pause_ms(5);
  pause_ms(400); /* what a library takes to notice a lost peer */
  printf("rank %d saw the end of %d\n", rank, victim);
  fflush(stdout);
  _exit(3);
}
