// The corpus: against a search by brute force, and files that are not what they should be.
#include "base/mem.h"
#include "base/rng.h"
#include "drafters.h"
#include "spec/corpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { N = 3000 };
static char path[64];
static int32_t text[N];

static void write_corpus(int32_t kinds, int32_t threads) {
    for (int32_t i = 0; i < N; i++) text[i] = (int32_t)(ls_uniform_at(31, (uint64_t)i) * kinds);
    for (int32_t i = 500; i < N; i += 500) text[i] = LS_CORPUS_BREAK;
    memcpy(text + 2000 + 100, text + 1000 + 100, 200 * sizeof *text); // a long repetition
    ls_err err = {0};
    const ls_corpus_facts f = {.n = N, .n_vocab = kinds + 3, .tokenizer_id = 77, .tokenizer = "some model"};
    if (ls_corpus_write(path, text, &f, threads, NULL, NULL, &err)) fail_msg("%s", err.msg);
}

static int32_t occurrences(const int32_t *gram, int32_t n, int32_t next) { // followed by next; -2: by anything
    int32_t k = 0;
    for (int32_t i = 0; i + n <= N; i++) {
        if (memcmp(text + i, gram, (size_t)n * sizeof *gram)) continue;
        k += next == -2 || (i + n < N ? text[i + n] : LS_CORPUS_BREAK) == next;
    }
    return k;
}

static void look_ups_equal_a_search(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        write_corpus(round % 2 ? 5 : 60, 1 + round);
        ls_corpus *c;
        assert_int_equal(ls_corpus_open(&c, path, NULL), LS_OK);
        assert_int_equal(c->facts.n, N);
        assert_string_equal(c->facts.tokenizer, "some model");
        for (int k = 0; k < 300; k++) {
            int32_t tail[16], length;
            const int32_t at = (int32_t)(ls_uniform_at(32, (uint64_t)k) * (N - 20));
            memcpy(tail, text + at, sizeof tail);
            if (k % 3 == 0) tail[7] = 1;                                      // something else before the end
            for (int i = 0; i < 16; i++) tail[i] = tail[i] < 0 ? 2 : tail[i]; // a conversation has no breaks
            const ls_corpus_range r = ls_corpus_find(c, tail, 16, 12, &length);
            int32_t want = 0;
            while (want < 12 && occurrences(tail + 15 - want, want + 1, -2)) want++;
            assert_int_equal(length, want);
            assert_int_equal(r.hi - r.lo, want ? occurrences(tail + 16 - want, want, -2) : 0);
            for (int32_t i = r.lo; i < r.hi;) { // its continuations, each with its count, in order
                int32_t token, last = -2;
                const ls_corpus_range next = ls_corpus_next(c, r, length, i, &token);
                assert_true(token > last);
                assert_int_equal(next.lo, i);
                assert_int_equal(next.hi - next.lo, occurrences(tail + 16 - want, want, token));
                last = token;
                i = next.hi;
            }
        }
        ls_corpus_close(c);
    }
}

static void the_same_text_gives_the_same_file(void **state) {
    (void)state;
    unsigned char *first = NULL;
    long size = 0;
    for (int32_t threads = 1; threads <= 4; threads++) {
        write_corpus(5, threads);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        fseek(f, 0, SEEK_END);
        size = ftell(f);
        rewind(f);
        unsigned char *bytes = ls_malloc((size_t)size);
        assert_int_equal(fread(bytes, 1, (size_t)size, f), size);
        fclose(f);
        if (first) assert_memory_equal(bytes, first, (size_t)size);
        free(first);
        first = bytes;
    }
    free(first);
}

static void one_token_repeated_is_sorted_in_time(void **state) {
    (void)state;
    enum { MANY = 200000 };
    int32_t *same = ls_calloc(MANY, sizeof *same);
    const ls_corpus_facts f = {.n = MANY, .n_vocab = 2};
    assert_int_equal(ls_corpus_write(path, same, &f, 2, NULL, NULL, NULL), LS_OK);
    ls_corpus *c;
    int32_t length;
    assert_int_equal(ls_corpus_open(&c, path, NULL), LS_OK);
    const ls_corpus_range r = ls_corpus_find(c, same, 20, 16, &length);
    assert_int_equal(length, 16);
    assert_int_equal(r.hi - r.lo, MANY - 15);
    ls_corpus_close(c);
    free(same);
}

static void rest_drafts_what_followed_in_the_corpus(void **state) {
    (void)state;
    write_corpus(60, 2);
    ls_knob_value knobs[] = {{0, path}, {16, NULL}, {10, NULL}};
    ls_draft_setup setup = {.knobs = knobs, .tokenizer = "test", .tokenizer_id = 77};
    ls_drafter *d;
    ls_err err;
    assert_int_equal(ls_drafter_make(&d, ls_method_find("rest"), &setup, &err), LS_OK);
    ls_tree t = test_tree();
    d->propose(d, &(ls_draft_state){text + 1200, 20, text[1220], NULL, NULL, 0, NULL}, 64, &t); // in the repetition
    assert_int_equal(t.n, 11);
    for (int32_t i = 1; i < t.n; i++) assert_int_equal(t.nodes[i].token, text[1220 + i]);
    assert_int_equal(t.nodes[1].match_n, 16);
    assert_int_equal(t.nodes[1].from, LS_SOURCE_CORPUS);
    int32_t common[] = {0, 0}; // after two tokens: by counts
    for (int32_t i = 0; i + 1 < N; i++)
        if (text[i] >= 0 && text[i + 1] >= 0 && occurrences(text + i, 2, -2) > occurrences(common, 2, -2))
            memcpy(common, text + i, sizeof common);
    const int32_t unseen[] = {61, common[0]};
    d->propose(d, &(ls_draft_state){unseen, 2, common[1], NULL, NULL, 0, NULL}, 30, &t);
    assert_int_equal(t.nodes[1].match_n, 2);
    assert_int_equal(t.n, 30);
    const int32_t all = occurrences(common, 2, -2);
    double least = 1;
    for (int32_t i = 1; i < t.n; i++) { // every path's share; nothing that is left out has a larger one
        double whole = 1;
        for (int32_t at = i; at > 0; at = t.nodes[at].parent) whole *= (double)t.nodes[at].est_p;
        if (t.nodes[i].parent == 0)
            assert_float_equal(whole, (double)occurrences(common, 2, t.nodes[i].token) / all, 1e-6);
        least = whole < least ? whole : least;
    }
    for (int32_t token = 0; token < 60; token++) {
        bool drafted = false;
        for (int32_t i = 1; i < t.n; i++) drafted |= t.nodes[i].parent == 0 && t.nodes[i].token == token;
        if (!drafted) assert_true((double)occurrences(common, 2, token) / all <= least + 1e-6);
    }
    const int32_t alone[] = {61, 61};
    d->propose(d, &(ls_draft_state){alone, 2, common[1], NULL, NULL, 0, NULL}, 30, &t);
    assert_int_equal(t.n, 1); // one token is no ending to look up
    d->free(d);
    setup.tokenizer_id = 78; // another vocabulary
    assert_int_equal(ls_drafter_make(&d, ls_method_find("rest"), &setup, &err), LS_E_USAGE);
    assert_non_null(strstr(err.msg, "built with the tokenizer of some model, but the model has that of test"));
    knobs[0].text = "";
    assert_int_equal(ls_drafter_make(&d, ls_method_find("rest"), &setup, &err), LS_E_USAGE);
    assert_non_null(strstr(err.msg, "corpus build"));
}

static bool never(void *ud, const char *stage, double fraction) {
    (void)ud, (void)fraction;
    assert_string_equal(stage, "sorting");
    return false;
}

static void bad_files_are_refused(void **state) {
    (void)state;
    ls_err err;
    ls_corpus *c;
    assert_int_equal(ls_corpus_open(&c, "/nowhere/corpus", &err), LS_E_IO);
    struct {
        long at, cut;
        const char *bytes, *message;
    } const damage[] = {
        {0, 0, "X", "not a corpus"},
        {8, 0, "\x09", "another version"},
        {0, 5, NULL, "cut short"},
        {0, 12000, NULL, "cut short"},
        {16, 0, "\xff\xff", "cut short"},
        {16, 0, "\xff\xff\xff\xff\xff\xff\xff\xff", "cut short"},
        {24, 0, "\xff\xff\xff\xff\xff\xff\xff\x7f", "cut short"},
        {32, 0, "\xff\xff\xff\x7f", "cut short"},
    };
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        write_corpus(60, 2);
        FILE *f = fopen(path, "r+");
        assert_non_null(f);
        fseek(f, 0, SEEK_END);
        if (damage[i].cut) assert_int_equal(ftruncate(fileno(f), ftell(f) - damage[i].cut), 0);
        fseek(f, damage[i].at, SEEK_SET);
        if (damage[i].bytes) fwrite(damage[i].bytes, 1, strlen(damage[i].bytes), f);
        fclose(f);
        assert_int_equal(ls_corpus_open(&c, path, &err), LS_E_PARSE);
        if (!strstr(err.msg, damage[i].message)) fail_msg("%zu: %s", i, err.msg);
    }
    // damage behind the header cannot be seen, and must not be fatal: wrong drafts at worst
    write_corpus(60, 2);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fseek(f, 200, SEEK_SET);
    for (int i = 0; i < 20000; i++) fputc((int)(ls_uniform_at(41, (uint64_t)i) * 256), f);
    fclose(f);
    if (!ls_corpus_open(&c, path, &err)) {
        for (int k = 0; k < 500; k++) {
            int32_t tail[16], length, token;
            for (int i = 0; i < 16; i++) tail[i] = (int32_t)(ls_uniform_at(42, (uint64_t)(k * 16 + i)) * 62);
            const ls_corpus_range r = ls_corpus_find(c, tail, 16, 16, &length);
            if (r.lo < r.hi) {
                ls_corpus_next(c, r, length, r.lo, &token);
                assert_in_range(token + 1, 0, 63);
            }
        }
        ls_corpus_close(c);
    }
    const ls_corpus_facts none = {.n = 3, .n_vocab = 10};
    const int32_t breaks[] = {-1, -1, -1}, wild[] = {1, 2, 10};
    assert_int_equal(ls_corpus_write(path, breaks, &none, 1, NULL, NULL, &err), LS_E_RANGE);
    assert_int_equal(ls_corpus_write(path, wild, &none, 1, NULL, NULL, &err), LS_E_RANGE);
    assert_int_equal(ls_corpus_write(path, (int32_t[]){1, 2, 3}, &none, 2, never, NULL, &err), LS_E_CANCELLED);
    assert_int_equal(ls_corpus_write("/nowhere/c", (int32_t[]){1, 2, 3}, &none, 1, NULL, NULL, &err), LS_E_IO);
}

static void rest_counts_the_first_five_thousand(void **state) {
    (void)state;
    enum { EACH = 6000 };
    int32_t *three = ls_malloc(sizeof *three * 4 * 2 * EACH);
    for (int32_t i = 0; i < 2 * EACH; i++)
        memcpy(three + 4 * i, (int32_t[]){1, 2, 3 + i % 2, LS_CORPUS_BREAK}, 4 * sizeof *three);
    const ls_corpus_facts f = {.n = 8 * EACH, .n_vocab = 10};
    assert_int_equal(ls_corpus_write(path, three, &f, 2, NULL, NULL, NULL), LS_OK);
    free(three);
    ls_knob_value knobs[] = {{0, path}, {16, NULL}, {10, NULL}};
    ls_draft_setup setup = {.knobs = knobs, .tokenizer = ""};
    ls_drafter *d;
    ls_tree t = test_tree();
    assert_int_equal(ls_drafter_make(&d, ls_method_find("rest"), &setup, NULL), LS_OK);
    d->propose(d, &(ls_draft_state){(int32_t[]){1}, 1, 2, NULL, NULL, 0, NULL}, 30, &t);
    assert_int_equal(t.n, 2); // the suffixes that go on with 3 are the first in their order
    assert_int_equal(t.nodes[1].token, 3);
    assert_true(t.nodes[1].est_p == 1);
    d->free(d);
}

static int clean_up(void **state) {
    (void)state;
    return unlink(path);
}

int main(void) {
    snprintf(path, sizeof path, "/tmp/logitspec-corpus-%d", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(look_ups_equal_a_search),
        cmocka_unit_test(the_same_text_gives_the_same_file),
        cmocka_unit_test(one_token_repeated_is_sorted_in_time),
        cmocka_unit_test(rest_drafts_what_followed_in_the_corpus),
        cmocka_unit_test(rest_counts_the_first_five_thousand),
        cmocka_unit_test(bad_files_are_refused),
    };
    return cmocka_run_group_tests_name("corpus", tests, NULL, clean_up);
}
