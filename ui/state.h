// The state of the screen, in parts by who writes them. Events write `run`, the application `given`. Keys change
// `shown`, `view`, `list`, `over`, `typed`, `setup` and `quiz`, and leave what they ask of the application and the
// source in `asked`; an event may take back a choice whose object it replaced. `shadows` and `playing` are written
// between frames, and by keys that choose in them. Rendering writes only `drawn`, and what `quiz.masked` points to.
#pragma once
#include "source/source.h"
#include "decode/conversation.h"
#include "decode/shadows.h"
#include "decode/stats.h"
#include "decode/step.h"
#include "ui/actions.h"
#include "ui/edit.h"

#include <stdbool.h>

typedef enum {
#define PANEL(place, ...) UI_##place,
#include "ui/panels.def"
#undef PANEL
    UI_PANELS,
    UI_NO_PANEL = -1
} ui_panel;

// Which tokens of an answer are thinking: from "<think>" to "</think>" or what other models write (ui/state.c has the
// pairs), spelled by any number of tokens. A prompt may end with the beginning.
enum { UI_THINKING_TAIL = 40 }; // bytes; the longest sign is shorter

typedef struct {
    int32_t from, to; // tokens of the answer; from -1: none so far; to -1: it has not ended
    int pair;         // how it began
    int n;            // bytes of what was written last:
    char tail[UI_THINKING_TAIL];
    int32_t token[UI_THINKING_TAIL]; // each byte's
} ui_thinking;

// What the screen has of a turn besides the conversation, see ui_said.
typedef struct {
    size_t first_step; // index into steps
    double prefill_ms;
    char method[32];
    bool switched;      // from another method, in the middle
    double temperature; // 0: greedy
    ui_thinking thinking;
} ui_turn;

// What lies over the panels, see ui/modes.h.
typedef enum { UI_HELP, UI_LOG, UI_SETUP, UI_SHADOWS, UI_OVERLAYS, UI_NO_OVERLAY = -1 } ui_overlay;

// Which panels are wanted; the layout makes room for them.
typedef struct {
    ui_panel focus; // UI_NO_PANEL: the prompt line has the focus
    ui_panel zoom;  // UI_NO_PANEL: all panels
    bool inspect, compare;
    bool inspect_last; // of Inspect and Compare, it was opened last
} ui_shown;

// Another method's answer to a turn's prompt; or a fork, another way on from within the answer (what if).
typedef struct {
    bool known, done;
    int32_t at;   // of a fork: how many tokens of the answer stay
    ls_ids begun; // of a fork: the tokens that the user chose; empty: no fork
    char method[64];
    size_t turn; // index into turns
    ls_finish finish;
    const ls_step **steps; // kept
    size_t n_steps;
} ui_rival;

enum { UI_SETTINGS = 64, UI_PAPER = 4 };

// A setting that can be changed while it runs.
typedef struct {
    const char *key, *help, *choices; // choices: usual values, "a|b|c"
    const char *of;                   // the method or sizing rule whose knob it is; NULL: none
    char value[48];
    char asked[48]; // requested and not yet answered; "": nothing
} ui_setting;

typedef struct {
    bool on;
    size_t next;      // first step that may be asked about
    size_t answered;  // index + 1 of the step whose answer is shown until the user continues; 0: none
    int asked, right; // answers
    int found, of;    // tokens: those marked and accepted, of the longer one of both paths
    ls_step *masked;  // a work area; owned
} ui_quiz;

typedef struct ui_demo ui_demo; // ui/demo.h

enum { UI_STATS_EVERY = 128, UI_LOG_LINES = 500 };

// The run, as events told it: a copy, because the conversation belongs to the decoder's thread and goes on while it is
// drawn, and a recording has no decoder. ui_on_event writes it (and a film its state), so the same events show the
// same.
typedef struct {
    bool has_header;
    ls_run header;
    ls_run_state state;
    char stage[64];
    char failure[512]; // the reason of LS_STATE_FAILED
    double fraction;
    ls_tokens tokens;
    ls_conversation *conversation;
    ui_turn *turns;        // [conversation->n_turns]
    const ls_step **steps; // of all turns; kept
    size_t n_steps;
    ui_rival rival;
} ui_mirror;

// What the application gives as the screen opens. Pointers are borrowed and may be NULL.
typedef struct {
    bool recording;           // the run is a replay, or a server's requests are watched: it accepts no prompts
    bool watches;             // a server's requests
    bool serves;              // ... of this process, which ends with the screen
    const char *server;       // its address
    const char *const *words; // that commands complete to, besides actions; ends with NULL
    const char *const *left;  // files of conversations that were cut off, the newest first, ends with NULL
    const char *autosave;     // file that keeps this conversation for the next start
    const char *clipboard;    // a note for messages about copies; NULL: no clipboard
    const char *(*about)(const char *key, const char *value); // describes a value of a setting, or returns NULL
    // Writes the settings to the user's configuration; *said: the result in words.
    ls_code (*save_settings)(const ui_setting *settings, int n, char *said, size_t size);
    // Returns the variants for Shadows; called when Shadows is first opened. The callee owns them.
    const ls_shadow_variant *(*variants)(void *ud, int *n);
    // Opens stop i (from 0) of the guided tour; *of: the number of stops. NULL: err has the reason, or i is *of.
    ls_source *(*tour)(void *ud, int i, int *of, const ui_demo **demo, ls_err *err); // NULL: there is no tour
    void *ud;
} ui_given;

// What is looked at, and how.
typedef struct {
    bool at_newest; // the view follows the newest step
    size_t step;    // else the viewed step
    int node;       // row of the viewed tree that is inspected; -1: ui_inspected chooses one
    bool tree_full, brackets, folded, mask, ascii; // folded: thinking is one line
    int preview; // lossy rule (ls_accept_at) whose effect is marked on exact steps; 0: none
    int extreme; // the last jump to a worst (-1) or best (1) step, and where it led
    size_t extreme_at;
    char *sought; // the last search; owned, may be NULL
} ui_view;

// Of a panel that lists rows, see ui/panels.h.
typedef struct {
    char *filter; // only rows with this text; owned, NULL: all
    int order;    // the column that they are sorted by
    bool reversed;
    int found; // row of the cursor, set by a key or a search; -1: none
} ui_list;

// What lies over the panels.
typedef struct {
    ui_overlay open[UI_OVERLAYS]; // each once; the last one is on top
    int n;
    int help_found; // line of Help that a search led to; -1: none
} ui_over;

// The lines in which the user types.
typedef struct {
    char sign;      // what is typed below: 0 (the prompt), ':' a command, '/' a search, '\\' a filter
    bool in_prompt; // the line was begun in the prompt line: an unknown command returns there
    ui_edit prompt, line;
    int editing;      // turn whose prompt is being changed; -1: a new one is written
    bool interrupted; // the last key was ^C
} ui_typed;

// The settings that can change during a run, and the preset of the paper's method.
typedef struct {
    ui_setting settings[UI_SETTINGS];
    int n, chosen;
    char before_paper[UI_PAPER][sizeof(((ui_setting *)0)->value)]; // values before the preset; "": none yet
} ui_setup;

// What Shadows knows; works between frames.
typedef struct {
    const ls_shadow_variant *variants; // once they were made; borrowed
    int n_variants, chosen;
    bool always;         // also while it decodes, whatever the cost
    ls_shadows *work;    // NULL: none was begun; owned
    size_t turn, step;   // the next ones to simulate
    bool begun, ended;   // that turn
    ls_stats real;       // of it
    const char *refused; // why the conversation cannot be simulated; NULL: it can
} ui_shadows;

// A demo that is played, and the tour that it is a stop of.
typedef struct {
    const ui_demo *demo; // borrowed, NULL: none
    struct ui_told {
        size_t note;     // of the demo
        int64_t step;    // at which it was shown; -1: before the first one
    } * told;            // the notes that were shown, in their order; owned
    size_t n_told, read; // read: of them; the next one is on the screen
    bool asked;          // requested a step that has not arrived
    bool held;           // the user paused it
    uint64_t due_ns;
    int tour_stop, tour_of; // current stop (from 1) and number of stops; 0: no tour
} ui_playing;

// A server's requests.
typedef struct {
    // from top to bottom: those that are answered, those that wait, then the ended ones, the newest first
    ls_request_facts *facts;
    size_t n;
    int32_t shown, cursor; // their numbers; 0: none
    bool follows;          // shown is the request that is being answered
    bool warned;           // that quitting ends requests
} ui_requests;

// What is asked of the source, and of the application, which resets it.
typedef struct {
    ls_command outbox[8]; // for the source; their texts are owned
    int n_outbox;
    bool sent;          // a prompt or a conversation to load was sent, and the source has not started it
    bool starts_paused; // the next answer
    int tour;           // 1: the guided tour, or its next stop; -1: back to the conversation
    int themes, mice;   // so many switches of theme and mouse
    bool editor;        // the prompt goes to the user's own editor
    bool redraw, suspend, quit;
    int exit_code;
    char *save_to; // file for the display; owned
    char *to_copy; // for the clipboard; owned
} ui_asked;

// The window, and what its texts need of it.
typedef struct {
    int rows, cols;   // 0: no frame was drawn
    int prompt_rows;  // lines of the prompt; 0: one
    int message_rows; // of the message above it; 0: one
    bool empty;       // no turn yet: Output explains
    bool note;        // of a demo
    bool requests;    // of a server
} ui_room;

// Statistics of a turn up to a step, kept so that another step costs little.
typedef struct {
    ls_stats now;
    size_t turn, until; // until: first step not counted
    ls_stats *marks;    // after every UI_STATS_EVERY steps of that turn: going back starts at one of them
    size_t n_marks;
} ui_statistics;

// What rendering writes: notes on the last frame; scroll positions, which keys change and rendering keeps in range.
typedef struct {
    ui_room room;
    int scroll[UI_PANELS], overlay_scroll[UI_OVERLAYS]; // lines from the natural position
    bool to_row;                                        // the cursor moved: the panel scrolls to it
    bool help_jumps;                                    // Help scrolls to what was found
    ui_statistics statistics;
} ui_drawn;

typedef struct {
    ui_mirror run;
    ui_given given;
    ui_shown shown;
    ui_view view;
    ui_list list[UI_PANELS];
    ui_over over;
    ui_typed typed;
    ui_setup setup;
    ui_shadows shadows;
    ui_quiz quiz;
    ui_requests requests;
    ui_playing playing;
    ui_asked asked;
    ui_drawn drawn;
    char message[512];
    bool message_is_error;
    char *log[UI_LOG_LINES]; // messages and foreign output, the newest at n_log - 1 (modulo); owned
    size_t n_log;
} ui_state;

void ui_state_init(ui_state *s);
void ui_state_free(ui_state *s);
void ui_on_event(ui_state *s, ls_event *e); // takes the event
void ui_on_key(ui_state *s, ui_key k);
void ui_on_paste(ui_state *s, const char *text, size_t n);
void ui_act(ui_state *s, ui_action a);
void ui_leave_rows(ui_state *s);                                   // another step is viewed: no cursor in it
void ui_log(ui_state *s, const char *text, size_t n);              // adds each of its lines
void ui_ask(ui_state *s, ls_command_kind kind, char *text, int n); // puts it into the outbox; takes text
void ui_ask_rival(ui_state *s, const char *method);
void ui_what_if_text(ui_state *s, const char *text); // continues with it behind the token under the cursor
bool ui_can_keep(const ui_state *s);                 // the what-if as the answer, once it is done
bool ui_can_send(ui_state *s);                       // a prompt; if not, a message says why
// Opens the line at the bottom (see ui_typed) with this text.
void ui_type_line(ui_state *s, char sign, const char *text);

// Reading
const ls_step *ui_viewed(const ui_state *s); // NULL before the first step
int ui_inspected(const ui_state *s);         // row of the viewed tree; valid if there is one
size_t ui_viewed_index(const ui_state *s);   // valid if there is one
size_t ui_viewed_end(const ui_state *s);     // number of steps up to the viewed one, the end of an answer included
const ui_turn *ui_turn_of(const ui_mirror *run, size_t i_step);
const ui_turn *ui_viewed_turn(const ui_state *s);  // of the viewed step; before the first step the last turn
const ui_turn *ui_last_turn(const ui_mirror *run); // NULL: there is none
const ls_turn *ui_said(const ui_mirror *run, const ui_turn *t);   // the turn of the conversation
const char *ui_prompt_of(const ui_mirror *run, const ui_turn *t); // its user's text
ls_finish ui_finish(const ui_mirror *run); // of the last turn; LS_GOING: it is being decoded, or there is none
bool ui_raced(const ui_mirror *run);       // the rival answers the last turn
const ls_stats *ui_stats(const ui_state *s, ui_statistics *kept); // of the viewed turn, up to the viewed step
int ui_preview(const ui_state *s, const ls_step *step);           // row that the previewed rule would accept; -1: none
bool ui_busy(const ui_mirror *run);                               // a turn is being answered

void ui_thinking_begin(ui_thinking *t, const ls_tokens *tokens, const int32_t *prompt, int32_t n);
void ui_thinking_add(ui_thinking *t, const ls_token *token, int32_t at); // token `at` of the answer
bool ui_thinking_at(const ui_thinking *t, int32_t at);

// ---- navigate.c: moves of the view, and the message line

// The message line: a note, or an error.
void ui_message(ui_state *s, bool is_error, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define ui_say(s, ...) ui_message(s, false, __VA_ARGS__)
#define ui_say_error(s, ...) ui_message(s, true, __VA_ARGS__)
void ui_focus(ui_state *s, ui_panel p);           // gives it the focus
void ui_open(ui_state *s, ui_panel p, bool open); // opens or closes Inspect or Compare
void ui_look_at(ui_state *s, int64_t step);       // or at the nearest that exists; follows the newest
// Goes to the next step (by: 1) or the previous one (-1) in which that happened, or says that there is none.
typedef enum { UI_FIND_REJECTION, UI_FIND_LOSSY } ui_find;
void ui_jump(ui_state *s, ui_find what, int by);
void ui_jump_extreme(ui_state *s, int sign); // to the best (1) or worst (-1) step; then to the next in that order
// Finds view.sought forwards (by: 1) or back (-1), in the panel's rows or in the output.
void ui_look_for(ui_state *s, int by);
// Chooses a row of Logits, Drafts or Tree; the other panels then show its node.
void ui_choose_row(ui_state *s, ui_panel p, int row);
void ui_move_row(ui_state *s, ui_panel p, int by); // Logits, Drafts
void ui_move_node(ui_state *s, int by);            // up and down as the Tree panel lists them
void ui_move_deeper(ui_state *s, bool deeper);     // to the first child, or to the parent
void ui_move_token(ui_state *s, int by);           // to the next token of the output, and the step that made it

// ---- panel_requests.c: the requests of a server

void ui_requests_on(ui_state *s, const ls_event *e);
void ui_requests_move(ui_state *s, int by); // the cursor, in the order of the panel
void ui_requests_open(ui_state *s);         // shows the one under the cursor
void ui_requests_follow(ui_state *s);       // shows the one that is being answered, from now on
void ui_requests_pin(ui_state *s);          // stays with the shown one, whatever is answered
size_t ui_requests_open_count(const ui_requests *r, ls_request_state from, ls_request_state to); // in these states
const ls_request_facts *ui_request_shown(const ui_state *s);                                     // NULL: none
const char *ui_fixed(const ui_state *s); // why nothing can be changed: "this is a recording", "this is a server"

// ---- panel_setup.c: which of them apply now, their usual values, and the preset of the paper's method

// A knob applies only with its method or sizing rule.
bool ui_setting_applies(const ui_setup *s, const ui_setting *t);
ui_setting *ui_setting_of(const ui_setup *s, const char *key); // NULL: it cannot change here
void ui_setting_move(ui_setup *s, int by);                     // to the next or previous one that applies
// The usual value after (by: 1) or before (-1) the one in force; NULL: the setting has none.
const char *ui_setting_choice(const ui_setting *t, int by, char *out, size_t size);
void ui_setting_ask(ui_state *s, ui_setting *t, const char *value); // one of s->setup
void ui_setting_unasked(ui_state *s);            // an LS_CMD_SET was not sent, so no answer will come
const char *ui_setting_now(const ui_setting *t); // the value that it has or will have
void ui_settings_save(ui_state *s);              // to the user's configuration
// Sets the published method with 16 rows a step (affordable on a CPU). If it is set, restores the previous settings.
void ui_paper_step(ui_state *s);

// ---- quiz.c, for teaching: the tree of a step is shown as it was before its verification, the class says which draft
// is the last that the target accepts, then the verification is shown. Steps without drafts ask nothing.

void ui_quiz_toggle(ui_state *s);
void ui_quiz_on_step(ui_state *s);              // after each new step: skips a step without a question
bool ui_quiz_hides(const ui_state *s);          // whether the outcome of the viewed step is hidden
size_t ui_quiz_first_hidden(const ui_state *s); // first step whose outcome is hidden; SIZE_MAX: none
void ui_quiz_answer(ui_state *s);               // the draft under the cursor; the root: none is accepted
bool ui_quiz_go_on(ui_state *s);                // leaves a shown answer; false: none is shown
// The last visible step: the one that is asked about or whose answer is shown; without a quiz the newest.
size_t ui_quiz_newest(const ui_state *s);
// The step as it was before its verification, in the state's own room.
const ls_step *ui_quiz_masked(const ui_state *s, const ls_step *step);
void ui_quiz_question(const ui_state *s, ls_buf *out); // a line of text, with the score

// ---- panel_shadows.c: what every method would do on the conversation, while one decodes it. Nothing is computed
// before the view is open.

// Works for one time slice if the view is open; during decoding only if that costs little or the user wants it. Call it
// between frames. True: work may be left, and the next call may have new results.
bool ui_shadows_work(ui_state *s);
// The conversation was forgotten from this turn on.
void ui_shadows_forget(ui_state *s, size_t turn);
