/* Sheaf for C: collectives between the processes of a run, modeled on IBM's
 * DDL. C99 and C++.
 *
 *   sheaf_init("-mode b:4x3");
 *   float* gradient;
 *   sheaf_malloc((void**)&gradient, 64, count * sizeof(float));
 *   sheaf_all_reduce(gradient, count, SHEAF_F32, SHEAF_AVG);
 *   sheaf_finalize();
 *
 * All ranks must call the same collectives in the same order with the same
 * arguments. Functions block until this rank has its result, and return
 * SHEAF_OK or one of the error codes below; sheaf_last_error() then describes
 * the error. Any thread may call these functions, but the order of collectives
 * must be the same on all ranks.
 */
#ifndef SHEAF_COMM_SHEAF_H
#define SHEAF_COMM_SHEAF_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SHEAF_OK = 0,
  SHEAF_ERROR = 1,          /* any other error */
  SHEAF_ERROR_USAGE = 2,    /* caller error, or ranks that disagree */
  SHEAF_ERROR_COMM = 3,     /* a peer died or left */
  SHEAF_ERROR_TIMEOUT = 4,  /* a peer is late */
  SHEAF_ERROR_IO = 5,       /* a file cannot be read or written */
  SHEAF_ERROR_CHECK = 6,    /* a checked result is wrong */
  SHEAF_ERROR_INTERNAL = 70 /* a bug in Sheaf */
};

/* Integers rather than enums, so that any value a caller passes can be
 * checked. */
typedef int sheaf_dtype;
typedef int sheaf_op;

enum {
  SHEAF_F64 = 0,
  SHEAF_F32 = 1,
  SHEAF_F16 = 2,
  SHEAF_BF16 = 3,
  SHEAF_I64 = 4,
  SHEAF_I32 = 5,
  SHEAF_I16 = 6,
  SHEAF_I8 = 7,
  SHEAF_U8 = 8,
  SHEAF_BOOL = 9
};

enum {
  SHEAF_SUM = 0,
  SHEAF_AVG = 1,
  SHEAF_PRODUCT = 2,
  SHEAF_MIN = 3,
  SHEAF_MAX = 4,
  SHEAF_BIT_AND = 5,
  SHEAF_BIT_OR = 6,
  SHEAF_BIT_XOR = 7
};

#define SHEAF_ANY_SOURCE (-1)

/* Zero-initialize for the defaults. */
typedef struct sheaf_reduce_options {
  int mpi;      /* not 0: plain MPI_Allreduce, to compare; sum and avg only */
  double check; /* above 0: compare with a reference; sum and avg only */
} sheaf_reduce_options;

/* Joins the other ranks; every rank must call it. `options` is a string such as
 * "-mode b:4x3 -dump_iter 100"; if NULL or "", SHEAF_OPTIONS is used. The
 * second function assigns one of the `devices` devices of its host to each
 * rank. */
int sheaf_init(const char* options);
int sheaf_init_devices(const char* options, int devices);
/* Must be the last call of every rank; waits for the other ranks. Memory from
 * sheaf_malloc() is invalid afterwards. */
int sheaf_finalize(void);
int sheaf_initialized(void); /* 1 or 0 */

/* -1 before sheaf_init(). */
int sheaf_rank(void);
int sheaf_size(void);
int sheaf_local_rank(void);
int sheaf_local_size(void);
int sheaf_num_hosts(void);
int sheaf_device(void); /* -1 also if there are no devices */

/* Message of the last failed call of this thread. Never NULL; valid until the
 * next failed call of this thread. */
const char* sheaf_last_error(void);

/* Allocates memory that the other ranks of the host can read, so that
 * reductions need no copy. `alignment` must be a power of two. Not collective.
 * sheaf_free(NULL) does nothing. */
int sheaf_malloc(void** memory, size_t alignment, size_t bytes);
int sheaf_free(void* memory);

/* Copy the elements of rank 0, or of the root, to all ranks. */
int sheaf_bcast(void* data, size_t count, sheaf_dtype dtype);
int sheaf_broadcast(void* data, size_t count, sheaf_dtype dtype, int root);

/* Reduce over all ranks, in place; all ranks get the result. */
int sheaf_all_reduce(void* data, size_t count, sheaf_dtype dtype, sheaf_op op);
int sheaf_all_reduce_mpi(void* data, size_t count, sheaf_dtype dtype,
                         sheaf_op op);
int sheaf_all_reduce_with(void* data, size_t count, sheaf_dtype dtype,
                          sheaf_op op, const sheaf_reduce_options* options);
/* Reduces `buffers` buffers of one element type at once. `options` may be
 * NULL. */
int sheaf_all_reduce_n(void* const* data, const size_t* counts, size_t buffers,
                       sheaf_dtype dtype, sheaf_op op,
                       const sheaf_reduce_options* options);

/* In place if output == input. Ranks that receive no result may pass NULL as
 * output, and ranks that contribute no data may pass NULL as input. `count` is
 * the number of elements of one rank's block; a buffer that holds all blocks
 * has sheaf_size() * count elements. */
int sheaf_reduce(const void* input, void* output, size_t count,
                 sheaf_dtype dtype, sheaf_op op, int root);
int sheaf_reduce_scatter(const void* input, void* output, size_t count,
                         sheaf_dtype dtype, sheaf_op op);
int sheaf_gather(const void* input, void* output, size_t count,
                 sheaf_dtype dtype, int root);
int sheaf_all_gather(const void* input, void* output, size_t count,
                     sheaf_dtype dtype);
int sheaf_scatter(const void* input, void* output, size_t count,
                  sheaf_dtype dtype, int root);
int sheaf_all_to_all(const void* input, void* output, size_t count,
                     sheaf_dtype dtype);
int sheaf_barrier(void);

/* Messages match by sender and tag, in the order sent. Unless `source` is NULL,
 * it is set to the rank of the sender. */
int sheaf_send(const void* data, size_t count, sheaf_dtype dtype, int to,
               int tag);
int sheaf_recv(void* data, size_t count, sheaf_dtype dtype, int from, int tag,
               int* source);

#ifdef __cplusplus
}
#endif

#endif /* SHEAF_COMM_SHEAF_H */
