# How tests start ranks: SHEAF_LAUNCH is the command up to the number of ranks,
# SHEAF_LAUNCH_ENVIRONMENT the environment it needs. If MPICH is installed in
# addition to another MPI, SHEAF_LAUNCH_MPICH and sheaf_comm_mpich are used for
# a second set of rank tests.
set(SHEAF_LAUNCH)
set(SHEAF_LAUNCH_ENVIRONMENT)
set(SHEAF_LAUNCH_MPICH)
if(NOT SHEAF_WITH_MPI OR NOT MPIEXEC_EXECUTABLE)
  return()
endif()

include(CheckSymbolExists)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
check_symbol_exists(OPEN_MPI mpi.h SHEAF_MPI_IS_OPEN_MPI)
unset(CMAKE_REQUIRED_LIBRARIES)

set(SHEAF_LAUNCH ${MPIEXEC_EXECUTABLE})
if(SHEAF_MPI_IS_OPEN_MPI)
  list(APPEND SHEAF_LAUNCH --allow-run-as-root --oversubscribe --bind-to none)
  # For the programs under test that start ranks themselves.
  set(SHEAF_LAUNCH_ENVIRONMENT OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
endif()
message(STATUS "Ranks are started by: ${SHEAF_LAUNCH}")

# The files of comm that use MPI, compiled again with MPICH. `mpicc -show`
# prints the whole compiler command; FindMPI supports only one MPI.
function(sheaf_add_mpich mpicc)
  execute_process(COMMAND ${mpicc} -show OUTPUT_VARIABLE line
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(words UNIX_COMMAND "${line}")
  set(includes ${words})
  list(FILTER includes INCLUDE REGEX "^-I")
  list(TRANSFORM includes REPLACE "^-I" "")
  set(libraries ${words})
  list(FILTER libraries INCLUDE REGEX "^-[Ll]")

  get_target_property(needs sheaf_comm LINK_LIBRARIES)
  file(GLOB sources CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/sheaf/comm/*/mpi_*.cpp)
  add_library(sheaf_comm_mpich OBJECT EXCLUDE_FROM_ALL ${sources})
  set_target_properties(sheaf_comm_mpich PROPERTIES SHEAF_OTHER_MPI ON)
  target_include_directories(sheaf_comm_mpich PRIVATE
    ${PROJECT_SOURCE_DIR} ${includes})
  target_link_libraries(sheaf_comm_mpich PRIVATE ${needs})
  add_library(sheaf_mpich INTERFACE)
  target_link_libraries(sheaf_mpich INTERFACE ${libraries})
endfunction()

find_program(SHEAF_MPICC_MPICH NAMES mpicc.mpich)
find_program(SHEAF_MPIEXEC_MPICH NAMES mpiexec.mpich)
mark_as_advanced(SHEAF_MPICC_MPICH SHEAF_MPIEXEC_MPICH)
# Not with the thread sanitizer: MPI_Init and MPI_Finalize of MPICH 4.0 crash
# under it, even in a program of two lines.
if(SHEAF_MPI_IS_OPEN_MPI AND SHEAF_MPICC_MPICH AND SHEAF_MPIEXEC_MPICH
   AND NOT SHEAF_SANITIZE MATCHES thread)
  sheaf_add_mpich(${SHEAF_MPICC_MPICH})
  set(SHEAF_LAUNCH_MPICH ${SHEAF_MPIEXEC_MPICH})
  message(STATUS "Also tested with: ${SHEAF_LAUNCH_MPICH}")
endif()
