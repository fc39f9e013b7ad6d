// What users write as YAML: configurations, demos and lists of models. Any text is one of them or one clear error; a
// configuration that was read says the same when `config show` prints it and that is read again, and a demo can be
// played. An input that begins with '=' is a list of ways to decode, as in `compare --methods`.
#include "base/yaml.h"
#include "cli/variant.h"
#include "cli/demo_file.h"
#include "model/registry.h"
#include "trace/trace_events.h"
#include "tests/fuzz/input.h"

#include <math.h>

static bool same_text(const char *a, const char *b) { // NULL: absent; no file is an empty name too
    return !strcmp(a ? a : "", b ? b : "");
}
static bool same_number(double a, double b) { // as far as it is shown
    return fabs(a - b) <= 1e-9 * fabs(a);
}
static bool same_seed(ls_opt_SEED a, ls_opt_SEED b) {
    return a.set == b.set && a.value == b.value;
}
static bool same_list(ls_opt_LIST a, ls_opt_LIST b) {
    bool same = a.n == b.n;
    for (size_t i = 0; i < a.n && same; i++) same = same_text(a.p[i], b.p[i]);
    return same;
}

static void expect_same(const ls_options *a, const ls_options *b) {
#define SAME_STR same_text
#define SAME_ENUM same_text
#define SAME_SIZING same_text
#define SAME_ACCEPT same_text
#define SAME_COSTS same_text
#define SAME_INT same_number
#define SAME_AUTO same_number
#define SAME_NUM same_number
#define SAME_BOOL same_number
#define SAME_SEED same_seed
#define SAME_LIST same_list
#define OPTION(field, type, ...) EXPECT(SAME_##type(a->field, b->field));
#include "cli/options.def"
#undef OPTION
    for (size_t i = 0; i < ls_knob_count(); i++)
        EXPECT(same_number(a->knobs[i].number, b->knobs[i].number) && same_text(a->knobs[i].text, b->knobs[i].text));
}

static ls_code read_text(ls_options *o, const char *p, size_t n, const char *name, ls_err *err) {
    ls_yaml *y;
    ls_code code = ls_yaml_parse(&y, p, n, name, err);
    if (!code) code = ls_options_yaml(o, y, name, err);
    ls_yaml_free(y);
    return code;
}

static void configuration(const char *p, size_t n) {
    ls_options o, copy, again;
    ls_err err = {0};
    ls_options_init(&o);
    const ls_code code = read_text(&o, p, n, "my.yaml", &err);
    fuzz_said(code, &err);
    if (!code) {
        ui_options drawn;
        ls_buf shown = {0};
        fuzz_said(ls_screen_options(&o, &drawn, &err), &err); // keys and colours
        ui_bind_defaults();
        ls_options_show(&o, &shown);
        ls_options_init(&again);
        if (read_text(&again, shown.p, shown.n, "shown.yaml", &err)) fuzz_fail(__FILE__, __LINE__, err.msg);
        expect_same(&o, &again);
        ls_options_copy(&copy, &again);
        expect_same(&o, &copy);
        ls_options_free(&copy);
        ls_options_free(&again);
        ls_buf_free(&shown);
    }
    ls_options_free(&o);
}

// On a recording, a note read every now and then.
static void play(const ls_demo *d) {
    ls_trace_events *t;
    ls_event *e;
    ui_state s;
    ls_options o;
    ls_err err = {0};
    ls_options_init(&o);
    if (d->settings) fuzz_said(ls_options_yaml(&o, d->settings, d->file, &err), &err);
    ls_options_free(&o);
    EXPECT(!ls_trace_events_open(&t, "tests/fuzz/trace/logitspec.jsonl", NULL));
    ui_state_init(&s);
    ui_demo_begin(&s, &d->play);
    for (int i = 0; !ls_trace_events_next(t, &e, NULL) && e; i++) {
        ui_on_event(&s, e);
        ui_demo_is_due(&s, (uint64_t)i << 30);
        if (i % 4 == 3) fuzz_screen(&s, 30, 100, NULL, 0);
        if (i % 2) ui_demo_go_on(&s);
    }
    fuzz_screen(&s, 36, 120, NULL, 0);
    ui_state_free(&s);
    ls_trace_events_close(t);
}

static void demo(const uint8_t *data, size_t n) {
    ls_demo d;
    ls_err err = {0};
    const ls_code code = ls_demo_read(&d, fuzz_file(data, n), &err);
    fuzz_said(code, &err);
    if (code) return;
    play(&d);
    ls_demo_free(&d);
}

static void models(const char *p, size_t n) {
    ls_registry r = {0};
    ls_err err = {0};
    const ls_code code = ls_registry_parse(&r, p, n, "models.yaml", false, &err);
    fuzz_said(code, &err);
    for (size_t i = 0; i < r.n && !code; i++) {
        ls_buf out = {0};
        ls_registry_json(r.entries[i], &out);
        fuzz_json(out.p, out.n);
        ls_buf_free(&out);
        ls_registry_get(&r, r.entries[i]->name);
    }
    ls_registry_free(&r);
}

static void ways_to_decode(const char *list) {
    ls_options base;
    ls_variant *c;
    ls_err err = {0};
    int n;
    if (strstr(list, ".y")) return; // files
    ls_options_init(&base);
    const ls_code code = ls_variants_read(&c, &n, "--methods", list, &base, &err);
    fuzz_said(code, &err);
    EXPECT(code ? !c : n > 0);
    ls_variants_free(c, n);
    ls_options_free(&base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = malloc(n + 1); // its end is the allocation's
    memcpy(text, data, n);
    text[n] = 0;
    if (*text == '=') ways_to_decode(text + 1);
    else {
        configuration(text, n);
        models(text, n);
        demo(data, n);
    }
    free(text);
    return 0;
}
