#include "spec/recall.h"
#include "base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Numbers of a token; levels of a probability's square root. A level must pass for a token of any vocabulary.
enum { WIDTH = 1 + 2 * LS_ROW_TOP, LEVELS = 64 };
static const char kind[] = "memory";

static void encode(int32_t number[WIDTH], int32_t token, const ls_successor *next) {
    int32_t j = 0;
    memset(number, 0, WIDTH * sizeof *number);
    number[0] = token;
    for (; j < LS_ROW_TOP && next->id[j] >= 0; j++) {
        number[1 + j] = next->id[j];
        number[1 + LS_ROW_TOP + j] = 1 + (int32_t)(sqrtf(ls_successor_p(next, j)) * (LEVELS - 1)); // 0: no more tokens
    }
}

// False: there is no whole token.
static bool decode(const int32_t *number, size_t n, ls_successor *next) {
    for (size_t i = 0; i < WIDTH; i++)
        if (i >= n || number[i] < 0) return false;
    for (int32_t j = 0; j < LS_ROW_TOP; j++) {
        const int32_t level = number[1 + LS_ROW_TOP + j];
        const bool is = level && level <= LEVELS;
        const float root = is ? (float)(level - 1) / (LEVELS - 1) : 0;
        ls_successor_set(next, j, is ? number[1 + j] : -1, root * root);
    }
    return true;
}

// Tokens after a break are whole; the stream may have been cut within the first ones.
static void fill(ls_searcher *s, const ls_ids *ids) {
    int32_t tail[LS_SUCCESSORS_ORDER], n = 0;
    ls_successor next;
    size_t i = 0;
    while (i < ids->n && ids->p[i] >= 0) i++;
    while (i < ids->n) {
        if (!decode(ids->p + i, ids->n - i, &next)) {
            n = 0;
            for (i++; i < ids->n && ids->p[i - 1] >= 0; i++) {
            }
            continue;
        }
        if (n == LS_SUCCESSORS_ORDER) memmove(tail, tail + 1, (size_t)(--n) * sizeof *tail);
        tail[n++] = ids->p[i];
        ls_evidence_remember(&s->e, tail, n, -1, &next);
        i += WIDTH;
    }
}

// The file of the model in one of the user's folders; NULL: there is no such folder.
static char *place(const char *variable, const char *fallback, const char *folder, const ls_draft_setup *setup) {
    char name[80];
    snprintf(name, sizeof name, "%s/%016" PRIx64 "-%016" PRIx64, folder, setup->tokenizer_id,
             ls_hash_bytes(setup->tokenizer, strlen(setup->tokenizer)));
    return ls_user_path(variable, fallback, name);
}

ls_code ls_recall_open(ls_recall *r, ls_searcher *s, const char *path, const ls_draft_setup *setup, ls_err *err) {
    char *own = NULL;
    if (path && !strcmp(path, "auto")) {
        path = own = place("XDG_STATE_HOME", ".local/state", "drafts", setup);
        if (own && !setup->read_only) ls_make_folders(own);
    }
    r->broken = true;
    const ls_code code = ls_stream_open(&r->stream, kind, path, (size_t)LS_RECALL_TOKENS * WIDTH, setup, err);
    free(own);
    if (setup->n_vocab) fill(s, &r->stream.ids); // its tokens were checked against the vocabulary
    return code;
}

void ls_recall_learn(ls_recall *r, const ls_draft_result *result) {
    const int32_t stop = LS_STREAM_BREAK;
    int32_t number[WIDTH];
    for (int32_t i = 0; r->stream.path && i < result->tree->n; i++) {
        const ls_node *n = &result->tree->nodes[i];
        if (n->state != LS_NODE_ACCEPTED) continue;
        const ls_successor next = ls_successors_of(n);
        encode(number, n->token, &next);
        if (r->broken) ls_stream_add(&r->stream, &stop, 1);
        r->broken = false;
        ls_stream_add(&r->stream, number, WIDTH);
    }
}

// ---- bigrams

static const char bigrams[] = "bigram-table";
enum { BIGRAM = WIDTH + 1, MOST_NUMBERS = LS_BIGRAMS * BIGRAM }; // and a break

static char *bigrams_place(const ls_draft_setup *setup) {
    return place("XDG_CACHE_HOME", ".cache", "bigrams", setup);
}

static int32_t tokens_of(const ls_stream *file) {
    return (int32_t)(file->ids.n / BIGRAM);
}

int32_t ls_bigrams_kept(const ls_draft_setup *setup) {
    ls_stream file;
    ls_err none;
    char *path = bigrams_place(setup);
    int32_t n = 0;
    if (path && !ls_stream_read(&file, bigrams, path, MOST_NUMBERS, setup, &none)) n = tokens_of(&file);
    if (path) ls_stream_close(&file);
    free(path);
    return n;
}

ls_code ls_bigrams_read(ls_searcher *s, const char *path, const ls_draft_setup *setup, uint64_t *sum, bool *lacks,
                        ls_err *err) {
    ls_stream file;
    ls_err why = {0};
    *sum = 0;
    *lacks = false;
    if (!setup->n_vocab || (path && !strcmp(path, "none"))) return LS_OK;
    char *own = path && *path ? NULL : bigrams_place(setup);
    if (!own && (!path || !*path)) return LS_OK;
    *lacks = own != NULL;
    if (own && access(own, F_OK)) {
        free(own);
        return LS_OK;
    }
    ls_code code = ls_stream_read(&file, bigrams, own ? own : path, MOST_NUMBERS, setup, &why);
    if (!code) {
        fill(s, &file.ids);
        *sum = file.sum;
        *lacks &= tokens_of(&file) < (setup->n_vocab < LS_BIGRAMS ? setup->n_vocab : LS_BIGRAMS);
    } else if (own) { // drafts do without
        char text[600];
        snprintf(text, sizeof text, "%s; it is not used: doctor --bigrams writes it anew", why.msg);
        if (setup->note) setup->note(setup->ud, text);
        code = LS_OK;
    } else ls_fail(err, code, "%s", why.msg);
    ls_stream_close(&file);
    free(own);
    return code;
}

static void take_error(void *ud, const char *text) {
    ls_fail(ud, LS_E_IO, "%s", text);
}

ls_code ls_bigrams_write(const ls_successor *next, int32_t from, int32_t n, const ls_draft_setup *setup, char **path,
                         ls_err *err) {
    const int32_t stop = LS_STREAM_BREAK;
    ls_err why = {0};
    ls_draft_setup own = *setup;
    ls_stream file;
    own.note = take_error, own.ud = &why, own.read_only = false;
    *path = bigrams_place(setup);
    if (!*path) return ls_fail(err, LS_E_IO, "bigrams need a cache folder: set HOME or XDG_CACHE_HOME");
    ls_make_folders(*path);
    // from 0 the limit has no room for what it had
    ls_code code = ls_stream_open(&file, bigrams, *path, from ? MOST_NUMBERS : (size_t)n * BIGRAM, &own, &why);
    if (!code) why = (ls_err){0}; // a damaged file is replaced
    for (int32_t i = 0; i < n && !code; i++) {
        int32_t number[WIDTH];
        encode(number, from + i, &next[i]);
        ls_stream_add(&file, &stop, 1);
        ls_stream_add(&file, number, WIDTH);
    }
    ls_stream_close(&file);
    if (!code) code = why.code;
    if (code) {
        ls_fail(err, code, "%s", why.msg);
        free(*path);
        *path = NULL;
    }
    return code;
}
