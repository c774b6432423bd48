#pragma once
// What the variables of the launcher that has started this process say about
// other processes.
// transport.hpp has is_under_mpi_launcher().

namespace sheaf::comm {

// To be called by a rank whose world has one rank. UsageError when the
// launcher of MPI (`is_mpi`), else torchrun, Slurm, Flux, jsrun or PALS, has
// started more tasks than one: each would compute everything, and write over
// the others' files.
void check_is_alone(bool is_mpi);

// RANK=0 and WORLD_SIZE=1, both of them, say that a task of Slurm is meant to
// be alone.
bool is_meant_to_be_alone();

}  // namespace sheaf::comm
