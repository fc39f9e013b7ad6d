#include "base/mem.h"
#include "text/jinja_internal.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEMPLATE = 1 << 20, MAX_MEMORY = 16 << 20, MAX_STEPS = 200000, MAX_BLOCKS = 40 };

typedef struct {
    enum { TEXT, PRINT, TAG } kind;
    const char *p, *end; // of a tag: what is between its marks
} node;

typedef struct {
    jvm vm;
    node *nodes;
    size_t n, cap;
    ls_buf *out;
    int blocks; // nested
    bool breaking, continuing;
} run;

// ---- values

void j_fail(jvm *m, ls_code code, const char *fmt, ...) {
    if (m->code) return;
    m->code = code;
    int line = 1;
    for (const char *q = m->text; q < m->p; q++) line += *q == '\n';
    int n = snprintf(m->msg, sizeof m->msg, "line %d: ", line);
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->msg + n, sizeof m->msg - (size_t)n, fmt, args);
    va_end(args);
}

void *j_alloc(jvm *m, size_t n) {
    if (n > 64 && (n > MAX_MEMORY || m->used + n > MAX_MEMORY)) {
        j_fail(m, LS_E_RANGE, "more than %d bytes of values", MAX_MEMORY);
        return NULL;
    }
    jblock *b = ls_calloc(1, sizeof *b + n);
    b->next = m->memory;
    m->memory = b;
    m->used += n + sizeof *b;
    return b + 1;
}

jvalue j_str(jvm *m, const char *p, size_t n) {
    char *s = j_alloc(m, n);
    if (!s) return (jvalue){.kind = J_STRING, .s = {"", 0}};
    if (n) memcpy(s, p, n);
    return (jvalue){.kind = J_STRING, .s = {s, n}};
}

jvalue j_bool(bool b) {
    return (jvalue){.kind = J_BOOL, .i = b};
}
jvalue j_int(int64_t i) {
    return (jvalue){.kind = J_INT, .i = i};
}

bool j_true(const jvalue *v) {
    switch (v->kind) {
    case J_BOOL:
    case J_INT: return v->i != 0;
    case J_STRING: return v->s.n != 0;
    case J_LIST: return v->n != 0;
    case J_DICT: return v->dict->n != 0;
    default: return false;
    }
}

void j_print(jvm *m, const jvalue *v, ls_buf *out) {
    if (v->kind == J_STRING) ls_buf_add(out, v->s.p, v->s.n);
    else if (v->kind == J_INT) ls_buf_fmt(out, "%lld", (long long)v->i);
    else if (v->kind == J_BOOL) ls_buf_str(out, v->i ? "True" : "False");
    else if (v->kind == J_NONE) ls_buf_str(out, "None");
    else if (v->kind != J_UNDEFINED) j_fail(m, LS_E_UNSUPPORTED, "a list or a dictionary as text");
}

const jvalue *j_get(const jdict *d, const char *key, size_t n) {
    for (size_t i = 0; i < d->n; i++)
        if (d->keys[i].n == n && !memcmp(d->keys[i].p, key, n)) return &d->values[i];
    return NULL;
}

void j_put(jvm *m, jdict *d, ls_str key, jvalue v) {
    jvalue *old = (jvalue *)j_get(d, key.p, key.n);
    if (old) {
        *old = v;
        return;
    }
    assert(d->cap ? d->keys && d->values && d->n <= d->cap : !d->n);
    if (d->n == d->cap) {
        size_t cap = d->cap * 2 + 8;
        ls_str *keys = j_alloc(m, cap * sizeof *keys);
        jvalue *values = j_alloc(m, cap * sizeof *values);
        if (!keys || !values) return;
        if (d->cap) memcpy(keys, d->keys, d->n * sizeof *keys), memcpy(values, d->values, d->n * sizeof *values);
        *d = (jdict){keys, values, d->n, cap};
    }
    d->keys[d->n] = key;
    d->values[d->n++] = v;
}

jvar *j_find(jvm *m, ls_str name) {
    for (size_t i = m->n_vars; i-- > 0;)
        if (m->vars[i].name.n == name.n && !memcmp(m->vars[i].name.p, name.p, name.n)) return &m->vars[i];
    return NULL;
}

static void set_var(jvm *m, ls_str name, jvalue v) {
    jvar *old = j_find(m, name);
    if (old && old >= m->vars + m->scope) {
        old->value = v;
        return;
    }
    if (m->n_vars == m->cap_vars) {
        m->cap_vars = m->cap_vars * 2 + 16;
        m->vars = ls_realloc(m->vars, m->cap_vars * sizeof *m->vars);
    }
    m->vars[m->n_vars++] = (jvar){name, v};
}

static ls_str lit(const char *s) {
    return (ls_str){s, strlen(s)};
}

// ---- lexing inside a tag

void j_space(jvm *m) {
    while (m->p < m->end && isspace((unsigned char)*m->p)) m->p++;
}

bool j_take(jvm *m, const char *op) {
    j_space(m);
    size_t n = strlen(op);
    if ((size_t)(m->end - m->p) < n || memcmp(m->p, op, n)) return false;
    m->p += n;
    return true;
}

ls_str j_name(jvm *m) {
    j_space(m);
    const char *from = m->p;
    if (m->p < m->end && (isalpha((unsigned char)*m->p) || *m->p == '_'))
        while (m->p < m->end && (isalnum((unsigned char)*m->p) || *m->p == '_')) m->p++;
    return (ls_str){from, (size_t)(m->p - from)};
}

bool j_word(jvm *m, const char *word) {
    const char *was = m->p;
    ls_str s = j_name(m);
    if (s.n == strlen(word) && !memcmp(s.p, word, s.n)) return true;
    m->p = was;
    return false;
}

// ---- the template as text and tags

static void push(run *r, int kind, const char *p, const char *end) {
    if (kind == TEXT && p >= end) return;
    if (r->n == r->cap) {
        r->cap = r->cap * 2 + 64;
        r->nodes = ls_realloc(r->nodes, r->cap * sizeof *r->nodes);
    }
    r->nodes[r->n++] = (node){kind, p, end};
}

// The first of "{{", "{%" and "{#", or end.
static const char *next_tag(const char *p, const char *end) {
    for (; p + 1 < end; p++)
        if (*p == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#')) return p;
    return end;
}

// The mark that closes the tag opened before p, or NULL. Strings and nested braces are stepped over.
static const char *close_of(const char *p, const char *end, char opened) {
    if (opened == '#') return memmem(p, (size_t)(end - p), "#}", 2);
    int braces = 0;
    for (; p + 1 < end; p++) {
        if (*p == '\'' || *p == '"') {
            char quote = *p;
            for (p++; p < end && *p != quote; p++) p += *p == '\\';
            if (p >= end) return NULL;
        } else if (opened == '%' && p[0] == '%' && p[1] == '}') return p;
        else if (*p == '{') braces++;
        else if (*p == '}' && braces) braces--;
        else if (opened == '{' && p[0] == '}' && p[1] == '}') return p;
    }
    return NULL;
}

static void read_nodes(run *r, const char *p, const char *end) {
    const char *start = p;
    bool eat = false; // the white space before the next text: the last tag ended in "-"
    while (p < end && !r->vm.code) {
        const char *tag = next_tag(p, end);
        const char *from = p, *to = tag;
        while (eat && from < to && isspace((unsigned char)*from)) from++;
        eat = false;
        if (tag == end) {
            push(r, TEXT, from, to);
            return;
        }
        char opened = tag[1];
        const char *inside = tag + 2, *close;
        bool minus = inside < end && *inside == '-', plus = inside < end && *inside == '+';
        inside += minus || plus;
        if (minus)
            while (to > from && isspace((unsigned char)to[-1])) to--;
        else if (opened != '{' && !plus) { // lstrip_blocks: blanks between the line's start and a block are not text
            const char *q = to;
            while (q > from && (q[-1] == ' ' || q[-1] == '\t')) q--;
            if (q == start || q[-1] == '\n') to = q;
        }
        push(r, TEXT, from, to);
        r->vm.p = tag;
        close = inside <= end ? close_of(inside, end, opened) : NULL;
        if (!close) {
            j_fail(&r->vm, LS_E_PARSE, "a tag that is not closed");
            return;
        }
        p = close + 2;
        if (close > inside && close[-1] == '-') {
            eat = true;
            close--;
        } else if (close > inside && close[-1] == '+') close--;
        else if (opened != '{' && p < end && *p == '\n') p++; // trim_blocks
        if (opened != '#') push(r, opened == '{' ? PRINT : TAG, inside, close);
    }
}

// ---- statements

static void enter(run *r, size_t at) {
    r->vm.p = r->nodes[at].p;
    r->vm.end = r->nodes[at].end;
    r->vm.depth = 0;
}

static void tag_ends(run *r) {
    j_space(&r->vm);
    if (!r->vm.code && r->vm.p < r->vm.end) j_fail(&r->vm, LS_E_PARSE, "'%c' is not expected", *r->vm.p);
}

// Is the tag at `at` named so? Then it is entered, behind its name.
static bool is_tag(run *r, size_t at, const char *name) {
    if (at >= r->n || r->nodes[at].kind != TAG) return false;
    enter(r, at);
    return j_word(&r->vm, name);
}

static size_t body(run *r, size_t at, bool live);

// Where the block that ends with the tag `end` goes on.
static size_t closed(run *r, size_t at, const char *end) {
    if (is_tag(r, at, end)) return at + 1;
    if (at >= r->n) r->vm.p = r->vm.end;
    j_fail(&r->vm, LS_E_PARSE, "'%s' is missing", end);
    return r->n;
}

static size_t run_if(run *r, size_t at, bool live) {
    jvm *m = &r->vm;
    bool done = !live, first = true;
    for (;;) {
        bool yes = !done;
        if (first || is_tag(r, at, "elif")) {
            if (!done) {
                jvalue v = j_expr(m, true);
                tag_ends(r);
                yes = !m->code && j_true(&v);
            }
        } else if (!is_tag(r, at, "else")) return closed(r, at, "endif");
        first = false;
        at = body(r, at + 1, yes && !m->code);
        done = done || yes;
        if (m->code) return r->n;
    }
}

static jvalue loop_value(run *r, size_t i, size_t n) {
    jvm *m = &r->vm;
    jvalue v = {.kind = J_DICT, .dict = j_alloc(m, sizeof(jdict))};
    j_put(m, v.dict, lit("index0"), j_int((int64_t)i));
    j_put(m, v.dict, lit("index"), j_int((int64_t)i + 1));
    j_put(m, v.dict, lit("first"), j_bool(i == 0));
    j_put(m, v.dict, lit("last"), j_bool(i + 1 == n));
    j_put(m, v.dict, lit("length"), j_int((int64_t)n));
    return v;
}

static size_t run_for(run *r, size_t at, bool live) {
    jvm *m = &r->vm;
    if (!live) {
        at = body(r, at + 1, false);
        if (is_tag(r, at, "else")) at = body(r, at + 1, false);
        return closed(r, at, "endfor");
    }
    ls_str names[2] = {j_name(m), {0}};
    if (j_take(m, ",")) names[1] = j_name(m);
    if (!names[0].n || !j_word(m, "in")) {
        j_fail(m, LS_E_PARSE, "'for name in' is expected");
        return r->n;
    }
    jvalue over = j_expr(m, false);
    const char *condition = j_word(m, "if") ? m->p : NULL;
    if (!condition) tag_ends(r);
    if (over.kind != J_LIST && over.kind != J_UNDEFINED) j_fail(m, LS_E_UNSUPPORTED, "'for' over such a value");
    size_t scope = m->scope, mark = m->n_vars, kept = 0, end = r->n;
    const char *tag_end = m->end;
    jvalue *items = j_alloc(m, over.n * sizeof *items);
    for (size_t i = 0; items && i < over.n && !m->code; i++) {
        bool keep = true;
        if (condition) {
            m->scope = m->n_vars;
            set_var(m, names[0], over.items[i]);
            if (names[1].n && over.items[i].kind == J_LIST && over.items[i].n == 2) {
                set_var(m, names[0], over.items[i].items[0]);
                set_var(m, names[1], over.items[i].items[1]);
            }
            m->p = condition;
            m->end = tag_end;
            jvalue v = j_expr(m, true);
            tag_ends(r);
            keep = j_true(&v);
            m->n_vars = mark;
        }
        if (keep && !m->code) items[kept++] = over.items[i];
    }
    for (size_t i = 0; i < kept && !m->code && !r->breaking; i++) { // every turn is a scope of its own
        if (--m->fuel < 0) j_fail(m, LS_E_RANGE, "more than %d steps", MAX_STEPS);
        m->scope = mark;
        m->n_vars = mark;
        if (!names[1].n) set_var(m, names[0], items[i]);
        else if (items[i].kind == J_LIST && items[i].n == 2) {
            set_var(m, names[0], items[i].items[0]);
            set_var(m, names[1], items[i].items[1]);
        } else j_fail(m, LS_E_USAGE, "two names for one value");
        set_var(m, lit("loop"), loop_value(r, i, kept));
        end = body(r, at + 1, true);
        r->continuing = false;
    }
    r->breaking = false;
    m->scope = scope;
    m->n_vars = mark;
    if (m->code) return r->n;
    if (!kept) end = body(r, at + 1, false);
    if (is_tag(r, end, "else")) end = body(r, end + 1, !kept);
    return closed(r, end, "endfor");
}

static size_t run_set(run *r, size_t at, bool live) {
    jvm *m = &r->vm;
    ls_str name = j_name(m), field = {0};
    if (j_take(m, ".")) field = j_name(m);
    if (!j_take(m, "=")) { // the block form: what the body writes
        ls_buf *out = r->out, text = {0};
        r->out = &text;
        size_t end = closed(r, body(r, at + 1, live), "endset");
        r->out = out;
        if (live && !m->code) set_var(m, name, j_str(m, text.p, text.n));
        ls_buf_free(&text);
        return end;
    }
    if (!live) return at + 1;
    jvalue v = j_expr(m, true);
    tag_ends(r);
    if (m->code) return r->n;
    jvar *of = field.n ? j_find(m, name) : NULL;
    if (!field.n) set_var(m, name, v);
    else if (of && of->value.kind == J_DICT) j_put(m, of->value.dict, field, v);
    else j_fail(m, LS_E_USAGE, "'%.*s' is no namespace", (int)(name.n < 40 ? name.n : 40), name.p);
    return at + 1;
}

static size_t statement(run *r, size_t at, bool live) {
    jvm *m = &r->vm;
    enter(r, at);
    ls_str name = j_name(m);
    m->p = name.p;
    if (j_word(m, "if")) return run_if(r, at, live);
    if (j_word(m, "for")) return run_for(r, at, live);
    if (j_word(m, "set")) return run_set(r, at, live);
    if (j_word(m, "macro")) return closed(r, body(r, at + 1, false), "endmacro"); // only its call would be unsupported
    if (j_word(m, "generation")) return closed(r, body(r, at + 1, live), "endgeneration");
    if (j_word(m, "break") || j_word(m, "continue")) {
        if (live) *(name.p[0] == 'b' ? &r->breaking : &r->continuing) = true;
        return at + 1;
    }
    j_fail(m, LS_E_UNSUPPORTED, "the statement '%.*s'", (int)(name.n < 40 ? name.n : 40), name.p);
    return r->n;
}

static bool closes(run *r, size_t at) {
    static const char *const names[] = {"elif", "else", "endif", "endfor", "endset", "endmacro", "endgeneration"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_tag(r, at, names[i])) return true;
    return false;
}

// Runs (or, not live, steps over) what is there up to a tag that closes the block; where that tag is.
static size_t body(run *r, size_t at, bool live) {
    jvm *m = &r->vm;
    if (++r->blocks > MAX_BLOCKS) {
        j_fail(m, LS_E_RANGE, "more than %d nested blocks", MAX_BLOCKS);
        at = r->n;
    }
    while (at < r->n && !m->code && !closes(r, at)) {
        bool now = live && !r->breaking && !r->continuing;
        enter(r, at);
        if (--m->fuel < 0) j_fail(m, LS_E_RANGE, "more than %d steps", MAX_STEPS);
        else if (r->nodes[at].kind == TAG) {
            at = statement(r, at, now);
            continue;
        } else if (r->nodes[at].kind == TEXT) {
            if (now) ls_buf_add(r->out, m->p, (size_t)(m->end - m->p));
        } else if (now) {
            jvalue v = j_expr(m, true);
            tag_ends(r);
            if (!m->code) j_print(m, &v, r->out);
        }
        if (r->out->n > MAX_MEMORY) j_fail(m, LS_E_RANGE, "more than %d bytes of text", MAX_MEMORY);
        at++;
    }
    r->blocks--;
    return at;
}

static void context(run *r, const ls_jinja_message *messages, size_t n, const char *bos, const char *eos) {
    jvm *m = &r->vm;
    jvalue list = j_list(m, n);
    for (size_t i = 0; i < list.n && !m->code; i++) {
        list.items[i] = (jvalue){.kind = J_DICT, .dict = j_alloc(m, sizeof(jdict))};
        j_put(m, list.items[i].dict, lit("role"), j_str(m, messages[i].role, strlen(messages[i].role)));
        j_put(m, list.items[i].dict, lit("content"), j_str(m, messages[i].content.p, messages[i].content.n));
    }
    set_var(m, lit("messages"), list);
    set_var(m, lit("bos_token"), j_str(m, bos, strlen(bos)));
    set_var(m, lit("eos_token"), j_str(m, eos, strlen(eos)));
    set_var(m, lit("add_generation_prompt"), j_bool(true));
    set_var(m, lit("tools"), (jvalue){.kind = J_NONE});
    set_var(m, lit("documents"), (jvalue){.kind = J_NONE});
}

ls_code ls_jinja_render(const char *tmpl, size_t n, const ls_jinja_message *messages, size_t n_messages,
                        const char *bos, const char *eos, ls_buf *out, ls_err *err) {
    if (n > MAX_TEMPLATE) return ls_fail(err, LS_E_RANGE, "line 1: a template of %zu bytes", n);
    ls_buf text = {0}; // as Jinja reads it: line breaks are "\n", and one at the very end does not count
    for (size_t i = 0; i < n; i++)
        if (tmpl[i] != '\r') ls_buf_char(&text, tmpl[i]);
        else if (i + 1 == n || tmpl[i + 1] != '\n') ls_buf_char(&text, '\n');
    ls_buf_room(&text, 1);
    if (text.n && text.p[text.n - 1] == '\n') text.n--;
    const size_t had = out->n;
    run r = {.out = out, .vm = {.text = text.p, .p = text.p, .end = text.p, .fuel = MAX_STEPS}};
    read_nodes(&r, text.p, text.p + text.n);
    if (!r.vm.code) {
        context(&r, messages, n_messages, bos, eos);
        size_t at = body(&r, 0, true);
        if (!r.vm.code && at < r.n) j_fail(&r.vm, LS_E_PARSE, "a closing tag without its block");
    }
    if (r.vm.code) {
        out->n = had;
        ls_fail(err, r.vm.code, "%s", r.vm.msg);
    }
    for (jblock *b = r.vm.memory, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(r.vm.vars);
    free(r.nodes);
    ls_buf_free(&text);
    return r.vm.code;
}
