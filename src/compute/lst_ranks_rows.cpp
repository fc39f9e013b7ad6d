// Rows of logits of which each rank has a part of the vocabulary: what all of them say becomes what a caller gets.
#include "compute/lst_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

using lst::PartKvCache;

namespace {

// A rank's word on a row.
struct RowPart {
    lst_row row;
    int32_t good;
};

float known(float a, float b) {
    return std::isnan(a) ? b : a;
}

// A token of another rank's part, by its number there.
int32_t whole_id(int32_t id, ls_range part) {
    if (id < 0 || id >= ls_range_size(part))
        throw lst::Error(LST_E_BACKEND, "a rank sent a token outside its part of the vocabulary");
    return part.from + id;
}

// Best first; a tie goes to the lower id, which is the earlier rank's.
struct Best {
    int32_t id;
    float logit;
    bool operator<(const Best &o) const { return logit > o.logit || (logit == o.logit && id < o.id); }
};

// In rank order, so that sums are the same on every rank.
lst_row merge(const RowPart *said, size_t stride, const std::vector<ls_shard> &parts) {
    lst_row out = said[0].row;
    std::vector<Best> best;
    double max = -INFINITY, total = 0, mean = 0;
    for (size_t r = 0; r < parts.size(); r++) {
        const lst_row &row = said[r * stride].row;
        for (int i = 0; i < LST_ROW_TOP; i++)
            best.push_back({whole_id(row.top_id[i], parts[r].vocab), row.top_logit[i]});
        out.parent_logit = known(out.parent_logit, row.parent_logit);
        max = std::max(max, (double)row.lse);
    }
    for (size_t r = 0; r < parts.size(); r++) {
        const lst_row &row = said[r * stride].row;
        const double weight = std::exp((double)row.lse - max);
        total += weight;
        mean += weight * ((double)row.lse - (double)row.entropy); // of the logits, by their probabilities
    }
    std::partial_sort(best.begin(), best.begin() + LST_ROW_TOP, best.end());
    for (int i = 0; i < LST_ROW_TOP; i++) {
        out.top_id[i] = best[(size_t)i].id;
        out.top_logit[i] = best[(size_t)i].logit;
    }
    const double lse = max + std::log(total);
    out.lse = (float)lse;
    out.entropy = (float)(lse - mean / total);
    out.chosen = out.top_id[0];
    out.chosen_logit = out.top_logit[0];
    return out;
}

enum : int32_t { NONE = INT32_MAX }; // where a rank has fewer tokens

// This rank's k best tokens of a row, with the ids of the whole vocabulary.
void best_here(PartKvCache &s, int32_t row, int32_t k, Best *out) {
    const ls_range own = s.model->part().vocab;
    const int32_t here = std::min(k, ls_range_size(own));
    std::vector<int32_t> ids((size_t)here);
    std::vector<float> logits((size_t)here);
    s.part_top(row, here, ids.data(), logits.data());
    for (int32_t i = 0; i < k; i++)
        out[i] = i < here ? Best{ids[(size_t)i] + own.from, logits[(size_t)i]} : Best{NONE, -INFINITY};
}

// Of n rows, whole.
void gather_logits(PartKvCache &s, int32_t first, int32_t n, float *out) {
    const size_t block = (size_t)n * (size_t)s.model->widest(&ls_shard::vocab);
    std::vector<float> mine(block), all(block * s.model->parts.size());
    s.part_logits(first, n, mine.data());
    s.model->ranks->gather(mine.data(), (int64_t)(block * sizeof(float)), all.data());
    for (size_t r = 0; r < s.model->parts.size(); r++) {
        const ls_range part = s.model->parts[r].vocab;
        for (int32_t i = 0; i < n; i++)
            std::memcpy(out + (int64_t)i * s.model->hp.n_vocab + part.from,
                        all.data() + r * block + i * ls_range_size(part), (size_t)ls_range_size(part) * sizeof(float));
    }
}

// Samples the rows' tokens. With top_k every rank's best tokens are enough, and what no rank names has no weight;
// else all ranks' logits are needed, as the sum over the vocabulary has one order (base/rng.h).
void sample_rows(PartKvCache &s, int32_t first, int32_t n, const uint64_t *next, const lst_sampling &how,
                 lst_row *rows) {
    const int32_t n_vocab = s.model->hp.n_vocab, ranks = s.model->ranks->n, k = how.top_k;
    const bool few = k > 0 && k <= lst::MOST_TOP && (int64_t)k * ranks < n_vocab / 4;
    std::vector<float> logits((size_t)n * (size_t)n_vocab, -INFINITY);
    if (few) {
        std::vector<Best> mine((size_t)n * (size_t)k), all(mine.size() * (size_t)ranks);
        for (int32_t i = 0; i < n; i++) best_here(s, first + i, k, &mine[(size_t)i * (size_t)k]);
        s.model->ranks->gather(mine.data(), (int64_t)(mine.size() * sizeof mine[0]), all.data());
        for (size_t i = 0; i < all.size(); i++)
            if (all[i].id != NONE)
                logits[i % mine.size() / (size_t)k * (size_t)n_vocab + (size_t)whole_id(all[i].id, {0, n_vocab})] =
                    all[i].logit;
    } else gather_logits(s, first, n, logits.data());
    lst::each_of(s.model->threads, n, [&](int64_t i) {
        lst::sample(logits.data() + (size_t)i * (size_t)n_vocab, n_vocab, next[i], how, &rows[i]);
    });
}

} // namespace

bool lst::merge_rows(PartKvCache &s, int32_t first, int32_t n, bool good, const uint64_t *next,
                     const lst_sampling *sampling, lst_row *rows) {
    std::vector<RowPart> mine, all((size_t)n * s.model->parts.size());
    for (int32_t i = 0; i < n; i++) mine.push_back({rows[i], good});
    s.model->ranks->gather(mine.data(), (int64_t)(mine.size() * sizeof mine[0]), all.data());
    for (const RowPart &part : all)
        if (!part.good) return false;
    for (int32_t i = 0; i < n; i++) rows[i] = merge(&all[(size_t)i], (size_t)n, s.model->parts);
    if (next) sample_rows(s, first, n, next, *sampling, rows);
    return true;
}

void PartKvCache::top(int32_t row, int32_t k, int32_t *ids, float *values) {
    if (!model->ranks) return part_top(row, k, ids, values);
    std::vector<Best> mine((size_t)k), all((size_t)k * model->parts.size());
    best_here(*this, row, k, mine.data());
    model->ranks->gather(mine.data(), (int64_t)(mine.size() * sizeof mine[0]), all.data());
    std::partial_sort(all.begin(), all.begin() + k, all.end());
    for (int32_t i = 0; i < k; i++) {
        ids[i] = whole_id(all[(size_t)i].id, {0, model->hp.n_vocab});
        values[i] = all[(size_t)i].logit;
    }
}

void PartKvCache::logits(int32_t row, float *out) {
    if (model->ranks) gather_logits(*this, row, 1, out);
    else part_logits(row, 1, out);
}
