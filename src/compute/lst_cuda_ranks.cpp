// With other ranks each device computes some outputs of every matrix. What they computed becomes whole rows on all of
// them through the hosts: a copy to page-locked memory, an exchange in a function of the host's, and a copy back, all
// of them part of the graph.
#include "compute/lst_cuda_kv_cache.h"

#include <algorithm>
#include <cstring>

using namespace lst::device;

size_t CudaKvCache::row_bytes(const GatherPoint &at, ls_range units) {
    return (size_t)ls_range_size(units) * at.bytes;
}

ls_range CudaKvCache::all_units(const GatherPoint &at) const {
    return at.of ? ls_range{0, (m->parts.back().*at.of).to} : at.held;
}

size_t CudaKvCache::most_bytes(bool whole) const {
    size_t most = 0;
    for (const GatherPoint *at : {&of_tokens, &of_heads, &of_ff, &of_embd, &of_expert_ff, &of_shared_ff})
        most = std::max(most, (size_t)at->each * row_bytes(*at, whole ? all_units(*at) : at->held));
    return most * LST_MAX_ROWS;
}

// In a thread of the driver's, when the rows that this device has are in `before`.
void CudaKvCache::exchange(const GatherPoint &at) {
    if (failure) return; // the step goes on to its end, with numbers that nobody reads
    try {
        const std::vector<ls_shard> &parts = m->parts;
        const auto n = (size_t)(step->n_rows * at.each);
        const ls_range own = at.of ? m->part().*at.of : at.held;
        const size_t widest = at.of ? (size_t)m->widest(at.of) * at.bytes : row_bytes(at, at.held);
        mine.resize(n * widest);
        theirs.resize(parts.size() * n * widest);
        for (size_t i = 0; i < n; i++)
            std::memcpy(&mine[i * widest],
                        before.get() + i * row_bytes(at, at.held) + (size_t)(own.from - at.held.from) * at.bytes,
                        row_bytes(at, own));
        m->ranks->gather(mine.data(), (int64_t)mine.size(), theirs.data());
        for (size_t i = 0; i < n; i++)
            for (size_t rank = 0; rank < parts.size(); rank++) {
                const ls_range units = at.of ? parts[rank].*at.of : at.held, tokens = parts[rank].vocab;
                if (!at.of && (step->token[i] < tokens.from || step->token[i] >= tokens.to)) continue;
                std::memcpy(after.get() + i * row_bytes(at, all_units(at)) + (size_t)units.from * at.bytes,
                            &theirs[(rank * n + i) * widest], row_bytes(at, units));
            }
    } catch (...) {
        failure = std::current_exception();
    }
}

void CudaKvCache::put_gather(GatherPoint &at, const void *from, void *to, int32_t rows) {
    auto call = [](void *ud) {
        const GatherPoint *point = static_cast<GatherPoint *>(ud);
        point->cache->exchange(*point);
    };
    const auto n = (size_t)(rows * at.each);
    check(lsg_download(before.get(), from, n * row_bytes(at, at.held), stream.s), "an exchange");
    check(lsg_on_host(call, &at, stream.s), "an exchange");
    check(lsg_upload(to, after.get(), n * row_bytes(at, all_units(at)), stream.s), "an exchange");
    check(lsg_arrive(stream.s), "an exchange");
}

// What all ranks say of the last step's n rows becomes their result.
void CudaKvCache::merge(int32_t n, const lst_sampling *sampling) {
    const lsg_step &s = *step.get();
    const bool one = s.head_row >= 0;
    std::vector<uint64_t> next;
    for (int32_t i = 0; i < n && sampling && sampling->temperature > 0; i++)
        next.push_back((uint64_t)(s.length + s.depth[one ? s.head_row : i] + 1));
    lst_row *rows = result->row;
    if (!merge_rows(*this, 0, n, !result->bad, next.empty() ? nullptr : next.data(), sampling, rows))
        find_bad(lsg_bucket_rows(s.n_rows), lsg_bucket_chunks(s.length));
}
