/* Sheaf for C: collectives between the processes of a run, in the shape of
 * IBM's DDL. C99 and C++.
 *
 *   sheaf_init("-mode b:4x3");
 *   float* gradient;
 *   sheaf_malloc((void**)&gradient, 64, count * sizeof(float));
 *   sheaf_all_reduce(gradient, count, SHEAF_F32, SHEAF_AVG);
 *   sheaf_finalize();
 *
 * All ranks call the same collectives in the same order with the same
 * arguments. Functions block until this rank has its result, and return
 * SHEAF_OK or a code below; sheaf_last_error() then says what happened. Any
 * thread may call, but the order of collectives must be the same on all ranks.
 */
#ifndef SHEAF_COMM_SHEAF_H
#define SHEAF_COMM_SHEAF_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  SHEAF_OK = 0,
  SHEAF_ERROR = 1,          /* none of the following */
  SHEAF_ERROR_USAGE = 2,    /* the caller's mistake, or ranks that disagree */
  SHEAF_ERROR_COMM = 3,     /* a peer is gone */
  SHEAF_ERROR_TIMEOUT = 4,  /* a peer is late */
  SHEAF_ERROR_IO = 5,       /* a file cannot be read or written */
  SHEAF_ERROR_CHECK = 6,    /* a checked result is wrong */
  SHEAF_ERROR_INTERNAL = 70 /* a bug in Sheaf */
};

/* Whole numbers, so that any value a caller gives can be looked at. */
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

/* All zero is the default. */
typedef struct sheaf_reduce_options {
  int mpi;      /* not 0: plain MPI_Allreduce, the baseline; sum and avg */
  double check; /* above 0: compare with a reference; sum and avg */
} sheaf_reduce_options;

/* Joins the other ranks. Options as "-mode b:4x3 -dump_iter 100"; NULL or ""
 * takes SHEAF_OPTIONS. The second form gives each rank one of `devices`
 * devices of its host. */
int sheaf_init(const char* options);
int sheaf_init_devices(const char* options, int devices);
/* Every rank's last call. Memory of sheaf_malloc() is gone afterwards. */
int sheaf_finalize(void);
int sheaf_initialized(void); /* 1 or 0 */

/* -1 before sheaf_init(). */
int sheaf_rank(void);
int sheaf_size(void);
int sheaf_local_rank(void);
int sheaf_local_size(void);
int sheaf_num_hosts(void);
int sheaf_device(void); /* -1 also when there are none */

/* What the last call of this thread that failed had to say. Never NULL; valid
 * until this thread's next call that fails. */
const char* sheaf_last_error(void);

/* Memory that the other ranks of the host can read: reducing it copies
 * nothing. The alignment is a power of two. */
int sheaf_malloc(void** memory, size_t alignment, size_t bytes);
int sheaf_free(void* memory);

/* Rank 0's, or the root's, elements to all. */
int sheaf_bcast(void* data, size_t count, sheaf_dtype dtype);
int sheaf_broadcast(void* data, size_t count, sheaf_dtype dtype, int root);

/* The reduction over all ranks to all, in place. */
int sheaf_all_reduce(void* data, size_t count, sheaf_dtype dtype, sheaf_op op);
int sheaf_all_reduce_mpi(void* data, size_t count, sheaf_dtype dtype,
                         sheaf_op op);
int sheaf_all_reduce_with(void* data, size_t count, sheaf_dtype dtype,
                          sheaf_op op, const sheaf_reduce_options* options);
/* `buffers` buffers of one type at once; `options` may be NULL. */
int sheaf_all_reduce_n(void* const* data, const size_t* counts, size_t buffers,
                       sheaf_dtype dtype, sheaf_op op,
                       const sheaf_reduce_options* options);

/* In place where output == input. The output of ranks that get nothing, and
 * the input of those that give nothing, may be NULL. `count` is the elements
 * of one rank's block; a buffer of all blocks has size times as many. */
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

/* Messages match by sender and tag, in the order sent. `source` may be NULL;
 * else it is told who sent. */
int sheaf_send(const void* data, size_t count, sheaf_dtype dtype, int to,
               int tag);
int sheaf_recv(void* data, size_t count, sheaf_dtype dtype, int from, int tag,
               int* source);

#ifdef __cplusplus
}
#endif

#endif /* SHEAF_COMM_SHEAF_H */
