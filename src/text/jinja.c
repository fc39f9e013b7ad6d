// Runs a template's nodes.
#include "text/jinja.h"
#include "base/mem.h"
#include "text/jinja_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEMPLATE = 1 << 20, MAX_CALLS = 100, MAX_NESTED = 1000, MAX_VALUES = 100 };
enum { BLOCK = 64 << 10, MAX_MEMORY = 96 << 20 };

struct jframe {
    jframe *up;
    jstr *names;
    jvalue *values;
    int n, cap;
};

struct ls_jinja {
    jarena memory;
    char *text;
    jnode *body;
};

// ---- memory, and the way out of everything

void *j_alloc(jvm *m, size_t n) {
    jarena *a = m->memory;
    n = (n + 15) / 16 * 16;
    if (n > MAX_MEMORY - a->total) j_fail(m, LS_E_RANGE, "the template needs more than %d MiB", MAX_MEMORY >> 20);
    if (!a->blocks || n > a->room - a->used) {
        const size_t room = n > BLOCK ? n : BLOCK;
        jblock *b = ls_calloc(1, sizeof *b + 16 + room);
        b->next = a->blocks;
        a->blocks = b;
        a->room = room;
        a->used = 0;
    }
    void *p = (char *)a->blocks + (sizeof(jblock) + 15) / 16 * 16 + a->used;
    a->used += n;
    a->total += n;
    j_spend(m, n / 64);
    return p;
}

// It doubles where n is a power of two; the first have room for four.
void *j_grown(jvm *m, const void *old, size_t n, size_t size) {
    if (n && (n < 4 || n & (n - 1))) return (void *)old;
    char *p = j_alloc(m, (n ? 2 * n : 4) * size);
    if (n) memcpy(p, old, n * size);
    return p;
}

static void free_arena(jarena *a) {
    for (jblock *b = a->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (jarena){0};
}

void j_fail(jvm *m, ls_code code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = ls_format_list(fmt, ap);
    va_end(ap);
    ls_fail(m->err, code, "line %d: %s", m->line, text);
    free(text);
    longjmp(m->failed, (int)code);
}

void j_exhausted(jvm *m) {
    m->fuel = J_FUEL; // for what the error itself costs
    j_fail(m, LS_E_RANGE, "the template takes more than %d steps", J_FUEL);
}

void j_deeper(jvm *m) {
    if (++m->depth > MAX_VALUES) j_fail(m, LS_E_RANGE, "values nested more than %d deep", MAX_VALUES);
}

// ---- variables

static jframe *enter(jvm *m, jframe *up) {
    jframe *f = j_alloc(m, sizeof *f);
    f->up = up;
    return f;
}

static int index_of(jstr name, const jstr *names, int n) { // of the last; -1: it is none of them
    while (n-- > 0 && !j_same_text(names[n], name)) continue;
    return n;
}

static jvalue *find(jframe *f, jstr name) {
    int i = -1;
    while (f && (i = index_of(name, f->names, f->n)) < 0) f = f->up;
    return f ? &f->values[i] : NULL;
}

static void set(jvm *m, jstr name, jvalue v) {
    jframe *f = m->frame;
    int i = index_of(name, f->names, f->n);
    if (i < 0 && f->n == f->cap) {
        f->names = j_grown(m, f->names, (size_t)f->cap, sizeof *f->names);
        f->values = j_grown(m, f->values, (size_t)f->cap, sizeof *f->values);
        f->cap = f->cap ? 2 * f->cap : 4;
    }
    if (i < 0) f->names[i = f->n++] = name;
    f->values[i] = v;
}

// ---- expressions

static jvalue eval(jvm *m, const jnode *n);
static void run(jvm *m, const jnode *n);

static jvalue optional(jvm *m, const jnode *n) {
    return n ? eval(m, n) : j_none();
}

// What the nodes write.
static jvalue written(jvm *m, const jnode *body) {
    jtext t = {0}, *outer = m->out;
    m->out = &t;
    run(m, body);
    m->out = outer;
    return j_made(m, &t);
}

static jvalue call_macro(jvm *m, const jfunction *f, const jargs *a, const jvalue *caller) {
    const jnode *n = f->macro;
    jframe *outer = m->frame;
    const int line = m->line;
    const char breaking = m->breaking;
    int used = 0, rest = 0;
    if (++m->depth > MAX_CALLS) j_fail(m, LS_E_RANGE, "macro calls nested more than %d deep", MAX_CALLS);
    m->frame = enter(m, f->frame);
    jvalue more = j_list(m, J_TUPLE, (size_t)a->n), named = j_dict(m, J_DICT);
    for (int i = 0; i < a->n; i++) {
        if (!a->names[i].n && used < n->n_names) set(m, n->names[used++], a->v[i]);
        else if (!a->names[i].n) more.list->items[rest++] = a->v[i];
        else if (index_of(a->names[i], n->names, n->n_names) >= 0) set(m, a->names[i], a->v[i]);
        else if (j_is(a->names[i], "caller")) caller = &a->v[i];
        else j_put(m, named.dict, j_string(a->names[i]), a->v[i]);
    }
    more.list->n = (size_t)rest;
    if (rest && !n->rest)
        j_fail(m, LS_E_USAGE, "macro '%.*s' takes at most %d argument(s)", J_SHOWN(n->name), n->n_names);
    if (named.dict->n && !n->named_rest)
        j_fail(m, LS_E_USAGE, "macro '%.*s' takes no keyword argument '%.*s'", J_SHOWN(n->name),
               J_SHOWN(named.dict->keys[0].s));
    for (int k = 0; k < n->n_names; k++)
        if (index_of(n->names[k], m->frame->names, m->frame->n) < 0)
            set(m, n->names[k], n->items[k] ? eval(m, n->items[k]) : j_undefined(n->names[k]));
    if (n->rest) set(m, j_lit("varargs"), more);
    if (n->named_rest) set(m, j_lit("kwargs"), named);
    set(m, j_lit("caller"), caller ? *caller : j_undefined(j_lit("caller")));
    const jvalue out = written(m, n->b);
    m->frame = outer;
    m->line = line;
    m->breaking = breaking;
    m->depth--;
    return out;
}

static jargs arguments(jvm *m, const jnode *n) {
    jargs a = {j_alloc(m, (size_t)n->n * sizeof *a.v), n->names, n->n};
    for (int i = 0; i < n->n; i++) a.v[i] = optional(m, n->items[i]);
    return a;
}

static jvalue call(jvm *m, const jnode *n, const jvalue *caller) {
    const jvalue fn = eval(m, n->a);
    const jargs a = arguments(m, n);
    m->line = n->line;
    if (fn.kind == J_FUNCTION && fn.fn->macro) return call_macro(m, fn.fn, &a, caller);
    return j_call(m, &fn, &a);
}

static jvalue compare(jvm *m, const jnode *n) {
    jvalue left = eval(m, n->a);
    for (int i = 0; i < n->n; i++) {
        const jvalue right = eval(m, n->items[i]);
        m->line = n->line;
        if (!j_compares(m, n->ops[i], &left, &right)) return j_bool(false);
        left = right;
    }
    return j_bool(true);
}

static jvalue made(jvm *m, const jnode *n) {
    if (n->kind == J_MAKE_DICT) {
        jvalue v = j_dict(m, J_DICT);
        for (int i = 0; i < n->n; i += 2) {
            const jvalue key = eval(m, n->items[i]);
            j_put(m, v.dict, key, eval(m, n->items[i + 1]));
        }
        return v;
    }
    jvalue v = j_list(m, n->kind == J_MAKE_LIST ? J_LIST : J_TUPLE, (size_t)n->n);
    for (int i = 0; i < n->n; i++) v.list->items[i] = eval(m, n->items[i]);
    return v;
}

static jvalue eval_one(jvm *m, const jnode *n) {
    jvalue a, b;
    j_spend(m, 1);
    m->line = n->line;
    switch (n->kind) {
    case J_CONST: return n->value;
    case J_BODY: return m->body;
    case J_NAME: {
        const jvalue *v = find(m->frame, n->name);
        return v ? *v : j_global(m, n->name);
    }
    case J_MAKE_LIST:
    case J_MAKE_TUPLE:
    case J_MAKE_DICT: return made(m, n);
    case J_CALL: return call(m, n, NULL);
    case J_NOT: a = eval(m, n->a); return j_bool(!j_true(&a));
    case J_AND: a = eval(m, n->a); return j_true(&a) ? eval(m, n->b) : a;
    case J_OR: a = eval(m, n->a); return j_true(&a) ? a : eval(m, n->b);
    case J_CHOICE:
        a = eval(m, n->a);
        if (j_true(&a)) return eval(m, n->b);
        return n->c ? eval(m, n->c) : j_undefined(j_lit("an inline if without else"));
    case J_COMPARE: return compare(m, n);
    default: break;
    }
    a = eval(m, n->a);
    b = optional(m, n->b);
    const jargs args = arguments(m, n);
    m->line = n->line;
    switch (n->kind) {
    case J_ATTRIBUTE: return j_attribute(m, &a, n->name);
    case J_ELEMENT: return j_element(m, &a, &b);
    case J_SLICE: return j_slice(m, &a, &args.v[0], &args.v[1], &args.v[2]);
    case J_FILTER: return j_filter(m, n->name, &a, &args);
    case J_TEST: return j_bool(j_test(m, n->name, &a, &args));
    case J_ARITHMETIC: return j_arithmetic(m, n->op, &a, &b);
    default: // J_SIGN
        b = j_int(0);
        return n->op == '-' && a.kind == J_FLOAT ? j_float(-a.f) : j_arithmetic(m, n->op, &b, &a);
    }
}

static jvalue eval(jvm *m, const jnode *n) {
    if (++m->nested > MAX_NESTED) j_fail(m, LS_E_RANGE, "expressions nested more than %d deep", MAX_NESTED);
    const jvalue v = eval_one(m, n);
    m->nested--;
    return v;
}

// ---- statements

static void unpack(jvm *m, const jnode *n, const jvalue *v) {
    if (n->n_names == 1) {
        set(m, n->names[0], *v);
        return;
    }
    const jlist all = j_items(m, v);
    if (all.n != (size_t)n->n_names) j_fail(m, LS_E_USAGE, "%zu values for %d names", all.n, n->n_names);
    for (int i = 0; i < n->n_names; i++) set(m, n->names[i], all.items[i]);
}

static void run_for(jvm *m, const jnode *n) {
    const jvalue over = eval(m, n->a);
    jframe *outer = m->frame, *inner = enter(m, outer);
    jloop *loop = j_alloc(m, sizeof *loop);
    m->line = n->line;
    loop->all = j_items(m, &over);
    m->frame = inner;
    if (n->d) { // only those
        jlist kept = {j_alloc(m, loop->all.n * sizeof *kept.items), 0};
        for (size_t i = 0; i < loop->all.n; i++) {
            unpack(m, n, &loop->all.items[i]);
            const jvalue yes = eval(m, n->d);
            if (j_true(&yes)) kept.items[kept.n++] = loop->all.items[i];
        }
        loop->all = kept;
    }
    for (; loop->i < loop->all.n && m->breaking != 'b'; loop->i++) {
        inner->n = 0; // every turn is a scope of its own
        m->line = n->line;
        unpack(m, n, &loop->all.items[loop->i]);
        set(m, j_lit("loop"), (jvalue){.kind = J_LOOP, .loop = loop});
        run(m, n->b);
        if (m->breaking == 'c') m->breaking = 0;
    }
    m->breaking = 0;
    m->frame = outer;
    if (!loop->all.n) run(m, n->c);
}

static void run_set(jvm *m, const jnode *n) {
    if (n->b) {
        jframe *outer = m->frame;
        m->frame = enter(m, outer);
        const jvalue text = written(m, n->b);
        m->frame = outer;
        m->body = text;
    }
    const jvalue v = eval(m, n->a);
    m->line = n->line;
    if (n->op != '.') {
        unpack(m, n, &v);
        return;
    }
    const jvalue *of = find(m->frame, n->names[0]);
    if (!of || of->kind != J_NAMESPACE) j_fail(m, LS_E_USAGE, "cannot assign attribute on non-namespace object");
    j_put(m, of->dict, j_string(n->names[1]), v);
}

static jvalue macro(jvm *m, const jnode *n) {
    jfunction *f = j_alloc(m, sizeof *f);
    *f = (jfunction){.name = n->name, .macro = n, .frame = m->frame};
    return (jvalue){.kind = J_FUNCTION, .fn = f};
}

static void scoped(jvm *m, const jnode *n) {
    jframe *outer = m->frame, *inner = enter(m, outer);
    for (int i = 0; i < n->n_names; i++) {
        const jvalue v = eval(m, n->items[i]);
        m->frame = inner;
        set(m, n->names[i], v);
        m->frame = outer;
    }
    m->frame = inner;
    run(m, n->b);
    m->frame = outer;
}

static void run_one(jvm *m, const jnode *n) {
    jvalue v;
    switch (n->kind) {
    case J_TEXT: j_add(m, m->out, n->name); break;
    case J_PRINT:
        if (n->b) m->body = written(m, n->b);
        v = eval(m, n->a);
        j_print(m, m->out, &v);
        break;
    case J_IF:
        v = eval(m, n->a);
        run(m, j_true(&v) ? n->b : n->c);
        break;
    case J_FOR: run_for(m, n); break;
    case J_SET: run_set(m, n); break;
    case J_MACRO: set(m, n->name, macro(m, n)); break;
    case J_CALLING: {
        const jvalue caller = macro(m, n);
        v = call(m, n->a, &caller);
        j_print(m, m->out, &v);
        break;
    }
    case J_WITH: scoped(m, n); break;
    default: m->breaking = n->kind == J_BREAK ? 'b' : 'c';
    }
}

static void run(jvm *m, const jnode *n) {
    if (++m->depth > J_MAX_DEPTH + MAX_CALLS)
        j_fail(m, LS_E_RANGE, "blocks nested more than %d deep", J_MAX_DEPTH + MAX_CALLS);
    for (; n && !m->breaking; n = n->next) {
        j_spend(m, 1);
        m->line = n->line;
        run_one(m, n);
    }
    m->depth--;
}

// ---- the template

ls_code ls_jinja_parse(ls_jinja **out, const char *tmpl, size_t n, ls_err *err) {
    *out = NULL;
    if (n > MAX_TEMPLATE) return ls_fail(err, LS_E_RANGE, "line 1: the template is too large (%zu bytes)", n);
    ls_jinja *t = ls_calloc(1, sizeof *t);
    ls_buf text = {0}; // as Jinja reads it: line breaks are "\n", and one at the very end does not count
    for (size_t i = 0; i < n; i++)
        if (tmpl[i] != '\r') ls_buf_char(&text, tmpl[i]);
        else if (i + 1 == n || tmpl[i + 1] != '\n') ls_buf_char(&text, '\n');
    ls_buf_room(&text, 1);
    if (text.n && text.p[text.n - 1] == '\n') text.n--;
    t->text = text.p;
    jvm m = {.memory = &t->memory, .err = err, .fuel = J_FUEL, .line = 1};
    const int code = setjmp(m.failed);
    if (!code) {
        t->body = j_parse(&m, t->text, text.n);
        *out = t;
        return LS_OK;
    }
    ls_jinja_free(t);
    return (ls_code)code;
}

void ls_jinja_free(ls_jinja *t) {
    if (!t) return;
    free_arena(&t->memory);
    free(t->text);
    free(t);
}

static void define(jvm *m, const ls_json *variables) {
    for (ls_json_member v = {0}; ls_json_next(variables, &v);) {
        const jstr name = j_copied(m, v.key, strlen(v.key), false);
        const bool said = j_is(name, "tools") || j_is(name, "documents");
        set(m, name, j_from_json(m, v.value, j_is(name, "messages") ? J_MESSAGES : said ? J_CONVERSATION : J_TRUSTED));
    }
}

static jvalue message(jvm *m, const ls_jinja_message *of) {
    const jvalue v = j_dict(m, J_DICT);
    j_put(m, v.dict, j_string(j_lit("role")), j_string(j_copied(m, of->role, strlen(of->role), false)));
    j_put(m, v.dict, j_string(j_lit("content")), j_string(j_copied(m, of->content.p, of->content.n, true)));
    return v;
}

static void render(jvm *m, const ls_jinja *t, const ls_jinja_context *c) {
    m->frame = enter(m, NULL);
    set(m, j_lit("tools"), j_none());
    set(m, j_lit("documents"), j_none());
    if (c->messages) {
        const jvalue list = j_list(m, J_LIST, c->n_messages);
        for (size_t i = 0; i < c->n_messages; i++) list.list->items[i] = message(m, &c->messages[i]);
        set(m, j_lit("messages"), list);
    }
    if (c->messages || c->request) set(m, j_lit("add_generation_prompt"), j_bool(c->prompt));
    define(m, c->names);
    define(m, c->variables);
    define(m, c->request);
    m->frame = enter(m, m->frame);
    run(m, t->body);
}

ls_code ls_jinja_render(ls_jinja *t, const ls_jinja_context *context, ls_marked *out, ls_err *err) {
    struct { // not of this frame, whose variables a longjmp may change
        jarena memory;
        jtext text;
        jvm m;
    } *r = ls_calloc(1, sizeof *r);
    r->m = (jvm){.memory = &r->memory, .err = err, .fuel = J_FUEL, .line = 1, .now = context->now, .out = &r->text};
    const int code = setjmp(r->m.failed);
    if (!code) {
        render(&r->m, t, context);
        const jtext *text = &r->text;
        char *marks = ls_buf_room(&out->marks, text->n);
        ls_buf_add(&out->text, text->p, text->n);
        if (text->marks) memcpy(marks, text->marks, text->n);
        else memset(marks, 0, text->n);
        out->marks.n += text->n;
    }
    free_arena(&r->memory);
    free(r);
    return (ls_code)code;
}
