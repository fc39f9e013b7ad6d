// Exchanges bytes between the processes that share a model. lst_ranks.cpp has the common part, lst_ranks_memory.cpp
// shared memory for ranks of one machine; liblstorch.so has libtorch's process group (lst_gloo.cpp).
#pragma once
#include "compute/lst_internal.h"
#include "compute/lst_wire.h"

namespace lst {

// Returns when all ranks have connected; throws Lost or Error.
lst_wire wire_in_memory(const lst_ranks_options &opt);

// A KV cache that may have only a part of the vocabulary's logits.
struct PartKvCache : KvCache {
    lst_model *const model;
    explicit PartKvCache(lst_model *of) : model(of) {}
    // A row's k best tokens, k <= MOST_TOP, whose ids count from the first of this rank's part.
    virtual void part_top(int32_t row, int32_t k, int32_t *ids, float *logits) = 0;
    virtual void part_logits(int32_t first, int32_t n, float *out) = 0; // of n rows, this rank's part of each
    void top(int32_t row, int32_t k, int32_t *ids, float *logits) override;
    void logits(int32_t row, float *out) override;
};
enum { MOST_TOP = 256 };

// next_position: of the token that follows the row.
inline void sample(const float *logits, int32_t n, uint64_t next_position, const lst_sampling &how, lst_row *row) {
    row->chosen = ls_sample(logits, n, how.temperature, how.top_k, how.top_p, how.seed, next_position);
    row->chosen_logit = logits[row->chosen];
}

// All ranks call it with the same arguments. Combines the results of rows [first, first + n), of which each rank has
// its part of the vocabulary. next: the positions of the tokens to sample; nullptr: choose the best. False: a rank
// found a logit that is not finite.
bool merge_rows(PartKvCache &s, int32_t first, int32_t n, bool good, const uint64_t *next, const lst_sampling *sampling,
                lst_row *rows);

} // namespace lst

struct lst_ranks {
    const int rank, n;
    int lost = -1; // the rank with which an exchange failed; then there are no more exchanges
    double us = 0; // time in exchanges so far

    explicit lst_ranks(const lst_ranks_options &opt);
    ~lst_ranks() { wire.close(wire.self); }
    lst_ranks(const lst_ranks &) = delete;
    void meet(const lst::Stop &stop);
    // Gathers `size` bytes of each rank into all ([n][size]), on every rank.
    void gather(const void *mine, int64_t size, void *all);
    // Sends rank 0's bytes to all ranks; the others wait as long as rank 0 is running.
    void tell(void *data, int64_t size);

  private:
    lst_wire wire;
    template <class F> void timed(F &&exchange);
};
