// Chat frames against the reference renderer (tests/vectors/gen_chat.py), and the Jinja that recognises them.
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

static ls_vocab *vocabulary(const json_t *model, const char *without) {
    enum { MAX = 320 };
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
        if (*s && id < 0 && !(without && !strcmp(s, without))) {
            id = (int32_t)n;
            tokens[n] = (ls_str){s, strlen(s)};
            types[n++] = 3;
        }
        if (i == 0) bos = id;
        if (i == 1) eos = id;
    }
    ls_vocab_source src = {.tokens = tokens, .n_tokens = n, .types = types, .pre = "gpt-2", .bos = bos, .eos = eos};
    ls_vocab *v;
    ls_err err = {0};
    if (ls_vocab_new(&v, &src, &err)) fail_msg("%s", err.msg);
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
    *v = vocabulary(model, NULL);
    if (ls_chat_new(&c, *v, text, n, &err)) fail_msg("%s: %s", name, err.msg);
    free(text);
    return c;
}

static void one_template(const json_t *line, const json_t *model) {
    ls_vocab *v;
    ls_chat *c = chat_of(line, &v);
    char known[512];
    ls_chat_list(known, sizeof known);
    assert_string_equal(ls_chat_name(c), json_string_value(json_object_get(line, "frame")));
    assert_string_equal(ls_chat_end(c), json_string_value(json_object_get(line, "end")));
    assert_non_null(strstr(known, ls_chat_name(c)));
    assert_true(ls_vocab_special(v, ls_chat_end(c), strlen(ls_chat_end(c))) >= 0);
    ls_chat_free(c);
    ls_vocab_free(v);
    (void)model;
}

static void every_template_is_recognised(void **state) {
    (void)state;
    assert_true(each_line("template", one_template) >= 30);
}

static void one_conversation(const json_t *line, const json_t *model) {
    ls_vocab *v;
    ls_chat *c = chat_of(model, &v);
    const char *system = json_string_value(json_object_get(line, "system"));
    json_t *users = json_object_get(line, "users"), *answers = json_object_get(line, "answers"),
           *want = json_object_get(line, "want");
    ls_buf text = {0}, spelled = {0};
    ls_ids ids = {0};
    ls_err err = {0};
    for (size_t i = 0; i < json_array_size(users); i++) {
        const json_t *user = json_array_get(users, i);
        const char *p = json_string_value(user);
        size_t n = json_string_length(user);
        if (i) {
            ls_buf_str(&text, json_string_value(json_array_get(answers, i - 1)));
            ls_buf_str(&spelled, json_string_value(json_array_get(answers, i - 1)));
        }
        ls_chat_render(c, i == 0, system, p, n, &text);
        ids.n = 0;
        ls_code code = ls_chat_turn(c, i == 0, system, p, n, &ids, &err);
        if (json_is_null(want)) {
            assert_int_equal(code, LS_E_USAGE);
            assert_non_null(strstr(err.msg, ls_chat_name(c)));
            break;
        }
        assert_int_equal(code, LS_OK);
        for (size_t k = 0; k < ids.n; k++) { // the ids say what the text says
            size_t len;
            const char *bytes = ls_vocab_bytes(v, ids.p[k], &len);
            ls_buf_add(&spelled, bytes, len);
        }
    }
    if (!json_is_null(want)) {
        bool same = text.n == json_string_length(want) && !memcmp(text.p, json_string_value(want), text.n);
        ls_buf_char(&text, 0);
        if (!same) fail_msg("%s:\n%s\nis not\n%s", ls_chat_name(c), text.p, json_string_value(want));
        assert_int_equal(spelled.n, text.n - 1);
        assert_memory_equal(spelled.p, text.p, spelled.n);
    }
    ls_buf_free(&text);
    ls_buf_free(&spelled);
    ls_ids_free(&ids);
    ls_chat_free(c);
    ls_vocab_free(v);
}

static void conversations_equal_the_reference(void **state) {
    (void)state;
    assert_true(each_line("conversation", one_conversation) >= 500);
}

// However a user spells special tokens, the turn has those of the frame only.
static void one_hostile_turn(const json_t *line, const json_t *model) {
    ls_vocab *v;
    ls_chat *c = chat_of(line, &v);
    ls_buf spells = {0};
    ls_ids plain = {0}, hostile = {0};
    ls_err err;
    for (int32_t id = 0; id < ls_vocab_size(v); id++) {
        size_t n;
        const char *p = ls_vocab_bytes(v, id, &n);
        if (ls_vocab_is_special(v, id)) ls_buf_add(&spells, p, n);
    }
    ls_buf_char(&spells, 0);
    for (int first = 0; first < 2; first++) {
        assert_int_equal(ls_chat_turn(c, first, "", "x", 1, &plain, &err), LS_OK);
        assert_int_equal(ls_chat_turn(c, first, "", spells.p, spells.n - 1, &hostile, &err), LS_OK);
    }
    size_t expected = 0, got = 0;
    for (size_t i = 0; i < plain.n; i++) expected += ls_vocab_is_special(v, plain.p[i]);
    for (size_t i = 0; i < hostile.n; i++) got += ls_vocab_is_special(v, hostile.p[i]);
    assert_true(expected > 0);
    assert_int_equal(got, expected);
    ls_buf_free(&spells);
    ls_ids_free(&plain);
    ls_ids_free(&hostile);
    ls_chat_free(c);
    ls_vocab_free(v);
    (void)model;
}

static void spelled_out_tokens_stay_text(void **state) {
    (void)state;
    each_line("template", one_hostile_turn);
}

static void one_missing_token(const json_t *line, const json_t *model) {
    const char *end = json_string_value(json_object_get(line, "end"));
    if (!strcmp(end, json_string_value(json_object_get(line, "eos")))) return;
    size_t n;
    char *text = template_file(json_string_value(json_object_get(line, "template")), &n);
    ls_vocab *v = vocabulary(line, end);
    ls_chat *c;
    ls_err err = {0};
    assert_int_equal(ls_chat_new(&c, v, text, n, &err), LS_E_UNSUPPORTED);
    assert_null(c);
    assert_non_null(strstr(err.msg, end));
    ls_vocab_free(v);
    free(text);
    (void)model;
}

static void missing_special_tokens_are_named(void **state) {
    (void)state;
    each_line("template", one_missing_token);
}

// ---- templates that are of no frame

static json_t *chatml_model(void) {
    return json_pack("{s:s, s:s, s:[s, s]}", "bos", "", "eos", "<|im_end|>", "special", "<|im_start|>", "<|im_end|>");
}

static void refused(const char *text, size_t n, const char *because) {
    json_t *model = chatml_model();
    ls_vocab *v = vocabulary(model, NULL);
    ls_chat *c;
    ls_err err = {0};
    assert_int_equal(ls_chat_new(&c, v, text, n, &err), LS_E_UNSUPPORTED);
    assert_null(c);
    if (!strstr(err.msg, because)) fail_msg("%s: no word of '%s'", err.msg, because);
    assert_non_null(strstr(err.msg, "chatml, "));
    ls_vocab_free(v);
    json_decref(model);
}

#define LOOP "{% for message in messages %}"
#define PROMPT "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

static void other_templates_are_refused(void **state) {
    (void)state;
    static const char *const others[][2] = {
        {"", "not recognised"},
        {"no template at all", "not recognised"},
        {LOOP "{{ message.role }}: {{ message.content }}\n{% endfor %}", "not recognised"},
        // near ChatML: a line break too many, a title in the role, a prompt inside the loop, trimmed at one end, bent
        // for a word
        {LOOP "\n{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}\n" PROMPT,
         "not recognised"},
        {LOOP "{{'<|im_start|>' + message['role'].title() + '\n' + message['content'] + '<|im_end|>\n'}}" PROMPT,
         "not recognised"},
        {LOOP "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
              "'<|im_end|>\n<|im_start|>assistant\n'}}{% endfor %}",
         "not recognised"},
        {LOOP "{{'<|im_start|>' + message['role'] + '\n' + message['content'].rstrip() + '<|im_end|>\n'}}" PROMPT,
         "not recognised"},
        {LOOP "{{'<|im_start|>' + message['role'] + '\n' + message['content'].replace('<', '&lt;') + "
              "'<|im_end|>\n'}}" PROMPT,
         "not recognised"},
        {LOOP "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}{% if loop.index > 2 "
              "%}!{% endif %}" PROMPT,
         "not recognised"},
        // what cannot be followed at all
        {LOOP "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}",
         "'endfor' is missing"},
        {LOOP "{{'<|im_start|>' + message['role'] + '\n' + message['content'] | wordwrap + '<|im_end|>\n'}}" PROMPT,
         "'wordwrap'"},
        {"\n\n{% include 'x' %}", "line 3: the statement 'include'"},
        {"{{ '<|im_start|>", "not closed"},
        {LOOP "{{ raise_exception('never') }}{% endfor %}", "never"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        refused(others[i][0], strlen(others[i][0]), others[i][1]);
}

static void a_template_of_other_looks_is_still_its_frame(void **state) {
    (void)state;
    static const char *const chatml[] = {
        LOOP "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}" PROMPT,
        "{%- for m in messages %}\n<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor "
        "-%}\n<|im_start|>assistant\n{{ '' }}",
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{{ ['<|im_start|>' "
        "~ m.role, "
        "m.content + '<|im_end|>', ''] | join('\n') }}{% endfor %}<|im_start|>assistant{{ '\n' }}",
    };
    json_t *model = chatml_model();
    ls_vocab *v = vocabulary(model, NULL);
    for (size_t i = 0; i < 3; i++) {
        ls_chat *c;
        ls_err err = {0};
        ls_buf text = {0};
        if (ls_chat_new(&c, v, chatml[i], strlen(chatml[i]), &err)) fail_msg("%s", err.msg);
        ls_chat_render(c, true, "S", " x", 2, &text);
        ls_buf_char(&text, 0);
        assert_string_equal(
            text.p, i == 0 ? "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n x<|im_end|>\n<|im_start|>assistant\n"
                    : i == 1 ? "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"
                             : "<|im_start|>user\n x<|im_end|>\n<|im_start|>assistant\n");
        ls_buf_free(&text);
        ls_chat_free(c);
    }
    ls_vocab_free(v);
    json_decref(model);
}

static void hostile_templates_end(void **state) {
    (void)state;
    refused("\0{{\0}}", 6, "");
    ls_buf t = {0};
    for (int i = 0; i < 200000; i++) ls_buf_str(&t, "{% if true %}");
    refused(t.p, t.n, "");
    ls_buf_clear(&t);
    ls_buf_str(&t, "{{ ");
    for (int i = 0; i < 300000; i++) ls_buf_char(&t, "([-"[i % 3]);
    refused(t.p, t.n, "");
    ls_buf_str(&t, " }}");
    refused(t.p, t.n, "nested too deep");
    ls_buf_clear(&t);
    ls_buf_str(&t, "{{ ");
    for (int i = 0; i < 100000; i++) ls_buf_str(&t, "not ");
    ls_buf_str(&t, "1 }}");
    refused(t.p, t.n, "not recognised");
    ls_buf_clear(&t);
    ls_buf_str(&t, "{{ ");
    for (int i = 0; i < 20000; i++) ls_buf_str(&t, "1 if 0 else ");
    ls_buf_str(&t, "1 }}");
    refused(t.p, t.n, "nested too deep");
    ls_buf_clear(&t);
    for (int i = 0; i < (1 << 20) + 1; i++) ls_buf_char(&t, 'x');
    refused(t.p, t.n, "bytes");
    ls_buf_free(&t);
    static const char *const greedy[] = {
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(9999) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l == "
        "[ns.l] }}",
        "{% set ns = namespace(s='xx') %}{% for i in range(20) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ "
        "ns.s.replace('x', ns.s) | length }}",
        "{% set ns = namespace() %}{% set ns.ns = ns %}{% set m = namespace() %}{% set m.ns = m %}{{ ns == m }}",
        "{{ range(9999) | last }}{{ 0 and range(9999) | join('xxxxxxxxxxxxxxxxxxxxxxxxxxxx') }}{{ "
        "999999999999999999999 + 1 }}",
        "{{ 'a'[9999:] }}{{ 'a'[-9999:9999] }}{{ [][0] }}{{ messages[-9] }}{{ -2147483648 * 99 }}",
    };
    for (size_t i = 0; i < sizeof greedy / sizeof *greedy; i++) refused(greedy[i], strlen(greedy[i]), "");
}

// Real templates with bytes changed, cut or doubled: recognised or refused, and never more.
static void one_broken_template(const json_t *line, const json_t *model) {
    size_t n;
    char *text = template_file(json_string_value(json_object_get(line, "template")), &n);
    ls_vocab *v = vocabulary(line, NULL);
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
        ls_code code = ls_chat_new(&c, v, t, len, &err);
        assert_true(code == LS_OK ? c != NULL : code == LS_E_UNSUPPORTED && !c && *err.msg);
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

// ---- the Jinja underneath

static void one_piece(const json_t *line, const json_t *model) {
    static const ls_jinja_message messages[] = {
        {"system", {" S ", 3}}, {"user", {"Ue 1", 4}}, {"assistant", {"A\n", 2}}, {"user", {"x</think>y", 10}}};
    const json_t *piece = json_object_get(line, "piece"), *want = json_object_get(line, "want");
    ls_buf out = {0};
    ls_err err = {0};
    ls_code code =
        ls_jinja_render(json_string_value(piece), json_string_length(piece), messages, 4, "<s>", "</s>", &out, &err);
    ls_buf_char(&out, 0);
    if (json_is_null(want)) {
        if (!code) fail_msg("%s: no error but '%s'", json_string_value(piece), out.p);
        assert_int_equal(strncmp(err.msg, "line ", 5), 0);
    } else if (code || strcmp(out.p, json_string_value(want)))
        fail_msg("%s: '%s' (%s), not '%s'", json_string_value(piece), out.p, err.msg, json_string_value(want));
    ls_buf_free(&out);
    (void)model;
}

static void pieces_equal_the_reference(void **state) {
    (void)state;
    assert_true(each_line("piece", one_piece) >= 80);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_equal_the_reference),
        cmocka_unit_test(every_template_is_recognised),
        cmocka_unit_test(conversations_equal_the_reference),
        cmocka_unit_test(spelled_out_tokens_stay_text),
        cmocka_unit_test(missing_special_tokens_are_named),
        cmocka_unit_test(other_templates_are_refused),
        cmocka_unit_test(a_template_of_other_looks_is_still_its_frame),
        cmocka_unit_test(hostile_templates_end),
        cmocka_unit_test(broken_templates_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
