#pragma once
// Reads the environment variables of the launcher that started this process,
// to find out whether it started other processes. See also
// is_under_mpi_launcher() in transport.hpp.

namespace sheaf::comm {

// To be called by a rank whose world has one rank. Throws UsageError if the MPI
// launcher (`is_mpi`), or else torchrun, Slurm, Flux, jsrun or PALS, has
// started more than one task: each would do the whole computation and overwrite
// the files of the others.
void check_is_alone(bool is_mpi);

// Whether both RANK=0 and WORLD_SIZE=1 are set: the user wants each task of a
// launcher to run on its own.
bool is_meant_to_be_alone();

}  // namespace sheaf::comm
