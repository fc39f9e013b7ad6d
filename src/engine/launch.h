// How processes become the ranks of one model: this program starts them, or a launcher does (torchrun, Slurm's srun,
// Open MPI's mpirun), which tells each in the environment which one it is.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int32_t rank, n;   // n 1: nobody started this process as one of several
    int32_t beside;    // ranks on this machine, this one included
    int32_t gpu;       // that this rank has; -1: it computes on the CPU
    int memory;        // of ranks that the program started itself; -1: the rest says where they meet
    char store[300];   // see lst_ranks_options, as the next two
    char address[64];  //
    bool serves;       //
    char token[80];    // the run's secret, and at which start of it this is
    bool is_child;     // it ends with its standard input
    int32_t timeout_s; // for one exchange, and for finding each other
} ls_rank_place;

// What the environment says.
ls_code ls_rank_place_read(ls_rank_place *out, ls_err *err);

// Whether it says that this process is a rank other than 0.
bool ls_is_other_rank(void);

// Ranks 1 .. n - 1, started by this process, which is rank 0. They end with it, whatever ends it.
typedef struct ls_children ls_children;
// gpus: of each rank, -1: the CPU.
ls_code ls_children_start(ls_children **out, ls_rank_place *own, int32_t n, const int32_t *gpus, ls_err *err);
int32_t ls_children_first_ended(ls_children *c); // the first rank that has; 0: all run
// How a rank that does not answer ended, and its last words; gives it a moment to end. False: it runs.
bool ls_children_ended(ls_children *c, int32_t rank, ls_buf *how);
void ls_children_end(ls_children *c); // accepts NULL
