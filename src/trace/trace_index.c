#include "trace/trace_events.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    ls_trace_place *p;
    size_t n;
} places;

typedef struct {
    ls_trace_place header;
    size_t first_step, n_steps; // in the index's array of steps
    size_t first_tokens;        // first line of its conversation in the index's array of tokens
} turn;

struct ls_trace_index {
    char *name;
    int fd;
    places steps, tokens, wanted;
    turn *turns;
    size_t n_turns;
};

static void add_place(places *a, ls_trace_place p) {
    a->p = ls_grown(a->p, a->n, sizeof *a->p);
    a->p[a->n++] = p;
}

static bool begins_conversation(const ls_line *header) {
    ls_json *doc;
    int64_t number = 0;
    if (ls_json_parse(&doc, header->p, header->n, "", NULL)) return true; // the reader will report the error
    ls_json_int(ls_json_get(doc, "turn"), &number);
    ls_json_free(doc);
    return number == 0;
}

static void add_line(ls_trace_index *x, ls_trace_line kind, const ls_line *line) {
    const ls_trace_place p = {line->offset, line->number};
    if (kind == LS_TRACE_HEADER) {
        const bool begins = !x->n_turns || begins_conversation(line);
        const size_t tokens = begins ? x->tokens.n : x->turns[x->n_turns - 1].first_tokens;
        x->turns = ls_realloc(x->turns, (x->n_turns + 1) * sizeof *x->turns);
        x->turns[x->n_turns++] = (turn){p, x->steps.n, 0, tokens};
    }
    if (kind == LS_TRACE_STEP) {
        x->turns[x->n_turns - 1].n_steps++;
        add_place(&x->steps, p);
    }
    if (kind == LS_TRACE_TOKENS) add_place(&x->tokens, p);
}

// The first pass, up to that step of that turn. If the input cannot seek, its lines are copied to a temporary file,
// *copy.
static ls_code pass(ls_trace_index *x, ls_trace_reader *r, const ls_lines *lines, size_t i_turn, size_t step,
                    FILE **copy, ls_err *err) {
    for (bool first = true;; first = false) {
        ls_trace_line kind;
        ls_line line;
        const ls_code code = ls_trace_read_pass(r, &kind, &line, err);
        if (code || !line.p) return code;
        if (first && kind != LS_TRACE_HEADER)
            return ls_fail(err, LS_E_PARSE, "%s:1: no header line: not a logitspec trace", x->name);
        if (first && !ls_lines_seek_works(lines) && !(*copy = tmpfile()))
            return ls_fail(err, LS_E_IO, "cannot create a temporary file for %s: %s", x->name, strerror(errno));
        if (*copy && (fwrite(line.p, 1, line.n, *copy) != line.n || putc('\n', *copy) == EOF))
            return ls_fail(err, LS_E_IO, "cannot write the temporary file for %s: %s", x->name, ls_write_reason(errno));
        add_line(x, kind, &line);
        if (i_turn < x->n_turns && step < x->turns[i_turn].n_steps) return LS_OK;
    }
}

ls_code ls_trace_index_open(ls_trace_index **out, const char *path, size_t i_turn, size_t step, ls_err *err) {
    ls_lines *lines;
    *out = NULL;
    ls_code code = ls_lines_open(&lines, path, err);
    if (code) return code;
    ls_trace_index *x = ls_calloc(1, sizeof *x);
    FILE *copy = NULL;
    x->name = ls_strdup(ls_lines_name(lines));
    ls_trace_reader *r = ls_trace_read_of(lines);
    code = pass(x, r, lines, i_turn, step, &copy, err);
    if (!code && copy && fflush(copy))
        code = ls_fail(err, LS_E_IO, "cannot write the temporary file: %s", ls_write_reason(errno));
    if (!code && !x->n_turns) code = ls_fail(err, LS_E_PARSE, "%s: not a trace: it has no complete line", x->name);
    x->fd = code ? -1 : dup(copy ? fileno(copy) : ls_lines_fd(lines));
    if (!code && x->fd < 0) code = ls_fail(err, LS_E_IO, "cannot read %s: %s", x->name, strerror(errno));
    if (copy) fclose(copy);
    ls_trace_read_close(r);
    if (code) ls_trace_index_close(x);
    else *out = x;
    return code;
}

void ls_trace_index_close(ls_trace_index *x) {
    if (!x) return;
    if (x->fd >= 0) close(x->fd);
    free(x->steps.p);
    free(x->tokens.p);
    free(x->wanted.p);
    free(x->turns);
    free(x->name);
    free(x);
}

size_t ls_trace_index_turns(const ls_trace_index *x) {
    return x->n_turns;
}

size_t ls_trace_index_steps(const ls_trace_index *x, size_t i) {
    return x->turns[i].n_steps;
}

ls_code ls_trace_index_events(ls_trace_index *x, size_t i_turn, size_t step, size_t before, ls_trace_events **out,
                              ls_err *err) {
    const turn *t = &x->turns[i_turn];
    const size_t last = t->first_step + step, first = step > before ? last - before : t->first_step;
    ls_lines *lines;
    *out = NULL;
    x->wanted.n = 0;
    add_place(&x->wanted, t->header);
    for (size_t i = t->first_tokens; i < x->tokens.n && x->tokens.p[i].number < x->steps.p[last].number; i++)
        add_place(&x->wanted, x->tokens.p[i]);
    for (size_t i = first; i <= last; i++) add_place(&x->wanted, x->steps.p[i]);
    const ls_code code = ls_lines_of(&lines, dup(x->fd), x->name, err);
    if (code) return code;
    ls_trace_reader *r = ls_trace_read_of(lines);
    ls_trace_read_places(r, x->wanted.p, x->wanted.n);
    *out = ls_trace_events_of(r);
    return LS_OK;
}
