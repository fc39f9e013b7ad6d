// A model's thinking is told apart from its answer, however its signs are cut into tokens; the screen shows it fainter,
// or as one line.
#include "base/mem.h"
#include "base/rng.h"
#include "ui/render.h"
#include "ui/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Tokens 0..255 are the bytes, so any text can be cut into tokens of any length by hand.
static void tokens_are_bytes(ui_state *s) {
    ls_event *e = ls_event_new(LS_EV_TOKENS);
    e->tokens.n = 256;
    e->tokens.ids = ls_malloc(256 * sizeof *e->tokens.ids);
    e->tokens.ends = ls_malloc(256 * sizeof *e->tokens.ends);
    e->tokens.special = ls_calloc(256, 1);
    e->tokens.bytes = ls_malloc(256);
    for (int i = 0; i < 256; i++) e->tokens.ids[i] = i, e->tokens.ends[i] = i + 1, e->tokens.bytes[i] = (char)i;
    ui_on_event(s, e);
}

static void signs_are_found_in_any_pieces(void **state) {
    (void)state;
    static const struct {
        const char *prompt, *text;
        int from, to; // bytes; -1: none
    } cases[] = {
        {"", "hi <think>well</think>so", 3, 22},
        {"", "no <think-> <thin k> </think>", -1, -1},
        {"", "<think>on and on", 0, -1},
        {"<think>\n", "well</think>\n\nso <think>x</think>", 0, 12},
        {"<think>\n\n</think>\n\n", "so", -1, -1},
        {"", "[THINK]a</think>b[/THINK]c", 0, 25},
        {"", "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", 0, 38},
        {"", "<<think>>a</think>", 1, 18},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (uint64_t round = 0; round < 50; round++) {
            ls_token one[100];
            ui_thinking t;
            ls_tokens tokens = {0};
            const int n = (int)strlen(cases[c].text);
            int32_t prompt[30];
            int n_prompt = 0, count = 0, starts[101];
            ls_token letters[256];
            static char bytes[256];
            for (int i = 0; i < 256; i++) bytes[i] = (char)i, letters[i] = (ls_token){&bytes[i], 1, false};
            tokens = (ls_tokens){letters, 256};
            for (const char *p = cases[c].prompt; *p; p++) prompt[n_prompt++] = (unsigned char)*p;
            ui_thinking_begin(&t, &tokens, prompt, n_prompt);
            for (int at = 0; at < n; count++) {
                const int longest = round ? 1 + (int)(ls_uniform_at(round, (uint64_t)count) * 9) : 1;
                const int len = longest < n - at ? longest : n - at;
                starts[count] = at;
                one[count] = (ls_token){(char *)cases[c].text + at, len, false};
                ui_thinking_add(&t, &one[count], count);
                at += len;
            }
            starts[count] = n;
            for (int i = 0; i < count; i++) { // a token thinks where any of its bytes does
                const bool want =
                    cases[c].from >= 0 && starts[i + 1] > cases[c].from && (cases[c].to < 0 || starts[i] < cases[c].to);
                assert_int_equal(ui_thinking_at(&t, i), want);
            }
        }
}

static ls_buf screen(ui_state *s, int *faint) {
    ui_canvas c = {.utf8 = true};
    ls_buf text = {0};
    ui_canvas_resize(&c, 24, 80);
    ui_render(s, &c);
    *faint = 0;
    for (int i = 0; i < c.rows * c.cols; i++) *faint += (c.cells[i].mark & UI_FAINT) && c.cells[i].glyph[0] > ' ';
    ui_canvas_text(&c, false, &text);
    ui_canvas_free(&c);
    return text;
}

static void the_screen_folds_it(void **state) {
    (void)state;
    static const char text[] = "<think>hmwell</think>the answer";
    ui_state s;
    ui_state_init(&s);
    ls_event *e = ls_event_new(LS_EV_HEADER);
    e->header = ls_calloc(1, sizeof *e->header);
    ui_on_event(&s, e);
    tokens_are_bytes(&s);
    e = ls_event_new(LS_EV_PROMPT);
    e->prompt.n_ids = 1;
    e->prompt.ids = ls_calloc(1, sizeof *e->prompt.ids);
    e->prompt.text = ls_strdup("why");
    e->prompt.context_len = 1;
    ui_on_event(&s, e);
    ls_step *step = ls_step_new();
    for (int i = 0; text[i]; i++) {
        ls_step_start(step, (ls_step){.index = (uint32_t)i,
                                      .context_len = 1 + i,
                                      .output_pos = i,
                                      .forward = true,
                                      .n_path = 1,
                                      .n_emitted = 1,
                                      .rows = 1});
        ls_tree_start(&step->tree, text[i]);
        e = ls_event_new(LS_EV_STEP);
        e->step = ls_step_share(step);
        ui_on_event(&s, e);
    }
    ls_step_free(step);
    int faint;
    ls_buf shown = screen(&s, &faint);
    assert_non_null(strstr(shown.p, "hmwell"));
    assert_int_equal(faint, (int)strlen("<think>hmwell</think>"));
    ls_buf_free(&shown);
    ui_act(&s, UI_ACT_FOLD);
    shown = screen(&s, &faint);
    assert_null(strstr(shown.p, "hmwell"));
    assert_non_null(strstr(shown.p, "[thinking: 21 tokens, f unfolds]"));
    assert_non_null(strstr(shown.p, "the answer"));
    assert_int_equal(faint, 0);
    ls_buf_free(&shown);
    ui_state_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(signs_are_found_in_any_pieces),
                                       cmocka_unit_test(the_screen_folds_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
