// Unigram: the segmentation with the greatest sum of scores, by Viterbi's algorithm. Reference: sentencepiece's
// unigram_model.cc (EncodeOptimized) and tokenizers' port of it.
#include "base/mem.h"
#include "base/utf8.h"
#include "text/vocab_internal.h"

static void reach(const ls_vocab *v, ls_path_end *end, double score, int32_t id, size_t start) {
    if (v->sentencepiece) score = (double)(float)score;
    if (end->start >= 0 && !(score > end->score)) return;
    *end = (ls_path_end){score, id, (int32_t)start};
}

void ls_unigram_encode(ls_encoder *e, const char *p, size_t n) {
    const ls_vocab *v = e->v;
    if (n + 1 > e->cap_ends) {
        e->cap_ends = 2 * (n + 1);
        e->ends = ls_realloc(e->ends, e->cap_ends * sizeof *e->ends);
    }
    ls_path_end *ends = e->ends;
    for (size_t i = 0; i <= n; i++) ends[i] = (ls_path_end){0, -1, -1};
    for (size_t at = 0; at < n;) {
        if (ls_encode_stops(e)) return;
        const double score = ends[at].score;
        const size_t character = (size_t)ls_utf8_decode(p + at, n - at, NULL);
        bool single = false;
        int32_t node = 0;
        for (size_t i = at; i < n && (node = ls_trie_step(&v->pieces, node, p[i])) >= 0; i++) {
            const int32_t id = v->pieces.value.p[node];
            if (id < 0) continue;
            reach(v, &ends[i + 1], score + v->scores[id], id, at);
            single = single || i + 1 - at == character;
        }
        if (!single) reach(v, &ends[at + character], score + v->unk_score, -1, at);
        at += character;
    }
    // Viterbi gives the path from its end: link it backwards, then walk forwards with `start` as the next place
    size_t next = n;
    for (size_t at = n; at > 0;) {
        const size_t start = (size_t)ends[at].start;
        ends[at].start = (int32_t)next;
        next = at;
        at = start;
    }
    for (size_t at = 0, end = next; at < n;) {
        size_t unknown = end;
        while (unknown < n && ends[unknown].id < 0 && ends[ends[unknown].start].id < 0)
            unknown = (size_t)ends[unknown].start;
        if (ends[end].id >= 0) ls_push_id(e, ends[end].id);
        else ls_push_unknown(e, p + at, unknown - at);
        at = ends[end].id >= 0 ? end : unknown;
        end = (size_t)ends[at].start;
    }
}
