#include "model/checkpoint_internal.h"
#include "base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KINDS = 1000, NAMED = 4 }; // NAMED: kinds in a message

void ls_tensor_kinds_add(ls_tensor_kinds *k, ls_str name) {
    char kind[160];
    size_t to = 0;
    for (size_t i = 0; i < name.n && to + 1 < sizeof kind; i++) {
        const bool number = (!i || name.p[i - 1] == '.') && isdigit((unsigned char)name.p[i]);
        if (number) {
            while (i + 1 < name.n && isdigit((unsigned char)name.p[i + 1])) i++;
            kind[to++] = '0';
        } else kind[to++] = isgraph((unsigned char)name.p[i]) ? name.p[i] : '?';
    }
    kind[to] = 0;
    for (int i = 0; i < k->n; i++)
        if (!strcmp(k->names[i], kind)) return;
    if (k->n == MOST_KINDS) return;
    k->names = ls_grown(k->names, (size_t)k->n, sizeof *k->names);
    k->names[k->n++] = ls_strdup(kind);
}

void ls_tensor_kinds_free(ls_tensor_kinds *k) {
    for (int i = 0; i < k->n; i++) free(k->names[i]);
    free(k->names);
    *k = (ls_tensor_kinds){0};
}

// What the message names: at most NAMED kinds, and how many there are.
typedef struct {
    char text[240];
    int n;
} listing;

static void list(listing *l, const char *kind) {
    static const char *const prefixes[] = {"language_model.", "model.", "language_model.", "layers.0.", "blk.0."};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (ls_behind(kind, prefixes[i])) kind = ls_behind(kind, prefixes[i]);
    const size_t shown = strlen(kind) - (ls_ends_with(kind, ".weight") ? strlen(".weight") : 0);
    const size_t used = strlen(l->text);
    if (l->n++ < NAMED)
        snprintf(l->text + used, sizeof l->text - used, "%s%.*s", used ? ", " : "", (int)(shown < 50 ? shown : 50),
                 kind);
}

// Compares the tensors with those of an architecture; returns how many kinds differ.
static int compare(const ls_tensor_kinds *k, const ls_arch *a, bool hf, listing *more, listing *less) {
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down", "ffn_gate"};
    bool norms[8] = {0}, has[sizeof parts / sizeof *parts] = {0};
    char name[160], wanted[64];
    *more = *less = (listing){0};
    for (int i = 0; i < k->n; i++) {
        if (!hf) snprintf(name, sizeof name, "%s", k->names[i]);
        const bool known =
            (!hf || ls_tensor_name(a, k->names[i], name, sizeof name)) && (!*name || ls_tensor_known(a, name, 1));
        if (!known) list(more, k->names[i]);
        for (int j = 0; known && ls_arch_norm(a, j); j++) {
            snprintf(wanted, sizeof wanted, "blk.0.%s.weight", ls_arch_norm(a, j));
            norms[j] |= !strcmp(name, wanted);
        }
        for (size_t j = 0; known && j < sizeof parts / sizeof *parts; j++) {
            snprintf(wanted, sizeof wanted, "blk.0.%s.weight", parts[j]);
            const bool fused = j < 3 && !strcmp(name, "blk.0.attn_qkv.weight"); // which Phi's files have
            const bool of_expert = j > 3 && a->router &&
                                   (strstr(name, "_exps.weight") || strstr(name, ".0.weight")); // of any of its parts
            has[j] |= fused || of_expert || (!strcmp(name, wanted) && !(j < 3 && a->long_rope));
        }
    }
    for (int j = 0; ls_arch_norm(a, j); j++)
        if (!norms[j]) list(less, ls_arch_norm(a, j));
    for (size_t j = 0; j < sizeof parts / sizeof *parts; j++) {
        const bool gate = !strcmp(parts[j], "ffn_gate"); // or it is a part of ffn_up
        if (!has[j] && !(gate && (a->ungated || a->long_rope || a->post_is_before))) list(less, parts[j]);
    }
    return more->n + less->n;
}

static size_t common(ls_str a, const char *b) { // length of the common beginning
    size_t i = 0;
    while (i < a.n && a.p[i] && a.p[i] == b[i]) i++;
    return i;
}

static void say_listing(ls_buf *out, const char *verb, const listing *l) {
    if (!l->n) return;
    ls_buf_fmt(out, "%s %s %s", out->n ? " and" : "", verb, l->text);
    if (l->n > NAMED) ls_buf_fmt(out, " (%d more)", l->n - NAMED);
}

void ls_nearest_say(const ls_tensor_kinds *k, ls_str name, bool hf, ls_err *err) {
    static const struct {
        const char *name, *what;
    } others[] = {
        {"clip", "the file is the part of a model that sees pictures: name the file of its text part"},
        {"eagle3", "the file is a draft head: name it by --draft-head, with the model that it was trained for"}};
    const ls_arch *best = NULL;
    int distance = 0;
    listing more = {0}, less = {0};
    ls_buf text = {0}, differs = {0};
    for (size_t i = 0; i < sizeof others / sizeof *others && !hf; i++)
        if (ls_str_is(name, others[i].name)) {
            ls_err_suffix(err, others[i].what);
            return;
        }
    for (const ls_arch *a = ls_archs; a->gguf && k->n; a++) {
        listing m, l;
        // three letters of a common name count as much as a kind of tensors
        const int d = 3 * compare(k, a, hf, &m, &l) - (int)common(name, hf ? a->hf : a->gguf);
        if (best && d >= distance) continue;
        best = a;
        distance = d;
        more = m;
        less = l;
    }
    if (best) {
        say_listing(&differs, "has", &more);
        say_listing(&differs, "lacks", &less);
        ls_buf_fmt(&text, "the nearest is %s, but this model%s; ", hf ? best->hf : best->gguf,
                   differs.n ? differs.p : " may compute otherwise, although it has the same tensors");
    }
    ls_buf_str(&text, "'logitspec models list --architectures' lists what is supported");
    ls_err_suffix(err, text.p);
    ls_buf_free(&text);
    ls_buf_free(&differs);
}
