// YAML, configuration layers, flags: values, origins, and one clear line for everything that is wrong.
#include "base/file.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "cli/options.h"
#include "spec/drafter.h"
#include "spec/sizing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void yaml_errors_have_a_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a: 1\na: 2\n", "f:2:1: this key occurs twice"},
        {"a: &x 1\n", "f:1:4: anchors are not supported"},
        {"a: *x\n", "f:1:4: aliases are not supported"},
        {"a: 1\n---\nb: 2\n", "f:2:1: only one document is allowed"},
        {"a: [1, 2\n", "f:2:1: invalid YAML: did not find expected ',' or ']'"},
        {"a:\n\t- 1\n", "f:2:1: invalid YAML: found character that cannot start any token"},
        {"[a]: 1\n", "f:1:1: a key must be a plain word"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_yaml *y;
        ls_err err;
        assert_int_equal(ls_yaml_parse(&y, cases[i].text, strlen(cases[i].text), "f", &err), LS_E_USAGE);
        assert_string_equal(err.msg, cases[i].message);
        assert_null(y);
    }
    char deep[200];
    memset(deep, '[', sizeof deep);
    ls_yaml *y;
    ls_err err;
    assert_int_equal(ls_yaml_parse(&y, deep, sizeof deep, "f", &err), LS_E_USAGE);
    assert_non_null(strstr(err.msg, "nested too deeply"));
    assert_int_equal(ls_yaml_parse(&y, "", 0, "f", &err), LS_OK);
    assert_int_equal(y->n_items, 0);
    ls_yaml_free(y);
}

static char *temporary(const char *text) {
    char path[] = "/tmp/logitspec-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return strdup(path);
}

static void configuration_errors(void **state) {
    (void)state;
    static const struct {
        const char *text, *message; // what follows the file's name
    } cases[] = {
        {"decode:\n  max_row: 3\n", ":2:3: unknown key 'decode.max_row' (did you mean 'decode.max_rows'?)"},
        {"max_rows: 3\n", ":1:1: unknown key 'max_rows' (did you mean 'decode.max_rows'?)"},
        {"decode:\n  max_rows: 0\n", ":2:13: decode.max_rows is '0', expected auto or 1 to 256"},
        {"decode:\n  max_rows: [1]\n", ":2:13: decode.max_rows is one value, not a list"},
        {"pld:\n  ngram: [1]\n", ":2:10: pld.ngram is one value, not a list"},
        {"pld:\n  ngram: 9\n",
         ":2:10: pld.ngram is '9', expected a whole number from 1 to 3 (longest n-gram of a look-up)"},
        {"decode:\n  costs: 2:5\n",
         ":2:10: decode.costs is '2:5', expected auto, free, h200, or ROWS:MS,... in ascending order from 1 row, "
         "such as 1:10,8:15,64:90; of a mixture also experts: 1:10:32,8:15:80,expert:0.1"},
        {"decode:\n  sizing: auto:2\n", ":2:11: decode.sizing is 'auto:2', but auto takes no value"},
        {"decode:\n  acceptance: typical:7\n",
         ":2:15: decode.acceptance is 'typical:7', expected typical:EPSILON, a number from 0 to 1"},
        {"decode:\n  temperature: warm\n", ":2:16: decode.temperature is 'warm', expected a number from 0 to 100"},
        {"model:\n  engine: kernals\n",
         ":2:11: model.engine is 'kernals', expected one of kernels, reference (did you mean 'kernels'?)"},
        {"decode: 3\n", ":1:9: 'decode' is a section of keys, not a value"},
        {"ui:\n  mouse: maybe\n", ":2:10: ui.mouse is 'maybe', expected one of yes, no"},
        {"decode:\n  temperature: nan\n", ":2:16: decode.temperature is 'nan', expected a number from 0 to 100"},
        {"zzzzzz: 1\n", ":1:1: unknown key 'zzzzzz' ('logitspec config show' lists them)"},
        {"- a\n", ":1:1: keys are expected, such as 'decode:'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_options o;
        ls_err err = {0};
        char *path = temporary(cases[i].text);
        ls_options_init(&o);
        assert_int_equal(ls_options_file(&o, path, true, &err), LS_E_USAGE);
        assert_memory_equal(err.msg, path, strlen(path));
        assert_string_equal(err.msg + strlen(path), cases[i].message);
        ls_options_free(&o);
        unlink(path);
        free(path);
    }
}

static ls_code parse(ls_command_line *c, char *const *env, ls_err *err, const char *line) {
    static char copy[512];
    static char *argv[40];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *p = strtok(copy, " "); p; p = strtok(NULL, " ")) argv[argc++] = p;
    argv[argc] = NULL;
    return ls_command_line_read(c, argc, argv, env, err);
}

static const char *origin(const ls_options *o, const char *key) {
    for (int i = 0; i < ls_options_count(); i++)
        if (!strcmp(ls_options_key(i), key)) return o->origin[i];
    return "";
}

static void layers_in_order(void **state) {
    (void)state;
    char *file =
             temporary("decode:\n  max_rows: 10\n  max_tokens: 10\n  top_k: 10\n  stop: [a, b]\nprompt:\n  system:\n"),
         line[300];
    char *env[] = {"LOGITSPEC_SET_DECODE__MAX_TOKENS=20", "LOGITSPEC_SET_DECODE__TOP_K=20", "LOGITSPEC_OTHER=1", NULL};
    ls_command_line c;
    ls_err err = {0};
    snprintf(line, sizeof line,
             "logitspec generate --config %s --top-k 30 --set decode.top_p=0.5 --stop x --stop y --raw", file);
    if (parse(&c, env, &err, line)) fail_msg("%s", err.msg);
    assert_string_equal(c.command->name, "generate");
    assert_int_equal(c.options.max_rows, 10);
    assert_int_equal(c.options.max_tokens, 20);
    assert_int_equal(c.options.top_k, 30);
    assert_true(c.options.top_p == 0.5);
    assert_int_equal(c.options.stop.n, 2);
    assert_string_equal(c.options.stop.p[1], "y");
    assert_null(c.options.stop.p[2]);
    assert_string_equal(c.options.format, "raw");
    assert_null(c.options.system);
    assert_non_null(strstr(origin(&c.options, "decode.max_rows"), ":2:13"));
    assert_string_equal(origin(&c.options, "decode.max_tokens"), "environment LOGITSPEC_SET_DECODE__MAX_TOKENS");
    assert_string_equal(origin(&c.options, "decode.top_k"), "--top-k");
    ls_options copy;
    ls_options_copy(&copy, &c.options);
    assert_string_equal(copy.stop.p[0], "x");
    assert_ptr_not_equal(copy.stop.p[0], c.options.stop.p[0]);
    ls_options_free(&copy);
    ls_command_line_free(&c);
    unlink(file);
    free(file);
}

static void command_line_errors(void **state) {
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"logitspec generat", "unknown command 'generat' (did you mean 'generate'?)"},
        {"logitspec generate --promt x", "unknown flag '--promt' (did you mean '--prompt'?)"},
        {"logitspec generate --raw --chat", "--raw and --chat cannot be combined"},
        {"logitspec generate --trace a --trace b", "--trace is given twice: name one file"},
        {"logitspec generate --max-rows", "flag '--max-rows' needs a value"},
        {"logitspec generate --max-rows 300", "--max-rows: decode.max_rows is '300', expected auto or 1 to 256"},
        {"logitspec tokenize --max-rows 3", "'logitspec tokenize' has no flag '--max-rows'"},
        {"logitspec tokenize -q", "'logitspec tokenize' has no flag '--quiet'"}, // a short form is the same flag
        {"logitspec generate --prompt x --prompt-file y", "--prompt and --prompt-file cannot be combined"},
        {"logitspec generate --set x", "--set x: KEY=VALUE is expected"},
        {"logitspec generate --config /nonexistent", "/nonexistent: No such file or directory"},
    };
    char *env[] = {NULL};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_command_line c;
        ls_err err = {0};
        assert_int_equal(parse(&c, env, &err, cases[i].line), LS_E_USAGE);
        assert_string_equal(err.msg, cases[i].message);
    }
}

// configs/default.yaml holds every option, with the built-in value.
static void shipped_file_equals_the_defaults(void **state) {
    (void)state;
    ls_options built_in, shipped;
    ls_err err = {0};
    ls_options_init(&built_in);
    ls_options_init(&shipped);
    if (ls_options_file(&shipped, "configs/default.yaml", true, &err)) fail_msg("%s", err.msg);
    for (int i = 0; i < LS_OPT_COUNT; i++) {
        ls_buf a = {0}, b = {0};
        ls_options_value(&built_in, i, &a);
        ls_options_value(&shipped, i, &b);
        assert_string_equal(a.p, b.p);
        if (!strncmp(shipped.origin[i], "default", 7)) fail_msg("%s is not in configs/default.yaml", ls_options_key(i));
        ls_buf_free(&a);
        ls_buf_free(&b);
    }
    ls_options_free(&built_in);
    ls_options_free(&shipped);
}

// Each method has a file that names it, the sizing that it has by default, and all of its knobs with their defaults.
static void method_files_hold_their_defaults(void **state) {
    (void)state;
    for (const ls_method *const *m = ls_methods; *m; m++) {
        ls_options o;
        ls_err err = {0};
        char path[100];
        ls_options_init(&o);
        snprintf(path, sizeof path, "configs/methods/%s.yaml", (*m)->name);
        if (ls_options_file(&o, path, true, &err)) fail_msg("%s", err.msg);
        assert_string_equal(o.method, (*m)->name);
        assert_string_equal(o.acceptance, "exact");
        ls_sizing z = {0};
        char rule[40];
        ls_sizing_settle(&z, *m, 0);
        ls_sizing_write(&z, rule, sizeof rule);
        assert_string_equal(o.sizing, rule);
        ls_knob_value fallback[64];
        ls_knob_defaults(fallback);
        const size_t first = ls_knob_offset(*m);
        for (size_t i = 0; (*m)->knobs && (*m)->knobs[i].key; i++) {
            assert_string_not_equal(o.origin[LS_OPT_COUNT + first + i], "default");        // the file has it
            if ((*m)->knobs[i].kind == LS_KNOB_FILE) assert_null(o.knobs[first + i].text); // ~: none
            assert_true(o.knobs[first + i].number >= fallback[first + i].number &&
                        o.knobs[first + i].number <= fallback[first + i].number);
        }
        ls_options_free(&o);
    }
}

// So has each sizing rule with knobs: configs/sizings.
static void sizing_files_hold_their_defaults(void **state) {
    (void)state;
    int files = 0;
    for (int i = 0; ls_sizing_at(i); i++) {
        const ls_knob *knobs = ls_sizing_rule_at(i)->knobs;
        const size_t first = ls_knob_of_sizing(ls_sizing_rule_at(i));
        ls_options o;
        ls_err err = {0};
        char path[100];
        if (!knobs) continue;
        ls_options_init(&o);
        snprintf(path, sizeof path, "configs/sizings/%s.yaml", ls_sizing_at(i)->name);
        if (ls_options_file(&o, path, true, &err)) fail_msg("%s", err.msg);
        ls_sizing shipped = {0}, built_in = {0};
        assert_int_equal(ls_sizing_read(&shipped, "", o.sizing, &err), LS_OK);
        assert_int_equal(ls_sizing_read(&built_in, "", ls_sizing_at(i)->name, &err), LS_OK);
        assert_memory_equal(shipped.values, built_in.values, sizeof shipped.values);
        for (size_t k = 0; knobs[k].key; k++) {
            assert_string_not_equal(o.origin[LS_OPT_COUNT + first + k], "default"); // the file has it
            assert_true(o.knobs[first + k].number >= knobs[k].fallback &&
                        o.knobs[first + k].number <= knobs[k].fallback);
        }
        ls_options_free(&o);
        files++;
    }
    assert_true(files >= 1);
}

// What `config show` prints is a configuration that gives the same values.
static void shown_configuration_reads_back(void **state) {
    (void)state;
    ls_options a, b;
    ls_err err = {0};
    ls_buf text = {0}, again = {0};
    ls_options_init(&a);
    assert_int_equal(ls_options_set(&a, "decode.stop", "a \"quoted\"\n\x01 text \xC3\xA9", "t", &err), LS_OK);
    assert_int_equal(ls_options_set(&a, "prompt.system", "", "t", &err), LS_OK);
    // a double takes the first whole number that is not allowed for its neighbour
    assert_int_equal(ls_options_set(&a, "decode.seed", "9007199254740993", "t", &err), LS_E_USAGE);
    assert_int_equal(ls_options_set(&a, "decode.seed", "9007199254740992", "t", &err), LS_OK);
    ls_options_show(&a, &text);
    char *path = temporary(text.p);
    ls_options_init(&b);
    if (ls_options_file(&b, path, true, &err)) fail_msg("%s", err.msg);
    for (int i = 0; i < LS_OPT_COUNT; i++) {
        ls_buf_clear(&text);
        ls_buf_clear(&again);
        ls_options_value(&a, i, &text);
        ls_options_value(&b, i, &again);
        assert_string_equal(text.p, again.p);
    }
    ls_options_free(&a);
    ls_options_free(&b);
    ls_buf_free(&text);
    ls_buf_free(&again);
    unlink(path);
    free(path);
}

static ls_code change_file(const char *path, const char *before, const ls_config_change *changes, int n, ls_buf *after,
                           ls_err *err) {
    ls_buf text = {0};
    if (before) {
        ls_buf_str(&text, before);
        assert_int_equal(ls_write_file(path, &text, err), LS_OK);
    }
    const ls_code code = ls_config_file_change(path, changes, n, err);
    FILE *f = fopen(path, "re");
    ls_buf_free(&text);
    ls_buf_clear(after);
    if (f) {
        assert_int_equal(ls_read_all(after, f, path, 1 << 20, err), LS_OK);
        fclose(f);
    }
    ls_buf_str(after, "");
    return code;
}

// What a person wrote stays: comments, order, other keys. What cannot be changed safely is refused, and the file stays.
static void a_configuration_file_is_changed_with_care(void **state) {
    (void)state;
    static const ls_config_change changes[] = {{"decode.method", "pld"}, {"pld.ngram", "2"}, {"decode.max_rows", "16"}};
    static const struct {
        const char *before, *after;
    } cases[] = {
        {NULL, "decode:\n  max_rows: 16\n  method: pld\npld:\n  ngram: 2\n"},
        {"", "decode:\n  max_rows: 16\n  method: pld\npld:\n  ngram: 2\n"},
        {"# mine\ndecode:\n    method: \"suffix\"   # fast\n    max_rows: auto\n\nui:\n  keys: [\"worst=W\"]\n",
         "# mine\ndecode:\n    method: pld   # fast\n    max_rows: 16\n\nui:\n  keys: [\"worst=W\"]\npld:\n  ngram: "
         "2\n"},
        {"pld:\n  # longest\n  ngram: 3# no comment\nmodel: {threads: 2}",
         "pld:\n  # longest\n  ngram: 2\nmodel: {threads: 2}\ndecode:\n  max_rows: 16\n  method: pld\n"},
        {"decode:\n  budget: 3 # as before\n  method: ar\npld:\n  ngram: 1\n",
         "decode:\n  budget: 16 # as before\n  method: pld\npld:\n  ngram: 2\n"},
        {"decode:\n  method: 'a ''b'' # c'\n  seed: 3\n", NULL}, // a quote within quotes: more than this can change
        {"decode: {method: plain, seed: 1}\n", NULL},
        {"decode:\n  method:\n    - plain\n", NULL},
        {"decode: &x\n", NULL},
        {"decode:\n  method: |\n    several\n    lines\n  seed: 3\n", NULL},
    };
    char dir[] = "/tmp/logitspec-config-XXXXXX", path[80];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/sub/config.yaml", dir);
    ls_buf after = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_err err = {0};
        const ls_code code = change_file(path, cases[i].before, changes, 3, &after, &err);
        if (cases[i].after) assert_int_equal(code, LS_OK);
        else assert_int_equal(code, LS_E_USAGE);
        assert_string_equal(after.p, cases[i].after ? cases[i].after : cases[i].before);
        if (code) assert_non_null(strstr(err.msg, path)); // the message names the file
    }
    // what a setting may say is read back as it was, however it must be spelled
    static const char *const values[] = {"fixed:8", "-1", "a \"b\" \\ # c", "~", "no", " x", "two: words", "\n"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        ls_err err = {0};
        ls_yaml *y;
        const ls_config_change c = {"rest.corpus", values[i]};
        assert_int_equal(change_file(path, "a: 1\n", &c, 1, &after, &err), LS_OK);
        assert_int_equal(ls_yaml_parse(&y, after.p, strlen(after.p), "f", &err), LS_OK);
        assert_string_equal(ls_yaml_get(ls_yaml_get(y, "rest"), "corpus")->text, values[i]);
        assert_string_equal(ls_yaml_get(y, "a")->text, "1");
        ls_yaml_free(y);
    }
    ls_buf_free(&after);
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_errors_have_a_place),
        cmocka_unit_test(configuration_errors),
        cmocka_unit_test(layers_in_order),
        cmocka_unit_test(command_line_errors),
        cmocka_unit_test(shipped_file_equals_the_defaults),
        cmocka_unit_test(method_files_hold_their_defaults),
        cmocka_unit_test(sizing_files_hold_their_defaults),
        cmocka_unit_test(shown_configuration_reads_back),
        cmocka_unit_test(a_configuration_file_is_changed_with_care),
    };
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
