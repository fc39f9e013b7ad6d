// Starts the ranks of a model. Either this program starts them, or a launcher does (torchrun, Slurm's srun, Open MPI's
// mpirun), which sets each process's rank in its environment.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int32_t rank, n;   // n 1: a single process
    int32_t beside;    // ranks on this machine, including this rank
    int32_t gpu;       // GPU of this rank; -1: it computes on the CPU
    int memory;        // shared memory of ranks that this program started, which end when their standard input closes;
                       // -1: a launcher's ranks, see the next fields
    char store[300];   // see lst_gloo_options, also for the next two fields
    char address[64];  //
    bool serves;       //
    char token[80];    // the run's secret, and the number of its restarts
    int32_t timeout_s; // for one exchange, and for the ranks to connect
} ls_rank_env;

// Reads the environment.
ls_code ls_rank_env_read(ls_rank_env *out, ls_err *err);

// Whether, by the environment, this process is a rank other than 0.
bool ls_is_other_rank(void);

// Ranks 1 .. n - 1, started by this process, which is rank 0. They exit when it ends for any reason.
typedef struct ls_children ls_children;
// gpus: of each rank, -1: the CPU.
ls_code ls_children_start(ls_children **out, ls_rank_env *own, int32_t n, const int32_t *gpus, ls_err *err);
int32_t ls_children_first_ended(ls_children *c); // the first rank that has ended; 0: all are running
// Appends how a rank that does not answer ended, and its last output; waits a moment for it to end. False: it is
// running.
bool ls_children_ended(ls_children *c, int32_t rank, ls_buf *how);
void ls_children_end(ls_children *c); // accepts NULL
