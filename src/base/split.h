// How ranks share a model (compute/lst.h): each rank computes some outputs of every matrix. One definition for the
// engine and for the estimates of `models info --devices`.
#pragma once
#include <stdint.h>

typedef struct {
    int32_t from, to; // half-open
} ls_range;

static inline int32_t ls_range_size(ls_range r) {
    return r.to - r.from;
}

// Part i of n of a total.
static inline ls_range ls_share(int64_t total, int i, int n) {
    const ls_range r = {(int32_t)(total * i / n), (int32_t)(total * (i + 1) / n)};
    return r;
}

// What ranks share of a model. No experts: expert_ff is 0; no shared expert: shared_ff is 0.
typedef struct {
    int32_t heads, kv_heads, ff, embd, vocab, expert_ff, shared_ff;
} ls_sizes;

typedef struct {
    ls_range heads, kv_heads; // kv_heads: those that the heads of this rank read; two ranks may share one
    ls_range ff, embd, vocab, expert_ff, shared_ff;
} ls_shard;

enum { LS_SHARD_FF = 32, LS_SHARD_EMBD = 16, LS_SHARD_VOCAB = 16 }; // smallest unit of a split

static inline ls_range ls_share_units(int32_t total, int32_t unit, int i, int n) {
    const ls_range r = ls_share(((int64_t)total + unit - 1) / unit, i, n);
    const ls_range of = {r.from * unit, r.to * unit < total ? r.to * unit : total};
    return of;
}

// The largest number of ranks that can share a model.
static inline int32_t ls_most_ranks(const ls_sizes *s) {
    const int32_t units[] = {s->ff / LS_SHARD_FF, s->embd / LS_SHARD_EMBD, s->vocab / LS_SHARD_VOCAB,
                             s->expert_ff / LS_SHARD_FF, s->shared_ff / LS_SHARD_FF};
    int32_t most = s->heads;
    for (int i = 0; i < 5; i++)
        if ((i < 3 || units[i]) && units[i] < most) most = units[i]; // there may be no experts
    return most;
}

// rank: of n <= ls_most_ranks().
static inline ls_shard ls_shard_of(const ls_sizes *s, int rank, int n) {
    const int32_t group = s->heads / s->kv_heads;
    ls_shard p;
    p.heads = ls_share(s->heads, rank, n);
    p.kv_heads.from = p.heads.from / group;
    p.kv_heads.to = (p.heads.to - 1) / group + 1;
    p.ff = ls_share_units(s->ff, LS_SHARD_FF, rank, n);
    p.embd = ls_share_units(s->embd, LS_SHARD_EMBD, rank, n);
    p.vocab = ls_share_units(s->vocab, LS_SHARD_VOCAB, rank, n);
    p.expert_ff = ls_share_units(s->expert_ff, LS_SHARD_FF, rank, n);
    p.shared_ff = ls_share_units(s->shared_ff, LS_SHARD_FF, rank, n);
    return p;
}
