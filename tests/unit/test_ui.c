// The screen without a terminal: layout, canvas, whole frames against tests/golden (UPDATE=1 writes them), random keys
// (KEYS=1000000: so many).
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "source/sources.h"
#include "ui/app.h"
#include "ui/demo.h"
#include "ui/edit.h"
#include "ui/panels.h"
#include "ui/render.h"

#include <ctype.h>
#include <locale.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>
#include <cmocka.h>

static void layout_covers_the_window(void **state) {
    (void)state;
    for (int rows = 1; rows <= 80; rows++)
        for (int cols = 1; cols <= 250; cols += 3)
            for (int focus = -1; focus < UI_PANELS; focus++)
                for (int more = 0; more < 6; more++) {
                    const int zoom = more / 2 == 0 ? -1 : more / 2 * 3 - 3;
                    const bool inspect = more % 2 || focus == UI_INSPECT; // what has the keys is open
                    const bool race = rows % 2 || focus == UI_COMPARE;
                    const bool note = more % 3 == 2;
                    const int lines = note ? 0 : cols % 7; // of the prompt
                    const ui_shown shown = {.focus = (ui_panel)focus,
                                            .zoom = (ui_panel)zoom,
                                            .inspect = inspect,
                                            .compare = race,
                                            .inspect_last = rows % 3 == 0};
                    const ui_room room = {.rows = rows,
                                          .cols = cols,
                                          .prompt_rows = lines,
                                          .message_rows = cols % 6,
                                          .empty = cols % 4 == 0,
                                          .note = note,
                                          .requests = focus == UI_REQUESTS || cols % 2};
                    ui_layout l = ui_layout_of(&room, &shown);
                    assert_int_equal(l.too_small, rows < UI_MIN_ROWS || cols < UI_MIN_COLS);
                    if (l.too_small) continue;
                    int cells = 0;
                    for (int p = 0; p < UI_PANELS; p++) {
                        ui_rect r = l.panel[p];
                        if (!r.rows) continue;
                        assert_true(r.rows >= 3 && r.cols >= 20);
                        assert_true(r.row >= 1 &&
                                    r.row + r.rows <= rows - 1 - l.message.rows - l.prompt.rows - l.note.rows &&
                                    r.col >= 0 && r.col + r.cols <= cols);
                        cells += r.rows * r.cols;
                        for (int q = 0; q < p; q++) {
                            ui_rect o = l.panel[q];
                            bool apart = !o.rows || r.row >= o.row + o.rows || o.row >= r.row + r.rows ||
                                         r.col >= o.col + o.cols || o.col >= r.col + r.cols;
                            assert_true(apart);
                        }
                    }
                    assert_true(note ? l.note.rows >= (rows >= 18 ? 6 : 4) : !l.note.rows);
                    assert_int_equal(cells, (rows - 2 - l.message.rows - l.prompt.rows - l.note.rows) *
                                                cols);                                // no gap, no overlap
                    if (focus >= 0 && zoom < 0) assert_true(l.panel[focus].rows > 0); // what has the keys is seen
                }
}

// Whatever bytes are drawn, a row holds exactly its cells and nothing that a terminal would obey.
static void hostile_text_stays_in_its_cells(void **state) {
    (void)state;
    static const char *const pieces[] = {
        "\033[2J",      "a",        "\n",     "\t",       "\xE6\x97\xA5", "\xF0\x9F\x98\x80", "e\xCC\x81",
        "\xE2\x80\xAE", "\xD7\xA9", "\xFF",   "\xE6\x97", "\x7F",         "\xC2\x9B",         "\xE2\x80\x8B",
        "\xEF\xB8\x8F", "  ",       "\u061C", "\u2066",   "\u200D",       "\u200C",           "\U000E0041",
        "\u2028"};
    ui_canvas c = {.utf8 = true};
    for (uint64_t round = 0; round < 4000; round++) {
        c.ambiguous_wide = round % 5 == 0;
        c.utf8 = round % 7 != 0;
        c.ascii = !c.utf8 || round % 3 == 0;
        ui_canvas_resize(&c, 2, 30);
        ls_buf text = {0};
        for (uint64_t i = 0; i < 12; i++)
            ls_buf_str(&text, pieces[(size_t)(ls_uniform_at(round, i) * (sizeof pieces / sizeof *pieces))]);
        ui_rect r = {0, 3, 1, 20};
        ui_pen p = ui_pen_at(&c, r, 0, UI_TEXT);
        ui_draw(&p, text.p, text.n);
        p = ui_pen_at(&c, (ui_rect){0, 3 + (int)(round % 19), 1, 1}, 0,
                      UI_TEXT); // one cell over what may be half of a wide one
        ui_draw(&p, "#", 1);
        int col = 0;
        for (; col < 30; col++) {
            const ui_cell *cell = &c.cells[col];
            assert_true(ls_utf8_valid(cell->glyph, strlen(cell->glyph)));
            uint32_t cp = ' ';
            if (!*cell->glyph) {
                assert_true(col > 0); // a further cell of something
                continue;
            }
            ls_utf8_decode(cell->glyph, strlen(cell->glyph), &cp);
            assert_true(ls_all_visible(cell->glyph));
            if (!c.utf8) assert_true(cp < 127);
            if (!c.ambiguous_wide && wcwidth((wchar_t)cp) == 2) assert_true(col + 1 < 30 && !*cell[1].glyph);
            if (col < 3 || col >= 23) assert_string_equal(cell->glyph, " ");
        }
        ls_buf_free(&text);
    }
    ui_canvas_free(&c);
}

// A conversation on a scripted model, with every time replaced by a fixed one.
static void converse_with(const char *name, ui_state *s, const char *prompt, const char *method, int max_tokens) {
    ls_setup setup = {.model = {.name = name, .engine = {.device = "cpu", .dtype = "auto"}},
                      .decode = {.method = method, .max_tokens = max_tokens, .sampling = {.top_p = 1}},
                      .format = LS_FORMAT_RAW};
    ls_source *source = ls_source_live(&(ls_live_options){.setup = &setup});
    assert_non_null(source);
    assert_int_equal(source->command(source, &(ls_command){.kind = LS_CMD_PROMPT, .text = (char *)prompt}, NULL),
                     LS_OK);
    for (bool ended = false; !ended || s->run.state != LS_STATE_IDLE;) {
        struct pollfd fd = {source->wake_fd, POLLIN, 0};
        assert_true(poll(&fd, 1, 20000) >= 0);
        for (ls_event *e; (e = source->next(source));) {
            for (int i = 0; i < LS_COST_SIZES && e->kind == LS_EV_PROMPT; i++)
                e->prompt.costs.base_ms[i] = 3 + 0.5 * ls_cost_rows[i];
            if (e->kind == LS_EV_PROMPT && e->prompt.costs.awake[0] > 0) e->prompt.costs.expert_ms = 0.2;
            if (e->kind == LS_EV_STEP) {
                ls_step *t = ls_step_new();
                ls_step_copy(t, e->step);
                t->t_draft_us = 20, t->t_verify_us = 5, t->t_commit_us = 10;
                t->t_forward_us = t->forward ? 3000 + 100 * t->tree.n : 0;
                t->t_total_us = t->t_forward_us + 40;
                t->plain_us = 3000, t->plain_spread = 0.04, t->plain_timed = 9, t->cpu_wait = 0;
                ls_step_free(e->step);
                e->step = ls_step_share(t);
                ls_step_free(t);
            }
            assert_false(e->kind == LS_EV_MESSAGE && e->message.is_error);
            ended |= e->kind == LS_EV_END;
            ui_on_event(s, e);
        }
    }
    source->close(source);
}

static void converse(ui_state *s, const char *prompt, const char *method, int max_tokens) {
    converse_with("script", s, prompt, method, max_tokens);
}

static void key(ui_state *s, int code) {
    ui_on_key(s, (ui_key){.code = code});
}

static void compare(ui_state *s, const char *name, int rows, int cols, bool ascii) {
    ui_canvas c = {.utf8 = true, .ascii = ascii};
    ls_buf got = {0}, want = {0};
    ui_canvas_resize(&c, rows, cols);
    ui_render(s, &c);
    ui_canvas_text(&c, false, &got);
    ls_buf_str(&got, "roles\n");
    ui_canvas_text(&c, true, &got);
    ui_canvas_free(&c);
    char path[128];
    snprintf(path, sizeof path, "tests/golden/%s.txt", name);
    if (getenv("UPDATE")) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fwrite(got.p, 1, got.n, f);
        fclose(f);
    }
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s is missing; UPDATE=1 writes it", path);
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) ls_buf_add(&want, block, n);
    fclose(f);
    if (want.n != got.n || memcmp(want.p, got.p, got.n)) {
        print_message("%s differs (UPDATE=1 rewrites it if the new one is right); got:\n%s\n", path, got.p);
        fail();
    }
    ls_buf_free(&got);
    ls_buf_free(&want);
}

static void frames_equal_the_golden_ones(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    compare(&s, "ui_start_80x24", 24, 80, false);
    converse(&s, "One fish, two fish. One", "logitspec-paper", 160);
    compare(&s, "ui_end_120x36", 36, 120, false);
    key(&s, UI_KEY_ESC);
    s.view.step = 20; // a step in the middle
    s.view.at_newest = false;
    compare(&s, "ui_history_80x24_ascii", 24, 80, true);
    compare(&s, "ui_history_120x36_ascii", 36, 120, true);
    s.view.brackets = true;
    compare(&s, "ui_history_200x50", 50, 200, false);
    key(&s, 'i');
    compare(&s, "ui_inspect_200x50_ascii", 50, 200, true);
    compare(&s, "ui_inspect_120x36", 36, 120, false);
    compare(&s, "ui_inspect_80x24", 24, 80, false);
    for (int row = 0; row < 8; row += 7) { // the root, and a row behind a rejected one, in a narrow panel
        ui_canvas c = {.utf8 = true};
        char right[UI_RIGHT_BYTES] = "", words[2048] = "";
        ls_buf text = {0};
        s.view.node = row;
        ui_canvas_resize(&c, 12, 24);
        ui_panel_inspect(&(ui_panel_view){&c, &s, &s.drawn, {0, 0, 12, 24}, right, 0});
        ui_canvas_text(&c, false, &text);
        for (char *word = strtok(text.p, " \n"); word; word = strtok(NULL, " \n"))
            strcat(strcat(words, word), " "); // 12 lines of 24 cells are shorter
        assert_non_null(strstr(words, row ? "not reached: an ancestor was rejected" : "of the same logits, drafted"));
        ls_buf_free(&text);
        ui_canvas_free(&c);
    }
    s.view.node = -1;
    key(&s, 'i');
    key(&s, '3');
    compare(&s, "ui_drafts_80x24", 24, 80, false);
    key(&s, '4');
    key(&s, 't');
    key(&s, 'z');
    compare(&s, "ui_tree_zoomed_80x24", 24, 80, false);
    key(&s, UI_KEY_ESC);
    key(&s, '5');
    key(&s, 'z');
    key(&s, 'G');
    compare(&s, "ui_stats_zoomed_120x36", 36, 120, false);
    compare(&s, "ui_stats_zoomed_80x24_ascii", 24, 80, true);
    key(&s, 'v');
    compare(&s, "ui_preview_120x36", 36, 120, false);
    s.view.preview = 0;
    s.view.step = 20;
    s.view.at_newest = false;
    key(&s, 'z');
    key(&s, '2');
    key(&s, 'o');
    key(&s, '\\');
    key(&s, 'o');
    compare(&s, "ui_filter_120x36", 36, 120, false);
    key(&s, UI_KEY_ESC);
    key(&s, '4');
    key(&s, '?');
    compare(&s, "ui_help_120x36", 36, 120, false);
    key(&s, UI_KEY_ESC);
    key(&s, ':');
    for (const char *p = "set decode.max_rows=8"; *p; p++) key(&s, *p);
    compare(&s, "ui_command_80x24", 24, 80, false);
    key(&s, UI_KEY_ENTER);
    assert_int_equal(s.asked.n_outbox, 1);
    assert_int_equal(s.asked.outbox[0].kind, LS_CMD_SET);
    assert_string_equal(s.asked.outbox[0].text, "decode.max_rows=8");
    compare(&s, "ui_compact_79x23", 23, 79, false);
    compare(&s, "ui_compact_40x12", 12, 40, false);
    compare(&s, "ui_compact_100x16_ascii", 16, 100, true);
    compare(&s, "ui_small_39x11", 11, 39, false);
    ui_state_free(&s);
}

// The experts of a mixture are told where its rows, its costs and a row are; screens of other models say nothing.
static void a_mixture_tells_its_experts(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    converse_with("script:mixture", &s, "One fish, two fish. One", "pld", 60);
    key(&s, UI_KEY_ESC);
    s.view.at_newest = false;
    for (s.view.step = 0; s.view.step + 1 < s.run.n_steps; s.view.step++) {
        const ls_step *step = ui_viewed(&s);
        if (step->tree.n > 4 && step->n_path > 1 && step->tree.nodes[1].alone) break;
    }
    compare(&s, "ui_mixture_120x36", 36, 120, false);
    key(&s, 'i');
    compare(&s, "ui_mixture_80x24", 24, 80, false);
    compare(&s, "ui_mixture_200x50_ascii", 50, 200, true);
    key(&s, '6');
    key(&s, 'z');
    compare(&s, "ui_mixture_inspect_80x24", 24, 80, false);
    ls_step *step = (ls_step *)(uintptr_t)ui_viewed(&s);
    const int32_t of_row = s.run.header.n_mixtures * s.run.header.n_experts_used, all = step->n_routes;
    static const char *const says[] = {"  router 1: expert", "which: first 2 rows", "which: not recorded"};
    for (int i = 0; i < 3; i++) {
        s.view.node = i ? 2 : 1;
        step->n_routes = i == 2 ? all : 2 * of_row; // no room for more
        if (i == 2) s.run.header.n_mixtures *= 100; // another turn's header: the step has not that many routes
        ui_canvas c = {.utf8 = true};
        ls_buf text = {0};
        ui_canvas_resize(&c, 24, 80);
        ui_render(&s, &c);
        ui_canvas_text(&c, false, &text);
        for (int k = 0; k < 3; k++) assert_int_equal(strstr(text.p, says[k]) != NULL, k == i);
        ls_buf_free(&text);
        ui_canvas_free(&c);
    }
    ui_state_free(&s);
}

static int cut_numbers(ui_state *s, int rows, int cols, bool ascii) {
    ui_canvas c = {.utf8 = true, .ascii = ascii};
    int n = 0;
    ui_canvas_resize(&c, rows, cols);
    ui_render(s, &c);
    for (int i = 0; i < rows * cols; i++) n += (c.cells[i].mark & UI_CUT) != 0;
    if (n) {
        ls_buf text = {0};
        ui_canvas_text(&c, false, &text);
        print_message("%s", text.p);
        ls_buf_free(&text);
    }
    ui_canvas_free(&c);
    return n;
}

// A part of a number is another number: at every width each one is whole, or not there.
static void no_width_cuts_a_number(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    converse(&s, "One fish, two fish. One", "logitspec-paper", 160);
    key(&s, UI_KEY_ESC);
    static const char *const states[] = {"",  "[",  "g",    "5z", "z4", "tz", "zi", "i3",
                                         "?", "?v", "v\\o", "2",  "S",  "S:", "L"};
    for (size_t k = 0; k < sizeof states / sizeof *states; k++) {
        for (const char *p = states[k]; *p; p++) key(&s, *p);
        for (int cols = 40 + (int)(k % 3); cols <= 240; cols += 3)
            if (cut_numbers(&s, cols < 80 ? 12 + cols % 12 : 24 + cols % 30, cols, cols % 2))
                fail_msg("a number is cut at %d columns after keys '%s'", cols, states[k]);
    }
    ui_state_free(&s);
    // the check can fail
    ui_canvas c = {.utf8 = true};
    ui_canvas_resize(&c, 1, 5);
    ui_pen p = ui_pen_at(&c, (ui_rect){0, 0, 1, 5}, 0, UI_TEXT);
    ui_draw(&p, "x 1.25", 6);
    assert_true(c.cells[4].mark & UI_CUT);
    p = ui_pen_at(&c, (ui_rect){0, 0, 1, 5}, 0, UI_TEXT);
    assert_false(ui_print(&p, "x 1.25"));
    assert_int_equal(p.col, 2);
    ui_canvas_free(&c);
}

static void statistics_follow_the_view(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    converse(&s, "One fish", "logitspec-paper", 100);
    uint64_t steps = ui_stats(&s, &s.drawn.statistics)->steps, emitted = ui_stats(&s, &s.drawn.statistics)->emitted;
    assert_int_equal(steps, s.run.n_steps);
    assert_int_equal(emitted, 100);
    assert_int_equal(ls_conversation_output(s.run.conversation), 100);
    key(&s, UI_KEY_ESC);
    assert_false(s.run.steps[s.run.n_steps - 1]->forward); // so the last step is seen with the one before it
    assert_true(ui_viewed(&s)->forward);
    key(&s, '[');
    assert_int_equal(ui_stats(&s, &s.drawn.statistics)->steps, steps - 2);
    key(&s, ']');
    assert_true(s.view.at_newest);
    assert_int_equal(ui_stats(&s, &s.drawn.statistics)->steps, steps);
    key(&s, 'g');
    assert_int_equal(ui_stats(&s, &s.drawn.statistics)->steps, 1);
    key(&s, '}');
    assert_int_equal(ui_stats(&s, &s.drawn.statistics)->steps, 11);
    key(&s, 'G');
    assert_int_equal(ui_stats(&s, &s.drawn.statistics)->emitted, emitted);
    ui_state_free(&s);
}

static void type_keys(ui_state *s, const char *keys) {
    for (; *keys; keys++) key(s, *keys);
}

static void history_is_gone_through_by_what_happened(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    converse(&s, "One fish, two fish. One", "logitspec-paper", 160);
    key(&s, UI_KEY_ESC);
    key(&s, 'g');
    int rejected = 0;
    for (size_t i = 1; i < s.run.n_steps; i++)
        rejected += s.run.steps[i]->forward && s.run.steps[i]->n_path < s.run.steps[i]->tree.n;
    int found = 0;
    for (size_t before = 0; key(&s, ')'), ui_viewed_index(&s) > before; before = ui_viewed_index(&s)) found++;
    assert_int_equal(found, rejected);
    assert_true(found > 5 && strstr(s.message, "no later step"));
    for (size_t before = s.run.n_steps; key(&s, '('), ui_viewed_index(&s) < before; before = ui_viewed_index(&s))
        found--;
    assert_true(found <= 1); // the one that it began at
    // worst and best, in order
    double gain[400], seen = -1e18;
    for (size_t i = 0; i < s.run.n_steps; i++)
        gain[i] = s.run.steps[i]->plain_us * ls_plain_forwards(s.run.steps[i]) - s.run.steps[i]->t_total_us;
    key(&s, 'G');
    for (size_t n = 0; n < s.run.n_steps; n++) {
        key(&s, 'w');
        const size_t at = ui_viewed_index(&s); // it may be the newest
        assert_true(gain[at] >= seen);
        for (size_t i = 0; n == 0 && i < s.run.n_steps; i++) assert_true(gain[i] >= gain[at]);
        seen = gain[at];
    }
    key(&s, 'g');
    type_keys(&s, "/TWO dogs");
    key(&s, UI_KEY_ENTER);
    for (int round = 0; round < 3; round++) {
        const ls_step *step = ui_viewed(&s);
        const ls_token *t = ls_token_of(&s.run.tokens, step->tree.nodes[ui_inspected(&s)].token);
        assert_string_equal(t->bytes, "t");
        key(&s, round == 1 ? 'N' : 'n');
    }
    type_keys(&s, "/zebra");
    key(&s, UI_KEY_ENTER);
    assert_non_null(strstr(s.message, "not found: 'zebra'"));
    type_keys(&s, ":goto 7");
    key(&s, UI_KEY_ENTER);
    assert_int_equal(ui_viewed(&s)->index, 7);
    type_keys(&s, ":goto 7000");
    key(&s, UI_KEY_ENTER);
    assert_true(s.message_is_error && ui_viewed(&s)->index == 7);
    // where a line is missing, numbers and places differ
    for (size_t i = ui_viewed_index(&s); i < s.run.n_steps; i++) ((ls_step *)s.run.steps[i])->index++;
    type_keys(&s, ":goto 9");
    key(&s, UI_KEY_ENTER);
    assert_int_equal(ui_viewed(&s)->index, 9);
    type_keys(&s, ":goto 7");
    key(&s, UI_KEY_ENTER);
    assert_true(s.message_is_error && ui_viewed(&s)->index == 9);
    assert_non_null(strstr(s.message, "turn 1 has some of steps 0 to "));
    ui_state_free(&s);
}

// Every cell that says what a click there means leads to it; arrows move the same cursor.
static void what_is_clicked_is_inspected(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    converse(&s, "One fish, two fish. One", "logitspec-paper", 100);
    key(&s, UI_KEY_ESC);
    key(&s, 'i');
    s.view.at_newest = false;
    s.view.step = 12;
    ui_canvas c = {.utf8 = true};
    int clicks[UI_PANELS] = {0};
    for (int cell = 0; cell < 50 * 200; cell += 3) {
        ui_canvas_resize(&c, 50, 200);
        ui_render(&s, &c);
        const ui_layout l = ui_layout_of(&s.drawn.room, &s.shown);
        const int tag = c.cells[cell].tag;
        const ui_panel at = ui_panel_at(&l, cell / 200, cell % 200);
        if (!tag) continue;
        assert_true(at != UI_NO_PANEL && at != UI_STATS);
        ui_on_key(&s, (ui_key){UI_KEY_MOUSE, UI_MOUSE_CLICK, cell / 200, cell % 200, tag});
        clicks[at]++;
        const ls_step *step = ui_viewed(&s);
        if (at == UI_OUTPUT) {
            assert_int_equal(ui_viewed_index(&s), (tag - 1) / LS_MAX_ROWS);
            assert_int_equal(step->tree.nodes[s.view.node].state, LS_NODE_ACCEPTED);
        }
        if (at == UI_TREE) assert_int_equal(ui_inspected(&s), tag - 1);
        if (at == UI_DRAFTS) assert_int_equal(s.view.node, step->tree.branches[tag - 1].first_node);
        s.view.step = 12, s.view.at_newest = false;
    }
    assert_true(clicks[UI_OUTPUT] > 25 && clicks[UI_TREE] > 20 && clicks[UI_DRAFTS] > 20 && clicks[UI_LOGITS] > 20);
    // down through the tree meets every row once
    bool met[LS_MAX_ROWS] = {0};
    key(&s, '4');
    s.view.node = 0;
    for (int i = 0; i < s.run.steps[12]->tree.n; i++) {
        assert_false(met[ui_inspected(&s)]);
        met[ui_inspected(&s)] = true;
        key(&s, 'j');
    }
    key(&s, 'h');
    const int parent = ui_inspected(&s);
    key(&s, 'l');
    assert_int_equal(s.run.steps[12]->tree.nodes[ui_inspected(&s)].parent, parent);
    // and left through the output every token
    key(&s, '1');
    key(&s, 'G');
    int tokens = 0;
    for (int32_t position = INT32_MAX;; tokens++) {
        key(&s, UI_KEY_LEFT);
        const ls_step *step = ui_viewed(&s);
        const int32_t now = step->context_len + step->tree.nodes[ui_inspected(&s)].depth;
        if (now == position) break;
        assert_true(now < position);
        position = now;
    }
    assert_in_range(tokens, 99, 100);
    ui_canvas_free(&c);
    ui_state_free(&s);
}

// Filter, order and search of the rows of a step.
static void rows_are_filtered_sorted_and_found(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    converse(&s, "One fish, two fish. One", "logitspec-paper", 100);
    key(&s, UI_KEY_ESC);
    s.view.at_newest = false;
    s.view.step = 12;
    const ls_step *step = ui_viewed(&s);
    int16_t rows[LS_MAX_ROWS], tree[LS_MAX_ROWS];
    assert_int_equal(ui_rows_of(&s, step, UI_DRAFTS, rows), step->tree.n_branches);
    for (int i = 0; i < step->tree.n_branches; i++) assert_int_equal(rows[i], i);
    key(&s, '3');
    key(&s, 'o');
    assert_int_equal(ui_rows_of(&s, step, UI_DRAFTS, rows), step->tree.n_branches);
    for (int i = 1; i < step->tree.n_branches; i++) { // the longest first, equal ones as they were
        const int a = step->tree.branches[rows[i - 1]].n_nodes, b = step->tree.branches[rows[i]].n_nodes;
        assert_true(a > b || (a == b && rows[i - 1] < rows[i]));
    }
    key(&s, 'O');
    const int16_t longest = rows[0];
    ui_rows_of(&s, step, UI_DRAFTS, rows);
    assert_int_equal(rows[step->tree.n_branches - 1], longest);
    for (int i = 0; i < 3; i++) key(&s, 'o'); // accepted, match, rank
    key(&s, 'O');
    assert_int_equal(s.list[UI_DRAFTS].order, 0);

    const char *word = NULL; // a letter that begins a guess
    for (int b = 1; b < step->tree.n_branches && !word; b++) {
        const char *bytes =
            ls_token_of(&s.run.tokens, step->tree.nodes[step->tree.branches[b].first_node].token)->bytes;
        if (isalpha((unsigned char)*bytes)) word = bytes;
    }
    assert_non_null(word);
    key(&s, '2');
    int holding = 0;
    for (int i = 0; i < step->n_top; i++)
        holding += !!strcasestr(ls_token_of(&s.run.tokens, step->top[i].id)->bytes, word);
    assert_true(holding > 0 && holding < step->n_top);
    key(&s, '\\');
    type_keys(&s, word);
    assert_int_equal(ui_rows_of(&s, step, UI_LOGITS, rows), holding); // in force while it is typed
    key(&s, UI_KEY_ENTER);
    assert_int_equal(ui_rows_of(&s, step, UI_LOGITS, rows), holding);
    for (int i = 0; i < holding; i++)
        assert_non_null(strcasestr(ls_token_of(&s.run.tokens, step->top[rows[i]].id)->bytes, word));
    key(&s, UI_KEY_ESC);
    assert_int_equal(ui_rows_of(&s, step, UI_LOGITS, rows), step->n_top);
    key(&s, '/');
    type_keys(&s, word);
    key(&s, UI_KEY_ENTER);
    bool met[LS_MAX_ROWS] = {false};
    for (int i = 0; i < holding; i++) { // every one once, then around
        assert_false(met[s.list[UI_LOGITS].found]);
        met[s.list[UI_LOGITS].found] = true;
        key(&s, 'n');
    }
    assert_true(met[s.list[UI_LOGITS].found]);

    key(&s, '4'); // of the tree whole branches stay
    key(&s, '\\');
    type_keys(&s, word);
    key(&s, UI_KEY_ENTER);
    bool shown[LS_MAX_ROWS];
    ui_rows_tree(&s, step, shown);
    int left = 0;
    for (int i = 1; i < step->tree.n; i++) {
        const int parent = step->tree.nodes[i].parent;
        left += shown[i];
        if (parent > 0) assert_int_equal(shown[i], shown[parent]);
        if (strcasestr(ls_token_of(&s.run.tokens, step->tree.nodes[i].token)->bytes, word)) assert_true(shown[i]);
    }
    assert_true(shown[0] && left > 0 && left < step->tree.n - 1);
    s.view.node = 0;
    ui_tree_order(step, tree);
    for (int i = 0; i < step->tree.n; i++, key(&s, 'j')) assert_true(shown[ui_inspected(&s)]);
    key(&s, UI_KEY_ESC);
    ui_rows_tree(&s, step, shown);
    for (int i = 0; i < step->tree.n; i++) assert_true(shown[i]);
    key(&s, '1');
    key(&s, '\\');
    assert_non_null(strstr(s.message, "can be filtered"));
    ui_state_free(&s);
}

static void the_line_editor(void **state) {
    (void)state;
    ui_edit e = {0};
    ui_edit_insert(&e, "h\xC3\xA9llo\033 w\xFFrld", 13);
    assert_string_equal(e.text.p, "h\xC3\xA9llo wrld"); // what cannot be shown is left out
    ui_edit_key(&e, UI_KEY_HOME);
    ui_edit_key(&e, UI_KEY_RIGHT);
    ui_edit_key(&e, UI_KEY_DELETE);
    assert_string_equal(e.text.p, "hllo wrld");
    ui_edit_key(&e, 0x1F600);
    ui_edit_key(&e, UI_KEY_BACKSPACE);
    ui_edit_key(&e, UI_KEY_END);
    ui_edit_key(&e, UI_CTRL('W'));
    assert_string_equal(e.text.p, "hllo ");
    ui_edit_set(&e, "one\ntwo");
    ui_edit_key(&e, UI_CTRL('W'));
    assert_string_equal(e.text.p, "one\n"); // up to the line's beginning
    ui_edit_key(&e, UI_CTRL('W'));
    assert_string_equal(e.text.p, ""); // and over it
    ui_edit_set(&e, "one  two\tthree");
    ui_edit_key(&e, UI_KEY_WORD_LEFT);
    ui_edit_key(&e, UI_KEY_WORD_LEFT);
    ui_edit_key(&e, 'X');
    ui_edit_key(&e, UI_KEY_WORD_RIGHT);
    ui_edit_key(&e, UI_KEY_DELETE_WORD);
    assert_string_equal(e.text.p, "one  Xtwo");
    assert_int_equal(ui_edit_insert(&e, "\r\na\rb\001\302\205", 8), 2);
    assert_string_equal(e.text.p, "one  Xtwo\na\nb");
    ui_edit_set(&e, "hllo ");
    char *first = ui_edit_take(&e);
    ui_edit_insert(&e, "new", 3);
    ui_edit_key(&e, UI_KEY_UP);
    assert_string_equal(e.text.p, first);
    ui_edit_key(&e, UI_KEY_DOWN);
    assert_string_equal(e.text.p, "new");
    free(first);
    ui_edit_set(&e, "one\ntwo three\nh\xC3\xA9");
    ui_edit_key(&e, UI_KEY_UP); // lines before history
    ui_edit_key(&e, UI_CTRL('K'));
    ui_edit_key(&e, UI_KEY_NEWLINE);
    ui_edit_key(&e, 'X');
    assert_string_equal(e.text.p, "one\ntwo\nX\nh\xC3\xA9");
    ui_edit_key(&e, UI_KEY_DOWN);
    ui_edit_key(&e, UI_KEY_RIGHT);
    ui_edit_key(&e, UI_KEY_UP);
    ui_edit_key(&e, UI_CTRL('A'));
    ui_edit_key(&e, UI_KEY_DOWN);
    ui_edit_key(&e, 'Y');
    assert_string_equal(e.text.p, "one\ntwo\nX\nYh\xC3\xA9");
    char path[] = "/tmp/logitspec-history-XXXXXX";
    close(mkstemp(path));
    free(ui_edit_take(&e));
    assert_int_equal(ui_history_add(&e, path, NULL), LS_OK);
    ui_edit again = {0};
    ui_history_load(&again, path);
    assert_int_equal(again.n_history, e.n_history);
    for (size_t i = 0; i < e.n_history; i++) assert_string_equal(again.history[i], e.history[i]);
    FILE *f = fopen(path, "a"); // what is damaged is left out
    fputs("{}\n[7]\n[\"x\\u0000y\"]\nnonsense\n[\"last\"]", f);
    fclose(f);
    ui_edit_free(&again);
    ui_history_load(&again, path);
    assert_int_equal(again.n_history, e.n_history + 1);
    assert_string_equal(again.history[e.n_history], "last");
    unlink(path);
    ui_edit_free(&again);
    ui_edit_free(&e);
}

static void keys_and_colours_can_be_others(void **state) {
    (void)state;
    ls_err err;
    assert_int_equal(ui_bind("worst=W F4 s", &err), LS_OK);
    assert_int_equal(ui_action_of('W', false), UI_ACT_WORST);
    assert_int_equal(ui_action_of(UI_KEY_F0 + 4, true), UI_ACT_WORST);
    assert_int_equal(ui_action_of('s', false), UI_ACT_WORST); // it was step's
    assert_int_equal(ui_action_of(UI_KEY_F0 + 6, false), UI_ACT_STEP);
    assert_int_equal(ui_action_of('w', false), UI_ACT_NONE);
    assert_string_equal(ui_action_keys(UI_ACT_STEP), "F6");
    assert_int_equal(ui_bind("help=", &err), LS_OK);
    assert_int_equal(ui_action_of('?', false), UI_ACT_NONE);
    static const char *const bad[] = {"worst",     "wurst=W",   "worst=F13",          "worst=F0",
                                      "worst=F01", "worst=F2x", "worst=F99999999999", "worst=Nonsense",
                                      "=W"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ui_bind(bad[i], &err), LS_E_USAGE);
        assert_non_null(strstr(err.msg, bad[i]));
    }
    ui_bind_defaults();
    assert_int_equal(ui_action_of('s', false), UI_ACT_STEP);
}

// What is drawn on top: the title of the frame over the panels, or "" where the panels are seen.
static void top_frame(ui_state *s, char out[16]) {
    static const char *const titles[] = {"Help", "Log", "Setup"};
    ui_canvas c = {.utf8 = true};
    ls_buf text = {0};
    *out = 0;
    ui_canvas_resize(&c, 36, 120);
    ui_render(s, &c);
    ui_canvas_text(&c, false, &text);
    const char *line = strchr(text.p, '\n') + 1;
    for (size_t i = 0; i < sizeof titles / sizeof *titles && !strstr(text.p, "1 Output"); i++) {
        const char *found = strstr(line, titles[i]);
        if (found && found < strchr(line, '\n')) strcpy(out, titles[i]);
    }
    ls_buf_free(&text);
    ui_canvas_free(&c);
}

static void assert_top(ui_state *s, const char *title) {
    char shown[16];
    top_frame(s, shown);
    assert_string_equal(shown, title);
}

static bool cursor_shows(ui_state *s) {
    ui_canvas c = {.utf8 = true};
    ui_canvas_resize(&c, 36, 120);
    ui_render(s, &c);
    ui_canvas_free(&c);
    return c.cursor_row >= 0;
}

static void keys_go_to_what_is_drawn_on_top(void **state) {
    (void)state;
    ui_setting settings[] = {{.key = "decode.max_rows", .help = "rows", .choices = "1|2|4", .value = "2"},
                             {.key = "decode.top_k", .help = "tokens", .choices = "0|10", .value = "0"},
                             {0}};
    ui_state s;
    ui_begin(&s, &(ui_options){.color = true, .settings = settings});
    converse(&s, "def fib(n):", "logitspec", 20);
    char line[32];
    for (int i = 0; i < 100; i++) ui_log(&s, line, (size_t)snprintf(line, sizeof line, "message %d", i));
    key(&s, UI_KEY_ESC);
    // the log moves while it is on top, and rests while the help lies over it
    key(&s, 'L');
    key(&s, UI_KEY_PAGE_UP);
    assert_top(&s, "Log");
    assert_int_equal(s.drawn.overlay_scroll[UI_LOG], 10);
    key(&s, UI_KEY_F0 + 1);
    assert_top(&s, "Help");
    key(&s, UI_KEY_DOWN);
    key(&s, UI_KEY_PAGE_DOWN);
    assert_int_equal(s.drawn.overlay_scroll[UI_HELP], 11);
    assert_int_equal(s.drawn.overlay_scroll[UI_LOG], 10);
    key(&s, UI_KEY_ESC); // closes what is on top, and only that
    assert_top(&s, "Log");
    key(&s, '?');
    key(&s, 'q');
    assert_top(&s, "Log");
    key(&s, 'q');
    assert_top(&s, "");
    assert_false(s.asked.quit);
    // each pair, in both orders: Esc goes back the way that the keys came
    key(&s, 'L');
    key(&s, UI_KEY_F0 + 2);
    assert_top(&s, "Setup");
    key(&s, 'j');
    assert_int_equal(s.setup.chosen, 1);
    key(&s, 'L'); // it comes to the top and is there once
    assert_top(&s, "Log");
    key(&s, UI_KEY_UP);
    assert_int_equal(s.setup.chosen, 1);
    key(&s, '?');
    assert_top(&s, "Help");
    key(&s, UI_KEY_ESC);
    assert_top(&s, "Log");
    key(&s, UI_KEY_ESC);
    assert_top(&s, "Setup");
    key(&s, UI_KEY_ESC);
    assert_top(&s, "");
    // the mouse: a click and the wheel reach no panel that is covered
    key(&s, '4');
    const int node = s.view.node;
    key(&s, UI_KEY_F0 + 2);
    ui_on_key(&s, (ui_key){UI_KEY_MOUSE, UI_MOUSE_CLICK, 2, 3, 1});
    assert_int_equal(s.setup.chosen, 0);
    ui_on_key(&s, (ui_key){UI_KEY_MOUSE, UI_MOUSE_WHEEL_DOWN, 5, 5, 0});
    assert_int_equal(s.shown.focus, UI_TREE);
    assert_int_equal(s.view.node, node);
    assert_int_equal(s.drawn.scroll[UI_TREE], 0);
    key(&s, 'q');
    // from the prompt line too; what is pasted is a prompt, and is seen
    key(&s, 'p');
    key(&s, UI_KEY_F0 + 2);
    key(&s, 'q');
    assert_top(&s, "");
    assert_int_equal(s.typed.prompt.text.n, 0);
    key(&s, UI_KEY_F0 + 1);
    ui_on_paste(&s, "pasted", 6);
    assert_top(&s, "");
    key(&s, UI_KEY_ESC);
    key(&s, 'L');
    key(&s, 'p');
    key(&s, 'L');
    assert_top(&s, "");
    assert_memory_equal(s.typed.prompt.text.p, "pastedL", 7);
    while (s.asked.n_outbox) free(s.asked.outbox[--s.asked.n_outbox].text);
    ui_state_free(&s);
}

// Whatever is open, Esc leaves the topmost of it, q closes the topmost that it can close, and the cursor shows whose
// keys are text.
static void esc_leaves_one_mode_at_a_time(void **state) {
    (void)state;
    const ui_setting settings[] = {{.key = "decode.max_rows", .help = "rows", .choices = "1|2|4", .value = "2"}, {0}};
    ui_state s;
    ui_begin(&s, &(ui_options){.color = true, .settings = settings});
    converse(&s, "def fib(n):", "logitspec", 20);
    key(&s, UI_KEY_ESC);
    type_keys(&s, "i2\\a");
    key(&s, UI_KEY_ENTER);
    key(&s, 'z');
    key(&s, UI_KEY_F0 + 2);
    key(&s, UI_KEY_ENTER);
    assert_int_equal(s.typed.sign, ':');
    assert_true(cursor_shows(&s));
    type_keys(&s, "1q"); // text, whatever lies below
    assert_string_equal(s.typed.line.text.p, "set decode.max_rows=1q");
    key(&s, UI_KEY_ESC);
    assert_int_equal(s.typed.sign, 0);
    assert_top(&s, "Setup");
    assert_false(cursor_shows(&s));
    key(&s, UI_KEY_ESC);
    assert_int_equal(s.over.n, 0);
    assert_non_null(s.list[UI_LOGITS].filter);
    key(&s, UI_KEY_ESC);
    assert_null(s.list[UI_LOGITS].filter);
    assert_int_equal(s.shown.zoom, UI_LOGITS);
    key(&s, 'q');
    assert_int_equal(s.shown.zoom, UI_NO_PANEL);
    key(&s, 'q');
    assert_false(s.shown.inspect || s.asked.quit);
    key(&s, '\\'); // a filter is in force while it is typed; Esc takes it back
    key(&s, 'f');
    assert_string_equal(s.list[UI_LOGITS].filter, "f");
    key(&s, UI_KEY_ESC);
    assert_null(s.list[UI_LOGITS].filter);
    key(&s, 'E'); // an earlier prompt that is changed: one Esc leaves it and the prompt line
    assert_true(cursor_shows(&s));
    key(&s, '!');
    assert_int_equal(s.typed.editing, 0);
    key(&s, UI_KEY_ESC);
    assert_int_equal(s.typed.editing, -1);
    assert_int_equal(s.typed.prompt.text.n, 0);
    assert_int_equal(s.shown.focus, UI_OUTPUT);
    key(&s, 'q');
    assert_true(s.asked.quit);
    ui_state_free(&s);
}

static void say(ui_state *s, bool is_error, const char *text) {
    ls_event *e = ls_event_new(LS_EV_MESSAGE);
    e->message.is_error = is_error;
    strcpy(e->message.text, text);
    ui_on_event(s, e);
}

static void answer_key(ui_state *s, const char *key, const char *value) {
    ls_event *e = ls_event_new(LS_EV_SETTING);
    e->setting.in_force = true;
    snprintf(e->setting.key, sizeof e->setting.key, "%s", key);
    snprintf(e->setting.value, sizeof e->setting.value, "%s", value);
    ui_on_event(s, e);
}

static void answer_setting(ui_state *s, bool in_force, const char *value) {
    ls_event *e = ls_event_new(LS_EV_SETTING);
    e->setting.in_force = in_force;
    strcpy(e->setting.key, "decode.max_rows");
    strcpy(e->setting.value, value);
    ui_on_event(s, e);
}

// Only the answer to what was asked changes a setting, whatever messages say meanwhile.
static void a_setting_waits_for_its_answer(void **state) {
    (void)state;
    const ui_setting settings[] = {{.key = "decode.max_rows", .help = "rows", .choices = "1|2|4|8", .value = "2"}, {0}};
    ui_state s;
    ui_begin(&s, &(ui_options){.color = true, .settings = settings});
    const ui_setting *t = &s.setup.settings[0];
    key(&s, UI_KEY_F0 + 2);
    key(&s, UI_KEY_RIGHT);
    assert_string_equal(t->asked, "4");
    say(&s, false, "the model's own chat template is used");
    say(&s, true, "cannot write /x");
    say(&s, false, "decode.max_rows=1");
    assert_string_equal(t->asked, "4");
    assert_string_equal(t->value, "2");
    key(&s, UI_KEY_RIGHT); // from what was asked for
    assert_string_equal(t->asked, "8");
    answer_setting(&s, true, "4"); // the last request still waits
    assert_string_equal(t->value, "4");
    assert_string_equal(t->asked, "8");
    answer_setting(&s, false, "8");
    assert_string_equal(t->value, "4");
    assert_string_equal(t->asked, "");
    assert_int_equal(s.asked.n_outbox, 2);
    assert_string_equal(s.asked.outbox[1].text, "decode.max_rows=8");
    while (s.asked.n_outbox) free(s.asked.outbox[--s.asked.n_outbox].text);
    ui_state_free(&s);
}

static ls_code refuse(ls_source *source, const ls_command *c, ls_err *err) {
    (void)source, (void)c;
    return ls_fail(err, LS_E_UNSUPPORTED, "not now");
}

// A request that is not sent gets no answer, so the next one begins at the value in force.
static void a_setting_that_was_not_asked_for_is_not_awaited(void **state) {
    (void)state;
    const ui_setting settings[] = {{.key = "decode.max_rows", .help = "rows", .choices = "1|2|4|8", .value = "2"}, {0}};
    ls_source source = {.command = refuse};
    ui_state s;
    ui_begin(&s, &(ui_options){.color = true, .settings = settings});
    const ui_setting *t = &s.setup.settings[0];
    key(&s, UI_KEY_F0 + 2);
    key(&s, UI_KEY_RIGHT);
    assert_string_equal(t->asked, "4");
    ui_send_asked(&s, &source);
    assert_string_equal(t->asked, "");
    for (int i = 0; i < 8; i++) key(&s, UI_KEY_RIGHT);
    assert_string_equal(t->asked, "2");
    key(&s, UI_KEY_RIGHT); // the outbox is full
    assert_string_equal(t->asked, "");
    assert_int_equal(s.asked.n_outbox, 8);
    while (s.asked.n_outbox) free(s.asked.outbox[--s.asked.n_outbox].text);
    ui_state_free(&s);
}

// A prompt that cannot be sent, as the screen knows or as the source says first, stays where it was typed.
static void a_refused_prompt_is_kept(void **state) {
    (void)state;
    static const struct {
        ls_run_state state;
        const char *said;
    } cases[] = {{LS_STATE_PREFILL, "an answer is being decoded"},
                 {LS_STATE_RUNNING, "an answer is being decoded"},
                 {LS_STATE_FAILED, "the model is not loaded"},
                 {LS_STATE_IDLE, "not now"}};
    ls_source source = {.command = refuse};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ui_state s;
        ui_begin(&s, &(ui_options){.color = true});
        s.run.state = cases[i].state;
        type_keys(&s, "more");
        key(&s, UI_KEY_ENTER);
        ui_send_asked(&s, &source);
        assert_non_null(strstr(s.message, cases[i].said));
        ls_buf_str(&s.typed.prompt.text, "");
        assert_string_equal(s.typed.prompt.text.p, "more");
        ui_state_free(&s);
    }
}

// A recording that cannot be compared with another ends a race that did not begin: there is none, so the title keeps
// the speedup.
static void a_race_that_did_not_begin_does_not_end(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    ls_event *e = ls_event_new(LS_EV_RIVAL);
    e->rival.what = LS_RIVAL_ENDS;
    ui_on_event(&s, e);
    assert_false(s.run.rival.done);
    ui_state_free(&s);
}

// A recording is paused before its prompt is read: the demo must not ask for a step then, or its first note comes late.
static void a_demo_waits_for_its_prompt(void **state) {
    (void)state;
    char title[] = "A test", say[] = "Look.";
    ui_note note = {.when = UI_WHEN_START, .say = say, .look = UI_NO_PANEL};
    const ui_demo demo = {.title = title, .notes = &note, .n_notes = 1};
    static ui_state s;
    ui_state_init(&s);
    ui_demo_begin(&s, &demo);
    ls_event *e = ls_event_new(LS_EV_STATUS);
    e->status.state = LS_STATE_PAUSED;
    ui_on_event(&s, e);
    assert_false(ui_demo_is_due(&s, UINT64_MAX));
    e = ls_event_new(LS_EV_PROMPT);
    e->prompt.text = ls_strdup("why");
    ui_on_event(&s, e);
    assert_ptr_equal(ui_demo_note(&s), &note);
    assert_false(ui_demo_is_due(&s, UINT64_MAX));
    assert_true(ui_demo_go_on(&s));
    assert_true(ui_demo_is_due(&s, UINT64_MAX));
    while (s.asked.n_outbox) free(s.asked.outbox[--s.asked.n_outbox].text);
    ui_state_free(&s);
}

static void forget_requests(ui_state *s) {
    while (s->asked.n_outbox) free(s->asked.outbox[--s->asked.n_outbox].text);
}

static void send_line(ui_state *s, const char *text) {
    type_keys(s, text);
    key(s, UI_KEY_ENTER);
}

static ls_source *no_stop(void *ud, int i, int *of, const ui_demo **demo, ls_err *err) {
    (void)ud, (void)i, (void)of, (void)demo, (void)err;
    return NULL;
}

// What an empty conversation offers: a prompt that is one of the numbers alone chooses it.
static void an_empty_conversation_offers_choices(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    s.run.state = LS_STATE_IDLE;
    s.given.tour = no_stop;
    for (const char *const *t = (const char *const[]){"3 primes please", "2+2=?", "10 facts", " 1", "9", NULL}; *t;
         t++) {
        send_line(&s, *t);
        assert_true(!s.asked.tour && s.asked.n_outbox == 1 && s.asked.outbox[0].kind == LS_CMD_PROMPT);
        assert_string_equal(s.asked.outbox[0].text, *t);
        forget_requests(&s);
    }
    send_line(&s, "1");
    assert_true(s.asked.tour && !s.typed.prompt.text.n && !s.asked.n_outbox);
    for (int k = '2'; k <= '3'; k++) {
        send_line(&s, (const char[]){(char)k, 0});
        assert_int_equal(s.asked.outbox[s.asked.n_outbox - 1].kind, LS_CMD_PROMPT);
        assert_true(strlen(s.asked.outbox[s.asked.n_outbox - 1].text) > 10 && !s.typed.prompt.text.n);
    }
    assert_string_not_equal(s.asked.outbox[0].text, s.asked.outbox[1].text);
    forget_requests(&s);
    send_line(&s, "4"); // no conversation was cut off
    assert_string_equal(s.asked.outbox[0].text, "4");
    forget_requests(&s);
    static const char *const left[] = {"/x/conversation.jsonl.zst", "/x/older", NULL};
    s.given.left = left;
    send_line(&s, "4");
    assert_true(s.asked.n_outbox == 1 && s.asked.outbox[0].kind == LS_CMD_LOAD);
    assert_string_equal(*s.given.left, "/x/older"); // the next one, if that cannot be loaded
    assert_string_equal(s.asked.outbox[0].text, "/x/conversation.jsonl.zst");
    forget_requests(&s);
    converse(&s, "One fish, two fish. One", "logitspec-paper", 20);
    send_line(&s, "2");
    assert_string_equal(s.asked.outbox[0].text, "2");
    forget_requests(&s);
    ui_state_free(&s);
}

// A colon begins a command in the prompt line too; a prompt that begins with one is not lost.
static void a_command_in_the_prompt_line(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    s.run.state = LS_STATE_IDLE;
    send_line(&s, ":set decode.max_rows=8");
    assert_true(s.asked.n_outbox == 1 && s.asked.outbox[0].kind == LS_CMD_SET);
    assert_string_equal(s.asked.outbox[0].text, "decode.max_rows=8");
    forget_requests(&s);
    assert_true(!s.typed.prompt.text.n && s.shown.focus == UI_NO_PANEL);
    char *home = getenv("HOME") ? ls_strdup(getenv("HOME")) : NULL;
    setenv("HOME", "/home/me", 1);
    send_line(&s, ":save ~/x.jsonl");
    assert_string_equal(s.asked.outbox[0].text, "/home/me/x.jsonl");
    forget_requests(&s);
    if (home) setenv("HOME", home, 1);
    else unsetenv("HOME");
    free(home);
    forget_requests(&s);
    send_line(&s, ":  ) hello "); // none: it goes back as it was, and Enter sends it
    assert_true(!s.asked.n_outbox && s.message_is_error);
    assert_string_equal(s.typed.prompt.text.p, ":  ) hello ");
    key(&s, UI_KEY_ENTER);
    assert_string_equal(s.asked.outbox[0].text, ":  ) hello ");
    forget_requests(&s);
    send_line(&s, "::set decode.max_rows=8"); // meant for the model
    assert_true(s.asked.n_outbox == 1 && s.asked.outbox[0].kind == LS_CMD_PROMPT);
    assert_string_equal(s.asked.outbox[0].text, ":set decode.max_rows=8");
    forget_requests(&s);
    send_line(&s, "::std::vector");
    assert_string_equal(s.asked.outbox[0].text, "::std::vector");
    forget_requests(&s);
    ui_on_paste(&s, ":save /tmp/x", 12); // pasted: it is offered as a command
    key(&s, UI_KEY_ENTER);
    assert_true(!s.asked.n_outbox && s.typed.sign == ':' && strstr(s.message, "Enter runs it"));
    key(&s, UI_KEY_ENTER);
    assert_true(s.asked.n_outbox == 1 && s.asked.outbox[0].kind == LS_CMD_SAVE);
    forget_requests(&s);
    ui_on_paste(&s, ":quit\nis what I type to leave vim", 33); // of several lines it is none
    key(&s, UI_KEY_ENTER);
    assert_true(s.asked.n_outbox == 1 && s.asked.outbox[0].kind == LS_CMD_PROMPT && !s.asked.quit);
    forget_requests(&s);
    key(&s, 'a');
    key(&s, ':');
    assert_string_equal(s.typed.prompt.text.p, "a:");
    ui_state_free(&s);
}

// The first ^C stops the answer or warns, the second one quits; where nothing is lost, the first one does.
static void ctrl_c_warns_before_it_quits(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    s.run.state = LS_STATE_IDLE;
    key(&s, UI_CTRL('C'));
    assert_true(s.asked.quit && s.asked.exit_code == 130);
    s.asked.quit = false;
    converse(&s, "One fish, two fish. One", "logitspec-paper", 20);
    key(&s, UI_CTRL('C'));
    assert_true(!s.asked.quit && strstr(s.message, "the conversation is lost") && !s.asked.n_outbox);
    key(&s, 'a'); // another key: it begins anew
    key(&s, UI_CTRL('C'));
    ui_on_paste(&s, "a long prompt", 13); // and so does a paste
    key(&s, UI_CTRL('C'));
    assert_false(s.asked.quit);
    key(&s, 'a');
    s.given.autosave = "/";
    s.run.state = LS_STATE_RUNNING;
    key(&s, UI_CTRL('C'));
    assert_true(!s.asked.quit && s.asked.n_outbox == 1 && s.asked.outbox[0].kind == LS_CMD_STOP &&
                strstr(s.message, "next start"));
    key(&s, UI_CTRL('C'));
    assert_true(s.asked.quit && s.asked.exit_code == 130);
    s.asked.quit = s.typed.interrupted = false;
    s.run.state = LS_STATE_IDLE;
    key(&s, UI_KEY_ESC);
    key(&s, ':');
    key(&s, UI_CTRL('C')); // leaves the line
    assert_true(!s.asked.quit && !s.typed.sign && !s.typed.interrupted);
    forget_requests(&s);
    ui_state_free(&s);
}

// A prompt of a megabyte is wrapped and scrolled in one go: what is quadratic would take hours here.
static void long_texts_take_linear_time(void **state) {
    (void)state;
    enum { LONG = 1 << 20 };
    ui_state s;
    ui_canvas c = {.utf8 = true};
    for (int kind = 0; kind < 3; kind++) {
        static const char *const pieces[] = {"x", "lorem ipsum ", "世界 "};
        ls_buf text = {0};
        while (text.n < LONG) ls_buf_str(&text, pieces[kind]);
        ui_state_init(&s);
        s.run.state = LS_STATE_IDLE;
        ui_on_paste(&s, text.p, text.n);
        static const int keys[] = {'y', UI_KEY_HOME, UI_KEY_RIGHT, UI_KEY_END, UI_KEY_LEFT, UI_KEY_BACKSPACE};
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            key(&s, keys[i]);
            ui_canvas_resize(&c, 24, 80);
            ui_render(&s, &c);
            assert_true(c.cursor_row == 22 && c.cursor_col >= 3 && c.cursor_col < 80);
        }
        for (const char *sign = ":/\\"; *sign; sign++) {
            ui_type_line(&s, *sign, text.p);
            ui_canvas_resize(&c, 24, 80);
            ui_render(&s, &c);
            assert_true(c.cursor_row == 22 && c.cursor_col >= 76);
        }
        s.typed.sign = 0;
        ui_edit_clear(&s.typed.prompt);
        converse(&s, "One fish, two fish. One", "logitspec-paper", 20);
        ls_buf *user = &s.run.conversation->turns[0].user;
        ls_buf_clear(user);
        ls_buf_str(user, text.p);
        key(&s, UI_KEY_ESC);
        for (const char *keys_there = "1kkgG"; *keys_there; keys_there++) {
            key(&s, *keys_there == 'k' ? UI_KEY_HOME : *keys_there);
            ui_canvas_resize(&c, 24, 80);
            ui_render(&s, &c);
        }
        ls_buf_free(&text);
        ui_state_free(&s);
    }
    ui_canvas_free(&c);
}

static void assert_glyph(const ui_canvas *c, const char *text, int cells, bool odd) {
    const ui_glyph g = ui_next_glyph(c, text, strlen(text));
    assert_int_equal(g.n, strlen(text)); // all of it is one
    assert_int_equal(g.cells, cells);
    assert_int_equal(g.odd, odd);
    assert_string_equal(g.glyph, text);
}

// What terminals disagree on is one character, with as many cells as any of them takes.
static void characters_of_several_code_points(void **state) {
    (void)state;
    ui_canvas c = {.utf8 = true};
    assert_glyph(&c, "e\u0301", 1, false);
    assert_glyph(&c, "\u4e16", 2, false);
    assert_glyph(&c, "\U0001F600", 2, false);
    assert_glyph(&c, "\u2764\uFE0F", 2, true);                               // a heart, as an emoji
    assert_glyph(&c, "1\uFE0F\u20E3", 2, true);                              // a keycap
    assert_glyph(&c, "\U0001F44D\U0001F3FD", 4, true);                       // a thumb, of a skin tone
    assert_glyph(&c, "\U0001F1E9\U0001F1EA", 2, true);                       // a flag
    assert_glyph(&c, "\U0001F468\u200D\U0001F469\u200D\U0001F467", 6, true); // a family
    assert_glyph(&c, "\u06CC\u200C", 1, false);                              // a joiner of Persian
    ui_canvas_resize(&c, 1, 20);
    ui_pen p = ui_pen_at(&c, (ui_rect){0, 0, 1, 20}, 0, UI_TEXT);
    ui_draw(&p, "\U0001F44D\U0001F3FD!", 9);
    assert_string_equal(c.cells[4].glyph, "!");
    p = ui_pen_at(&c, (ui_rect){0, 2, 1, 1}, 0, UI_TEXT); // over a part of it
    ui_draw(&p, "#", 1);
    const char *const left[] = {" ", " ", "#", " ", "!"};
    for (int i = 0; i < 5; i++) {
        assert_string_equal(c.cells[i].glyph, left[i]);
        assert_false(c.cells[i].mark & UI_ODD);
    }
    c.ambiguous_wide = true;
    assert_glyph(&c, "\u03B1", 2, false);
    ui_canvas_free(&c);
}

static void assert_decodes(ui_state *s, const char *want) {
    const ui_canvas c = {.utf8 = true};
    ls_buf text = {0};
    const bool any = ui_narrate_draft(&c, s, ui_viewed(s), &text);
    assert_int_equal(any, want != NULL);
    if (want) assert_string_equal(text.p, want);
    ls_buf_free(&text);
}

static void the_draft_under_the_cursor_is_told_in_words(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    converse(&s, "One fish, two fish. One", "logitspec-paper", 160);
    assert_decodes(&s, NULL);
    key(&s, UI_KEY_ESC);
    key(&s, '3');
    assert_decodes(&s, NULL);
    key(&s, UI_KEY_DOWN); // the rows as tests/golden/ui_end_120x36 has them
    assert_decodes(
        &s, "3@101 +20: the 3-gram \". O\" also ends just before position 101; the draft copies 20 tokens from there");
    key(&s, UI_KEY_DOWN);
    assert_decodes(
        &s,
        "1@159 +4: rank 1 of the last logits, \"·\", is a guess for the token after the root; the 1-gram \" \" also "
        "ends just before position 159; the draft copies 3 tokens from there (17 more found, not drafted)");
    key(&s, '2');
    for (int i = 0; i < 7; i++) key(&s, UI_KEY_DOWN);
    assert_decodes(
        &s,
        "- +1: rank 6 of the last logits, \"W\", is a guess for the token after the root; no n-gram that ends in it "
        "was seen before");
    key(&s, UI_KEY_UP);
    assert_int_equal(s.list[UI_LOGITS].found, 5);
    key(&s, '4');
    s.view.node = 1;
    assert_decodes(
        &s, "3@101 +20: the 3-gram \". O\" also ends just before position 101; the draft copies 20 tokens from there");
    s.view.node = 0;
    assert_decodes(&s, NULL); // the root is no draft
    ui_state_free(&s);
}

// One key sets the published method with 16 rows, the same key brings back what was set before.
static void the_papers_step_is_one_key_away(void **state) {
    (void)state;
    static const char *const keys[] = {"decode.acceptance", "decode.sizing", "decode.max_rows", "decode.method"};
    const ui_setting settings[] = {{.key = "decode.method", .help = "", .choices = "plain|pld", .value = "pld"},
                                   {.key = "decode.max_rows", .help = "", .choices = "1|2", .value = "auto"},
                                   {.key = "decode.sizing", .help = "", .choices = "default", .value = "adaedl"},
                                   {.key = "decode.acceptance", .help = "", .choices = "exact", .value = "exact"},
                                   {.key = "pld.ngram", .help = "", .choices = "1|2", .value = "2", .of = "pld"},
                                   {0}};
    ui_state s;
    ui_begin(&s, &(ui_options){.color = true, .settings = settings});
    assert_true(ui_setting_applies(&s.setup, &s.setup.settings[4]));
    key(&s, UI_KEY_F0 + 4); // while the prompt has the keys, too
    assert_int_equal(s.asked.n_outbox, 1);
    assert_int_equal(s.asked.outbox[0].n, 3); // the acceptance is as it should be
    assert_string_equal(s.asked.outbox[0].text,
                        "decode.sizing=default\ndecode.max_rows=16\ndecode.method=logitspec-paper");
    assert_false(ui_setting_applies(&s.setup, &s.setup.settings[4])); // no knob of that method
    const char *const values[] = {"exact", "default", "16", "logitspec-paper"};
    for (int i = 0; i < 4; i++) answer_key(&s, keys[i], values[i]);
    key(&s, UI_KEY_ESC);
    key(&s, 'P');
    assert_int_equal(s.asked.n_outbox, 2);
    assert_string_equal(s.asked.outbox[1].text, "decode.sizing=adaedl\ndecode.max_rows=auto\ndecode.method=pld");
    s.given.recording = true;
    key(&s, 'P');
    assert_int_equal(s.asked.n_outbox, 2);
    ui_state_free(&s);
}

static bool is_shown(ui_state *s, ui_panel p, int rows, int cols) {
    return ui_layout_of(&(ui_room){.rows = rows, .cols = cols}, &s->shown).panel[p].rows > 0;
}

// Of the panels that share a place the one that was opened last is seen; a new conversation gives the prompt the keys.
static void what_was_asked_for_is_seen(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    converse(&s, "One fish, two fish. One", "logitspec-paper", 20);
    key(&s, UI_KEY_ESC);
    ui_open(&s, UI_COMPARE, true);
    assert_true(s.shown.focus == UI_COMPARE && is_shown(&s, UI_COMPARE, 36, 120));
    key(&s, 'i');
    assert_true(is_shown(&s, UI_INSPECT, 36, 120) && !is_shown(&s, UI_COMPARE, 36, 120));
    key(&s, '1');
    assert_true(is_shown(&s, UI_INSPECT, 36, 120));
    ui_open(&s, UI_COMPARE, true);
    key(&s, '1');
    assert_true(is_shown(&s, UI_COMPARE, 36, 120));
    key(&s, 'i');
    assert_true(is_shown(&s, UI_INSPECT, 36, 120));
    key(&s, 'i');
    assert_true(!s.shown.inspect && is_shown(&s, UI_COMPARE, 36, 120));
    key(&s, 'z');
    ls_event *e = ls_event_new(LS_EV_HEADER);
    e->header = ls_calloc(1, sizeof *e->header);
    ui_on_event(&s, e); // a new conversation, or one that was loaded
    assert_true(s.shown.focus == UI_NO_PANEL && s.shown.zoom == UI_NO_PANEL);
    ui_state_free(&s);
}

static void assert_copied(ui_state *s, int k, const char *what) {
    key(s, k);
    assert_non_null(s->asked.to_copy);
    assert_string_equal(s->asked.to_copy, what);
    free(s->asked.to_copy);
    s->asked.to_copy = NULL;
}

// y: the answer, or what the cursor is on; Y: the step in words. Nothing that a terminal would obey is copied.
static void texts_are_copied_and_saved(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    key(&s, UI_KEY_ESC);
    key(&s, 'y');
    assert_non_null(strstr(s.message, "nothing to copy"));
    converse(&s, "One fish, two fish. One", "logitspec-paper", 160);
    key(&s, UI_KEY_ESC);
    key(&s, 'y');
    assert_true(!s.asked.to_copy && strstr(s.message, ":save-text FILE")); // nobody takes it
    s.given.clipboard = "terminals do not confirm a copy";
    static const char answer[] = " cat, two cats, red cats, blue cats. One dog, two dogs, red dogs, blue cats. One "
                                 "dog, two dogs, red dogs, blue "
                                 "cats. One dog, two dogs, red dogs, blue cats. One";
    assert_copied(&s, 'y', answer);
    key(&s, '3');
    key(&s, UI_KEY_DOWN);
    assert_copied(&s, 'y', "ne dog, two dogs, re");
    key(&s, '2');
    key(&s, UI_KEY_DOWN);
    assert_copied(&s, 'y', "O");
    key(&s, '4');
    s.view.node = 3;
    assert_copied(&s, 'y', "ne ");
    key(&s, '1');
    key(&s, 'Y');
    assert_true(s.asked.to_copy && !strncmp(s.asked.to_copy, "step 31: root \"O\" p 1.00; 2 of 63 drafts", 40));
    assert_non_null(strstr(s.asked.to_copy, "It emitted 3 tokens: \"One\"."));
    assert_non_null(strstr(s.asked.to_copy, "Accepted 2 of the draft 3@101 +20: "));
    char path[] = "/tmp/logitspec-copy-XXXXXX", line[128], got[512] = "";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(line, sizeof line, ":save-text %s", path);
    type_keys(&s, line);
    key(&s, UI_KEY_ENTER);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(got, 1, sizeof got - 1, f) == sizeof answer); // and the line's end
    fclose(f);
    assert_memory_equal(got, answer, sizeof answer - 1);
    assert_non_null(strstr(s.message, ", replacing the existing file"));
    close(fd);
    unlink(path);
    type_keys(&s, line);
    key(&s, UI_KEY_ENTER);
    assert_true(strstr(s.message, path) && !strstr(s.message, "replacing"));
    unlink(path);
    static const char *const bare[][2] = {{":save", ":save FILE: a name is missing"},
                                          {":save-display ", ":save-display FILE: a name is missing"},
                                          {":goto", ":goto STEP: STEP is missing"},
                                          {":set", ":set KEY=VALUE: KEY=VALUE is missing"}};
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
        type_keys(&s, bare[i][0]);
        key(&s, UI_KEY_ENTER);
        assert_true(s.message_is_error);
        assert_string_equal(s.message, bare[i][1]);
    }
    type_keys(&s, ":save-step /nonexistent/x");
    key(&s, UI_KEY_ENTER);
    assert_true(s.message_is_error && strstr(s.message, "/nonexistent/x"));
    ui_state_free(&s);
}

// What cannot be done, or is not to be seen, says what would help.
static void refusals_fit_the_source(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    s.shown.focus = UI_NO_PANEL;
    ui_ask_rival(&s, "suffix");
    assert_true(s.shown.compare && strstr(s.message, "7, shows Compare"));
    ui_act(&s, UI_ACT_KEEP);
    assert_non_null(strstr(s.message, "press x on a draft"));
    s.given.recording = true;
    ui_act(&s, UI_ACT_KEEP);
    assert_string_equal(s.message, "this is a recording: what-if needs a model");
    ui_act(&s, UI_ACT_STOP); // it has ended
    assert_string_equal(s.message, "this is a recording: what-if needs a model");
    ui_state_free(&s);
}

static void help_is_searched(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    ui_canvas c = {.utf8 = true};
    ls_buf text = {0};
    key(&s, UI_KEY_F0 + 1);
    const char *const wanted[] = {"search for text", "next match"};
    for (int i = 0; i < 2; i++) {
        if (i) type_keys(&s, "n");
        else {
            type_keys(&s, "/SEARCH");
            key(&s, UI_KEY_ENTER);
        }
        ui_canvas_resize(&c, 24, 110);
        ui_render(&s, &c);
        ls_buf_clear(&text);
        ui_canvas_text(&c, false, &text);
        assert_top(&s, "Help");
        assert_non_null(strstr(text.p, wanted[i]));
    }
    type_keys(&s, "/frobnicate");
    key(&s, UI_KEY_ENTER);
    assert_non_null(strstr(s.message, "not found in Help: 'frobnicate'"));
    key(&s, 'x'); // any other key closes
    assert_int_equal(s.over.n, 0);
    ls_buf_free(&text);
    ui_canvas_free(&c);
    ui_state_free(&s);
}

// Enter without a prompt: an answer that was cut goes on, another does not.
static void enter_lets_a_cut_answer_go_on(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    key(&s, UI_KEY_ENTER);
    assert_int_equal(s.asked.n_outbox, 0);
    converse(&s, "One fish, two fish. One", "logitspec-paper", 20);
    key(&s, UI_KEY_ENTER);
    assert_int_equal(s.asked.n_outbox, 1);
    assert_int_equal(s.asked.outbox[0].kind, LS_CMD_GO_ON);
    ls_event *e = ls_event_new(LS_EV_STATUS);
    e->status.state = LS_STATE_RUNNING;
    ui_on_event(&s, e);
    assert_int_equal(ui_finish(&s.run), LS_GOING);
    key(&s, UI_KEY_ENTER);
    assert_int_equal(s.asked.n_outbox, 1);
    e = ls_event_new(LS_EV_END);
    e->end.finish = LS_FINISH_EOS;
    ui_on_event(&s, e);
    s.run.state = LS_STATE_IDLE;
    key(&s, UI_KEY_ENTER);
    assert_int_equal(s.asked.n_outbox, 1);
    ui_state_free(&s);
}

static void random_keys_and_sizes(void **state) {
    (void)state;
    ui_state s;
    ui_state_init(&s);
    converse(&s, "def fib(n):", "logitspec", 60);
    converse(&s, "zzz", "plain", 10);
    ui_canvas c = {.utf8 = true};
    const uint64_t keys = getenv("KEYS") ? strtoull(getenv("KEYS"), NULL, 10) : 20000;
    for (uint64_t i = 0; i < keys; i++) {
        double u = ls_uniform_at(5, i), v = ls_uniform_at(6, i);
        int code = u < 0.6 ? (int)(v * 128) : UI_KEY_FIRST + (int)(v * (UI_KEY_LAST - UI_KEY_FIRST + 1));
        ui_on_key(&s, (ui_key){code, (ui_mouse_kind)(i % 3), (int)(v * 50), (int)(u * 200), (int)(v * 5000) - 50});
        s.asked.quit = false;
        while (s.asked.n_outbox) free(s.asked.outbox[--s.asked.n_outbox].text);
        if (i % 3) continue;
        ui_canvas_resize(&c, (int)(ls_uniform_at(7, i) * 70), (int)(ls_uniform_at(8, i) * 240));
        c.ascii = s.view.ascii;
        ui_render(&s, &c);
        assert_true(c.cursor_row < c.rows && c.cursor_col < c.cols);
    }
    ui_canvas_free(&c);
    ui_state_free(&s);
}

static void every_action_has_a_key_of_its_own(void **state) {
    (void)state;
    for (int key_code = 1; key_code < UI_KEY_LAST; key_code++) {
        ui_action a = ui_action_of(key_code, false);
        if (a != UI_ACT_NONE) assert_true(ui_action_named(ui_actions[a].name) == a);
        if (key_code == 128) key_code = UI_KEY_FIRST - 1;
    }
    for (int a = 0; a < UI_ACTIONS; a++)
        for (int b = 0; b < a; b++) assert_string_not_equal(ui_actions[a].name, ui_actions[b].name);
    assert_int_equal(ui_action_of('s', true), UI_ACT_NONE); // a letter is text while typing
    assert_int_equal(ui_action_of(UI_KEY_F0 + 6, true), UI_ACT_STEP);
}

// ---- the requests of a server

static void tell_request(ui_state *s, ls_request_facts facts, bool shown) {
    ls_event *e = ls_event_new(LS_EV_REQUEST);
    e->request.facts = ls_malloc(sizeof facts);
    *e->request.facts = facts;
    e->request.shown = shown;
    e->request.follows = s->requests.follows;
    ui_on_event(s, e);
}

static void serve_requests(ui_state *s, int n) {
    ui_state_init(s);
    converse(s, "One fish, two fish. One", "logitspec-paper", 60);
    s->given.recording = s->given.watches = s->given.serves = s->requests.follows = true;
    s->given.server = "http://127.0.0.1:8080";
    s->shown.focus = UI_REQUESTS;
    for (int i = 1; i <= n; i++) {
        ls_request_facts f = {.id = i, .state = LS_REQUEST_DONE, .key = i % 3, .prompt_tokens = 100 * i};
        snprintf(f.path, sizeof f.path, "/v1/chat/completions");
        snprintf(f.client, sizeof f.client, "127.0.0.1");
        if (i % 4) snprintf(f.agent, sizeof f.agent, "OpenAI/Python 1.%d", i);
        f.kept_tokens = i > 2 ? 90 * i : 0;
        f.steps = 10 * i, f.emitted = 23 * i, f.decode_ms = 120.0 * i, f.queued_ms = 700.0 * (i - 1);
        f.speedup = 2.1, f.speedup_spread = 0.04;
        if (i == 2) f = (ls_request_facts){.id = 2, .state = LS_REQUEST_FAILED, .why = "the prompt has \033[2J tokens"};
        if (i == n - 1) f.state = LS_REQUEST_DECODING;
        if (i == n) f = (ls_request_facts){.id = n, .agent = "curl/8", .path = "/v1/messages"};
        tell_request(s, f, i == n - 1);
    }
}

static void requests_are_listed(void **state) {
    (void)state;
    ui_state s;
    serve_requests(&s, 7);
    compare(&s, "ui_requests_80x24", 24, 80, false);
    compare(&s, "ui_requests_120x36", 36, 120, false);
    key(&s, 'z');
    compare(&s, "ui_requests_zoomed_80x24_ascii", 24, 80, true);
    for (int cols = 40; cols <= 240; cols += 3)
        for (int zoom = 0; zoom < 2; zoom++, key(&s, 'z'))
            if (cut_numbers(&s, cols < 80 ? 13 : 24 + cols % 30, cols, cols % 2))
                fail_msg("a number is cut at %d columns", cols);
    ui_state_free(&s);
}

static void expect_open(ui_state *s, int id) {
    assert_int_equal(s->asked.n_outbox, 1);
    assert_int_equal(s->asked.outbox[0].kind, LS_CMD_OPEN);
    assert_int_equal(s->asked.outbox[0].n, id);
    s->asked.n_outbox = 0;
}

// 6 is answered, 7 waits, the others have ended; the list is 6 7 5 4 3 2 1.
static void requests_are_opened_by_keys(void **state) {
    (void)state;
    ui_state s;
    serve_requests(&s, 7);
    assert_int_equal(s.requests.shown, 6);
    key(&s, UI_KEY_DOWN);
    key(&s, 'j');
    key(&s, UI_KEY_ENTER);
    expect_open(&s, 5);
    assert_false(s.requests.follows);
    key(&s, UI_KEY_END);
    key(&s, UI_KEY_ENTER);
    expect_open(&s, 1);
    key(&s, 'G');
    expect_open(&s, 0);
    assert_true(s.requests.follows);
    key(&s, '8');
    key(&s, '['); // who looks at a step is not taken elsewhere
    expect_open(&s, 6);
    key(&s, '[');
    key(&s, ' ');
    key(&s, 's');
    key(&s, 'p');
    key(&s, 'x');
    key(&s, UI_CTRL('N'));
    assert_int_equal(s.asked.n_outbox, 0); // nothing disturbs the server
    tell_request(&s, (ls_request_facts){.id = 1, .state = LS_REQUEST_FORGOTTEN}, false);
    assert_int_equal(s.requests.n, 6);
    for (size_t i = 0; i < s.requests.n; i++) assert_int_not_equal(s.requests.facts[i].id, 1);
    key(&s, 'q');
    assert_false(s.asked.quit);
    assert_non_null(strstr(s.message, "2 requests are not answered yet"));
    key(&s, 'q');
    assert_true(s.asked.quit);
    ui_state_free(&s);
    serve_requests(&s, 7);
    s.given.serves = false; // watching from elsewhere ends nothing
    key(&s, 'q');
    assert_true(s.asked.quit);
    ui_state_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_covers_the_window),
        cmocka_unit_test(hostile_text_stays_in_its_cells),
        cmocka_unit_test(frames_equal_the_golden_ones),
        cmocka_unit_test(a_mixture_tells_its_experts),
        cmocka_unit_test(no_width_cuts_a_number),
        cmocka_unit_test(statistics_follow_the_view),
        cmocka_unit_test(history_is_gone_through_by_what_happened),
        cmocka_unit_test(requests_are_listed),
        cmocka_unit_test(requests_are_opened_by_keys),
        cmocka_unit_test(what_is_clicked_is_inspected),
        cmocka_unit_test(rows_are_filtered_sorted_and_found),
        cmocka_unit_test(the_line_editor),
        cmocka_unit_test(keys_and_colours_can_be_others),
        cmocka_unit_test(keys_go_to_what_is_drawn_on_top),
        cmocka_unit_test(esc_leaves_one_mode_at_a_time),
        cmocka_unit_test(a_setting_waits_for_its_answer),
        cmocka_unit_test(a_setting_that_was_not_asked_for_is_not_awaited),
        cmocka_unit_test(a_refused_prompt_is_kept),
        cmocka_unit_test(a_race_that_did_not_begin_does_not_end),
        cmocka_unit_test(a_demo_waits_for_its_prompt),
        cmocka_unit_test(an_empty_conversation_offers_choices),
        cmocka_unit_test(a_command_in_the_prompt_line),
        cmocka_unit_test(ctrl_c_warns_before_it_quits),
        cmocka_unit_test(long_texts_take_linear_time),
        cmocka_unit_test(characters_of_several_code_points),
        cmocka_unit_test(the_draft_under_the_cursor_is_told_in_words),
        cmocka_unit_test(the_papers_step_is_one_key_away),
        cmocka_unit_test(what_was_asked_for_is_seen),
        cmocka_unit_test(texts_are_copied_and_saved),
        cmocka_unit_test(refusals_fit_the_source),
        cmocka_unit_test(help_is_searched),
        cmocka_unit_test(enter_lets_a_cut_answer_go_on),
        cmocka_unit_test(random_keys_and_sizes),
        cmocka_unit_test(every_action_has_a_key_of_its_own),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
