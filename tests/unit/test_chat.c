// Chat templates against the reference renderer (tests/vectors/gen_chat.py), and what becomes of a user's text in them.
#include "base/mem.h"
#include "base/rng.h"
#include "text/chat.h"
#include "text/jinja.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- a vocabulary of the bytes and some special tokens

static ls_vocab *vocabulary(const json_t *model) {
    enum { MAX = 400 };
    static char spelled[256][4];
    ls_str tokens[MAX];
    int32_t types[MAX], bos = -1, eos = -1;
    size_t n = 0;
    for (int b = 0, next = 256; b < 256; b++) { // GPT-2's byte alphabet
        int cp = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? b : next++;
        int len = 1;
        if (cp < 0x80) spelled[b][0] = (char)cp;
        else {
            spelled[b][0] = (char)(0xc0 | cp >> 6);
            spelled[b][1] = (char)(0x80 | (cp & 0x3f));
            len = 2;
        }
        tokens[n] = (ls_str){spelled[b], (size_t)len};
        types[n++] = 1;
    }
    const char *const ends[] = {json_string_value(json_object_get(model, "bos")),
                                json_string_value(json_object_get(model, "eos"))};
    json_t *special = json_object_get(model, "special");
    for (size_t i = 0; i < json_array_size(special) + 2; i++) {
        const char *s = i < 2 ? ends[i] : json_string_value(json_array_get(special, i - 2));
        int32_t id = -1;
        for (size_t k = 256; k < n; k++)
            if (strlen(s) == tokens[k].n && !memcmp(tokens[k].p, s, tokens[k].n)) id = (int32_t)k;
        if (*s && id < 0) {
            id = (int32_t)n;
            tokens[n] = (ls_str){s, strlen(s)};
            types[n++] = 3;
        }
        if (i == 0) bos = id;
        if (i == 1) eos = id;
    }
    json_t *names = json_pack("{s:s, s:s}", "bos_token", ends[0], "eos_token", ends[1]);
    char *variables = json_dumps(names, 0);
    ls_vocab_source src = {.tokens = tokens,
                           .n_tokens = n,
                           .types = types,
                           .pre = "gpt-2",
                           .bos = bos,
                           .eos = eos,
                           .variables = variables};
    ls_vocab *v;
    ls_err err = {0};
    if (ls_vocab_new(&v, &src, &err)) fail_msg("%s", err.msg);
    free(variables);
    json_decref(names);
    return v;
}

static char *template_file(const char *name, size_t *n) {
    char path[128];
    snprintf(path, sizeof path, "tests/vectors/chat/%s.jinja", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = ls_malloc(1 << 16);
    *n = fread(text, 1, 1 << 16, f);
    fclose(f);
    return text;
}

// ---- every line of the vectors, with the model that it is of

typedef void line_fn(const json_t *line, const json_t *model);

static size_t each_line(const char *kind, line_fn *fn) {
    FILE *f = fopen("tests/vectors/chat.jsonl", "r");
    assert_non_null(f);
    char *line = NULL;
    size_t cap = 0, count = 0;
    json_t *model = NULL;
    while (getline(&line, &cap, f) > 0) {
        json_t *o = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(o);
        if (json_object_get(o, "template")) {
            json_decref(model);
            model = json_incref(o);
        }
        if (json_object_get(o, kind)) {
            fn(o, model);
            count++;
        }
        json_decref(o);
    }
    json_decref(model);
    free(line);
    fclose(f);
    return count;
}

static ls_chat *chat_of(const json_t *model, ls_vocab **v) {
    ls_chat *c;
    ls_err err = {0};
    size_t n;
    const char *name = json_string_value(json_object_get(model, "template"));
    char *text = template_file(name, &n);
    *v = vocabulary(model);
    if (ls_chat_new(&c, *v, text, n, &err)) fail_msg("%s: %s", name, err.msg);
    free(text);
    return c;
}

// ---- what is written

static void one_template(const json_t *line, const json_t *model) {
    ls_vocab *v;
    ls_chat *c = chat_of(line, &v);
    const char *end = json_string_value(json_object_get(line, "end"));
    size_t n;
    const char *p = ls_vocab_bytes(v, ls_chat_end(c), &n);
    if (n != strlen(end) || memcmp(p, end, n))
        fail_msg("%s: %.*s, not %s", json_string_value(json_object_get(line, "template")), (int)n, p, end);
    assert_non_null(strstr(ls_chat_name(c), end));
    ls_chat_free(c);
    ls_vocab_free(v);
    (void)model;
}

static void every_template_is_read(void **state) {
    (void)state;
    assert_true(each_line("template", one_template) >= 45);
}

static void one_conversation(const json_t *line, const json_t *model) {
    ls_err err = {0};
    size_t n;
    char *text = template_file(json_string_value(json_object_get(model, "template")), &n);
    ls_jinja *t;
    ls_marked out = {0};
    const json_t *want = json_object_get(line, "want");
    json_t *variables = json_pack("{s:b, s:O, s:O}", "add_generation_prompt", 1, "bos_token",
                                  json_object_get(model, "bos"), "eos_token", json_object_get(model, "eos"));
    json_object_update(variables, json_object_get(line, "conversation"));
    if (ls_jinja_parse(&t, text, n, &err))
        fail_msg("%s: %s", json_string_value(json_object_get(model, "template")), err.msg);
    const ls_jinja_context context = {.variables = variables, .now = 1721952000};
    for (int again = 0; again < 2; again++) { // a template is parsed once
        ls_buf_clear(&out.text), ls_buf_clear(&out.marks);
        const ls_code code = ls_jinja_render(t, &context, &out, &err);
        if (json_is_null(want)) {
            assert_true(code == LS_E_USAGE || code == LS_E_UNSUPPORTED);
            assert_int_equal(strncmp(err.msg, "line ", 5), 0);
        } else if (code || out.text.n != json_string_length(want) ||
                   memcmp(out.text.p, json_string_value(want), out.text.n))
            fail_msg("%s: '%s' (%s), not '%s'", json_string_value(json_object_get(model, "template")),
                     out.text.n ? out.text.p : "", code ? err.msg : "", json_string_value(want));
        assert_int_equal(out.marks.n, out.text.n);
    }
    ls_marked_free(&out);
    ls_jinja_free(t);
    json_decref(variables);
    free(text);
}

static void conversations_equal_the_reference(void **state) {
    (void)state;
    assert_true(each_line("conversation", one_conversation) >= 400);
}

static void one_piece(const json_t *line, const json_t *model) {
    static const ls_jinja_message messages[] = {
        {"system", {" S ", 3}}, {"user", {"Ue 1", 4}}, {"assistant", {"A\n", 2}}, {"user", {"x</think>y", 10}}};
    const json_t *piece = json_object_get(line, "piece"), *want = json_object_get(line, "want");
    json_t *names = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    const ls_jinja_context context = {
        .names = names, .messages = messages, .n_messages = 4, .prompt = true, .now = 1721952000};
    ls_marked out = {0};
    ls_err err = {0};
    ls_jinja *t;
    ls_code code = ls_jinja_parse(&t, json_string_value(piece), json_string_length(piece), &err);
    if (!code) code = ls_jinja_render(t, &context, &out, &err);
    ls_buf_char(&out.text, 0);
    if (json_is_null(want)) {
        if (!code) fail_msg("%s: no error but '%s'", json_string_value(piece), out.text.p);
        assert_int_equal(strncmp(err.msg, "line ", 5), 0);
    } else if (code || strcmp(out.text.p, json_string_value(want)))
        fail_msg("%s: '%s' (%s), not '%s'", json_string_value(piece), out.text.p, err.msg, json_string_value(want));
    ls_marked_free(&out);
    ls_jinja_free(t);
    json_decref(names);
    (void)model;
}

static void pieces_equal_the_reference(void **state) {
    (void)state;
    assert_true(each_line("piece", one_piece) >= 140);
}

// ---- a user's text stays text

// However a user spells special tokens, whole or in halves, a prompt has the template's only.
static void one_hostile_turn(const json_t *line, const json_t *model) {
    ls_vocab *v;
    ls_chat *c = chat_of(line, &v);
    ls_err err = {0};
    for (int half = 0; half < 3; half++) { // whole; the first halves at the end; the second halves at the beginning
        ls_buf spells = {0};
        for (int32_t id = 0; id < ls_vocab_size(v); id++) {
            size_t n;
            const char *p = ls_vocab_bytes(v, id, &n);
            if (ls_vocab_is_special(v, id)) ls_buf_add(&spells, half == 2 ? p + n / 2 : p, half ? n - n / 2 : n);
        }
        const ls_jinja_message plain[] = {{"user", {"x", 1}}, {"assistant", {"y", 1}}, {"user", {"z", 1}}},
                               hostile[] = {{"user", {spells.p, spells.n}},
                                            {"assistant", {spells.p, spells.n}},
                                            {"user", {spells.p, spells.n}}};
        size_t special[2] = {0};
        for (int i = 0; i < 2; i++) {
            ls_marked text = {0};
            ls_ids ids = {0};
            assert_int_equal(ls_chat_render(c, i ? hostile : plain, 3, true, &text, &err), LS_OK);
            assert_int_equal(ls_encode_marked(v, &text, 0, &ids, &err), LS_OK);
            for (size_t k = 0; k < ids.n; k++) special[i] += ls_vocab_is_special(v, ids.p[k]);
            ls_marked_free(&text);
            ls_ids_free(&ids);
        }
        assert_true(special[0] > 0);
        if (special[0] != special[1])
            fail_msg("%s: %zu special tokens, not %zu", json_string_value(json_object_get(line, "template")),
                     special[1], special[0]);
        ls_buf_free(&spells);
    }
    ls_chat_free(c);
    ls_vocab_free(v);
    (void)model;
}

static void spelled_out_tokens_stay_text(void **state) {
    (void)state;
    each_line("template", one_hostile_turn);
}

// Random templates of what real ones do with a text: whatever that is, the letters of the conversation, which are all
// from a block that no template has, are marked, and nothing else is.
static void marks_follow_the_text(void **state) {
    (void)state;
    static const char *const sources[] = {"messages[0].content",
                                          "messages[0]['content']",
                                          "messages[-1].content",
                                          "ns.text",
                                          "(messages | map(attribute='content') | list)[0]",
                                          "messages | map(attribute='content') | join('<|im_end|>')"},
                             *const steps[] = {"%s | trim",
                                               "(%s) | upper | lower",
                                               "(%s)[1:]",
                                               "(%s)[:-1]",
                                               "(%s)[::-1]",
                                               "(%s) | replace('\xee\x80\x81', '<|im_end|>')",
                                               "(%s).split('\xee\x80\x82') | join('<|im_start|>')",
                                               "'<|im_start|>' ~ (%s)",
                                               "(%s) + '<|im_end|>\\n'",
                                               "(%s).strip()",
                                               "(%s) | tojson",
                                               "'<|%%s|>' | format(%s)",
                                               "'{}<|im_end|>'.format(%s)",
                                               "[%s] | string",
                                               "{'<k>': %s} | tojson(indent=2)",
                                               "(%s) | indent(2, true)",
                                               "((%s) | list) | last",
                                               "(%s) | title",
                                               "(%s) * 2",
                                               "twice(%s)",
                                               "(%s).splitlines() | join('\\n')",
                                               "(%s) if true else ''",
                                               "{'a': %s}.a",
                                               "(%s) | string | capitalize",
                                               "(%s) | default('<|im_end|>', true)",
                                               "', '.join([%s, '<s>'])",
                                               "(%s).lstrip('\xee\x80\x80')",
                                               "[%s, '</s>'] | first",
                                               "(%s) | e",
                                               "(%s) | dictsort if false else (%s)"};
    enum { SOURCES = sizeof sources / sizeof *sources, STEPS = sizeof steps / sizeof *steps, ROUNDS = 4000 };
    static const char
        said[] = " \xee\x80\x80\xee\x80\x81\n\xee\x80\x82\xee\x80\x83\xee\x80\x81 ",
        begin[] =
            "{% macro twice(t) %}<|{{ t }}|{{ t }}|>{% endmacro %}{% set ns = namespace(text=messages[0].content) %}"
            "{% for m in messages %}<|im_start|>{{ ";
    const ls_jinja_message messages[] = {{"user", {said, sizeof said - 1}}, {"assistant", {said, sizeof said - 1}}};
    json_t *names = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    const ls_jinja_context context = {.names = names, .messages = messages, .n_messages = 2};
    size_t marked = 0, plain = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        ls_buf expression = {0}, text = {0};
        ls_marked out = {0};
        ls_err err = {0};
        ls_jinja *t;
        ls_buf_str(&expression, sources[(int)(ls_uniform_at(round, 0) * SOURCES)]);
        for (uint64_t k = 0; k < 1 + round % 5; k++) {
            ls_buf next = {0};
            ls_buf_char(&next, '(');
            const char *step = steps[(int)(ls_uniform_at(round, 1 + k) * STEPS)];
            for (const char *p = step; *p; p++)
                if (p[0] == '%' && p[1] == 's' && (p == step || p[-1] != '%'))
                    ls_buf_add(&next, expression.p, expression.n), p++;
                else if (p[0] == '%' && p[1] == '%') ls_buf_char(&next, *p++);
                else ls_buf_char(&next, *p);
            ls_buf_char(&next, ')');
            ls_buf_free(&expression);
            expression = next;
        }
        ls_buf_str(&text, begin);
        ls_buf_add(&text, expression.p, expression.n);
        ls_buf_str(&text, " }}{{ m.role }}<|im_end|>{% endfor %}");
        if (ls_jinja_parse(&t, text.p, text.n, &err) || ls_jinja_render(t, &context, &out, &err))
            fail_msg("%s: %s", text.p, err.msg);
        for (size_t i = 0; i < out.text.n; i++) {
            const unsigned char c = (unsigned char)out.text.p[i];
            if (c >= 0x80 && !out.marks.p[i]) fail_msg("%s: byte %zu of '%s' is not marked", text.p, i, out.text.p);
            if (c > ' ' && c < 0x80 && out.marks.p[i] && !strchr("\\nu0123456789abcdef&#;", c))
                fail_msg("%s: byte %zu of '%s' is marked", text.p, i, out.text.p);
            marked += out.marks.p[i] != 0;
            plain += !out.marks.p[i];
        }
        ls_jinja_free(t);
        ls_marked_free(&out);
        ls_buf_free(&expression);
        ls_buf_free(&text);
    }
    json_decref(names);
    assert_true(marked > 10 * ROUNDS && plain > 10 * ROUNDS);
}

// Of a request, only the role of a message is trusted: not the value of another key that is named role.
static void only_roles_of_messages_are_trusted(void **state) {
    (void)state;
    static const char text[] = "{{ messages | tojson }}{{ tools | tojson }}{{ messages[0].role }}{{ messages[1][0] }}";
    json_t *request =
        json_pack("{s:[{s:s, s:{s:s, s:[{s:s}]}}, [{s:s}]], s:[{s:s, s:{s:s}}]}", "messages", "role", "TT", "call",
                  "role", "xx", "list", "role", "xx", "role", "xx", "tools", "role", "xx", "parameters", "role", "xx");
    const ls_jinja_context context = {.request = request, .prompt = true};
    ls_marked out = {0};
    ls_err err = {0};
    ls_jinja *t;
    size_t trusted = 0, others = 0;
    if (ls_jinja_parse(&t, text, sizeof text - 1, &err) || ls_jinja_render(t, &context, &out, &err))
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < out.text.n; i++) {
        if (out.text.p[i] == 'T') assert_int_equal(out.marks.p[i], 0), trusted++;
        if (out.text.p[i] == 'x') assert_int_equal(out.marks.p[i], 1), others++;
    }
    assert_int_equal(trusted, 4);
    assert_int_equal(others, 12);
    ls_marked_free(&out);
    ls_jinja_free(t);
    json_decref(request);
}

// ---- templates that do not end, or are broken

static void refused(const char *text, size_t n, const char *because) {
    json_t *model =
        json_pack("{s:s, s:s, s:[s, s]}", "bos", "", "eos", "<|im_end|>", "special", "<|im_start|>", "<|im_end|>");
    ls_vocab *v = vocabulary(model);
    ls_chat *c;
    ls_err err = {0};
    const ls_code code = ls_chat_new(&c, v, text, n, &err);
    if (!code) fail_msg("%.60s...: no error", text);
    assert_null(c);
    if (!strstr(err.msg, because)) fail_msg("%s: no word of '%s'", err.msg, because);
    assert_non_null(strstr(err.msg, "the chat template: line "));
    ls_vocab_free(v);
    json_decref(model);
}

static void refused_text(const char *text, const char *because) {
    refused(text, strlen(text), because);
}

static void hostile_templates_end(void **state) {
    (void)state;
    refused("\0{{\0}}", 6, "");
    ls_buf t = {0};
    for (int i = 0; i < 80000; i++) ls_buf_str(&t, "{% if true %}");
    refused(t.p, t.n, "nested more than");
    ls_buf_clear(&t);
    ls_buf_str(&t, "{{ ");
    for (int i = 0; i < 300000; i++) ls_buf_char(&t, "([-"[i % 3]);
    refused(t.p, t.n, "nested more than");
    ls_buf_clear(&t);
    ls_buf_str(&t, "{{ ");
    for (int i = 0; i < 100000; i++) ls_buf_str(&t, "not ");
    ls_buf_str(&t, "1 }}");
    refused(t.p, t.n, "nested more than");
    ls_buf_clear(&t);
    ls_buf_str(&t, "{{ ");
    for (int i = 0; i < 20000; i++) ls_buf_str(&t, "1 if 0 else ");
    ls_buf_str(&t, "1 }}");
    refused(t.p, t.n, "nested more than");
    ls_buf_clear(&t);
    ls_buf_str(&t, "{{ x");
    for (int i = 0; i < 60000; i++) ls_buf_str(&t, "|trim");
    ls_buf_str(&t, " }}");
    refused(t.p, t.n, "nested more than");
    ls_buf_clear(&t);
    for (int i = 0; i < (1 << 20) + 1; i++) ls_buf_char(&t, 'x');
    refused(t.p, t.n, "bytes");
    ls_buf_free(&t);
    refused_text("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "more than");
    refused_text("{% set s = 'a' * 100000 %}{{ s.rfind('a' * 50000 ~ 'b') }}", "more than");
    refused_text("{% set s = 'a' * 100000 %}{{ s.rsplit('a' * 50000 ~ 'b', 1) }}", "more than");
    refused_text(
        "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(9999) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "bytes");
    refused_text(
        "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        "nested");
    refused_text("{% set ns = namespace(s='xx') %}{% for i in range(20) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ "
                 "ns.s.replace('x', ns.s) }}",
                 "");
    refused_text("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a }}", "cannot be converted to text");
    refused_text("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "deep");
    refused_text("{{ 'x' * 99999999 }}", "");
    refused_text("{{ [1] * 99999999 }}", "");
    refused_text("{{ 9223372036854775807 + 1 }}", "64 bits");
    refused_text("{{ 9223372036854775808 }}", "64 bits");
    refused_text("{{ '9223372036854775808' | int }}", "64 bits");
    refused_text("{{ 1e19 | int }}", "64 bits");
    refused_text("{{ (-9223372036854775807 - 1) // -1 }}", "64 bits");
    refused_text("{{ [1] | batch(576460752303423489, 0) }}", "MiB"); // 2^64 bytes and 32
    refused_text("{{ '%4294967297d' | format(1) }}", "width");       // 2^32 and 1
    refused_text("{{ messages | map() }}", "an argument is missing");
    refused_text("{{ messages | selectattr() }}", "attribute name");
    refused_text("{{ 1 / 0 }}", "zero");
    refused_text("{{ '%999999999d' | format(1) }}", "");
    refused_text("{{ raise_exception('never') }}", "never");
    refused_text("\n\n{% include 'x' %}", "line 3: ");
    refused_text("{% for message in messages %}", "'else' is missing");
    refused_text("{{ '<|im_start|>", "not closed");
    refused_text("{{ 'a' | wordwrap }}", "wordwrap");
}

// Real templates with bytes changed, cut or doubled: read or refused with a line, and never more.
static void one_broken_template(const json_t *line, const json_t *model) {
    size_t n;
    char *text = template_file(json_string_value(json_object_get(line, "template")), &n);
    ls_vocab *v = vocabulary(line);
    for (uint64_t round = 0; round < 40; round++) {
        char *t = ls_strndup(text, n);
        size_t len = n;
        for (uint64_t k = 0; k < 1 + round % 4; k++) {
            size_t at = (size_t)(ls_uniform_at(round, 3 * k) * (double)len);
            t[at] = "{}%'\"-|()[]. \n\0x"[(int)(ls_uniform_at(round, 3 * k + 1) * 16)];
            if (round % 5 == 0) len = at + 1;
        }
        ls_chat *c;
        ls_err err = {0};
        const ls_code code = ls_chat_new(&c, v, t, len, &err);
        assert_true(code == LS_OK ? c != NULL : !c && strstr(err.msg, "line ") != NULL);
        ls_chat_free(c);
        free(t);
    }
    ls_vocab_free(v);
    free(text);
    (void)model;
}

static void broken_templates_do_no_harm(void **state) {
    (void)state;
    each_line("template", one_broken_template);
}

static void variables_are_the_users(void **state) {
    (void)state;
    static const char text[] = "{% if enable_thinking is defined and enable_thinking is false %}no{% endif %}{{ who "
                               "}}{{ strftime_now('%Y') }}|{{ bos_token }}";
    json_t *model = json_pack("{s:s, s:s, s:[s]}", "bos", "<s>", "eos", "</s>", "special", "<|im_end|>");
    ls_vocab *v = vocabulary(model);
    ls_chat *c;
    ls_err err = {0};
    const ls_jinja_message one = {"user", {"x", 1}};
    static const char *const cases[][2] = {{NULL, "2024|<s>"},
                                           {"{\"enable_thinking\": false, \"who\": \"me\"}", "nome2024|<s>"},
                                           {"{\"now\": 1000000000, \"bos_token\": \"b\"}", "2001|b"},
                                           {"{}", "2024|<s>"}};
    assert_int_equal(ls_chat_new(&c, v, text, sizeof text - 1, &err), LS_OK);
    for (size_t i = 0; i < 4; i++) {
        ls_marked out = {0};
        if (cases[i][0]) assert_int_equal(ls_chat_set(c, cases[i][0], strlen(cases[i][0]), &err), LS_OK);
        assert_int_equal(ls_chat_render(c, &one, 1, true, &out, &err), LS_OK);
        assert_string_equal(out.text.p, cases[i][1]);
        ls_marked_free(&out);
    }
    assert_int_equal(ls_chat_set(c, "[]", 2, &err), LS_E_USAGE);
    assert_int_equal(ls_chat_set(c, "{", 1, &err), LS_E_PARSE);
    ls_chat_free(c);
    ls_vocab_free(v);
    json_decref(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_template_is_read),
        cmocka_unit_test(conversations_equal_the_reference),
        cmocka_unit_test(pieces_equal_the_reference),
        cmocka_unit_test(spelled_out_tokens_stay_text),
        cmocka_unit_test(marks_follow_the_text),
        cmocka_unit_test(hostile_templates_end),
        cmocka_unit_test(only_roles_of_messages_are_trusted),
        cmocka_unit_test(broken_templates_do_no_harm),
        cmocka_unit_test(variables_are_the_users),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
