#include "ui/modes.h"
#include "base/mem.h"
#include "ui/panels.h"

#include <stdlib.h>
#include <string.h>

void ui_type_line(ui_state *s, char sign, const char *text) {
    s->typed.sign = sign;
    s->typed.in_prompt = false;
    ui_edit_set(&s->typed.line, text);
}

// The step with that number. Numbers rise within a turn; where lines of a recording are missing, some have no step.
static void goto_step(ui_state *s, const char *text) {
    char *end;
    const unsigned long number = strtoul(text, &end, 10);
    const ui_turn *t = s->run.n_steps ? ui_viewed_turn(s) : NULL;
    if (!t) {
        ui_look_at(s, 0);
        return;
    }
    const size_t n = ui_said(&s->run, t)->n_steps, last = t->first_step + n - 1;
    size_t at = t->first_step;
    while (at <= last && s->run.steps[at]->index < number) at++;
    if (end != text && !*end && at <= last && s->run.steps[at]->index == number) ui_look_at(s, (int64_t)at);
    else
        ui_say_error(s, "goto '%.20s': turn %td has %ssteps %u to %u", text, t - s->run.turns + 1,
                     n > s->run.steps[last]->index - s->run.steps[t->first_step]->index ? "" : "some of ",
                     s->run.steps[t->first_step]->index, s->run.steps[last]->index);
}

static void ask_display(ui_state *s, const char *path) {
    free(s->asked.save_to);
    s->asked.save_to = ls_strdup(path);
}

const ui_verb ui_verbs[] = {
    {"set ", "KEY=VALUE", "change a setting during the run, such as decode.max_rows=16", NULL, LS_CMD_SET, false},
    {"goto ", "STEP", "show that step of the viewed turn", goto_step, 0, false},
    {"compare ", "METHOD", "race this method on the last prompt, such as suffix:16", ui_ask_rival, 0, false},
    {"what-if ", "TEXT", "continue the answer with this text after the token under the cursor", ui_what_if_text, 0,
     true},
    {"save ", "FILE", "write the conversation as a trace (.zst: compressed)", NULL, LS_CMD_SAVE, false},
    {"load ", "FILE", "load a saved conversation and continue it", NULL, LS_CMD_LOAD, false},
    {"save-display ", "FILE", "write this screen as .txt, .ansi or .svg", ask_display, 0, false},
    {"save-text ", "FILE", "write the viewed answer as plain text", ui_export_text, 0, false},
    {"save-step ", "FILE", "write a description of the viewed step", ui_export_step, 0, false},
    {0},
};

static const ui_verb *verb_of(const char *word) { // with its argument, or without as in ":save"
    const ui_verb *v = ui_verbs;
    const size_t n = strcspn(word, " ");
    while (v->name && (strlen(v->name) != n + 1 || strncmp(word, v->name, n))) v++;
    return v->name ? v : NULL;
}

bool ui_is_command(const char *line) {
    return *line == ':' && !strchr(line, '\n') && (verb_of(line + 1) || ui_action_named(line + 1) != UI_ACT_NONE);
}

static void run_command(ui_state *s, const char *line) {
    const char *word = line + strspn(line, " ");
    const ui_action a = ui_action_named(word);
    const ui_verb *v = verb_of(word);
    const size_t n = strcspn(word, " "), blanks = strspn(word + n, " ");
    const bool file = v && !strcmp(v->argument, "FILE");
    if (a != UI_ACT_NONE) ui_act(s, a);
    else if (v && !word[n + blanks])
        ui_say_error(s, ":%s%s: %s is missing", v->name, v->argument, file ? "a name" : v->argument);
    else if (v) {
        const char *argument = word + n + (v->verbatim ? 1 : blanks), *home = getenv("HOME");
        const bool at_home = file && !strncmp(argument, "~/", 2) && home && *home;
        char *path = at_home ? ls_format("%s%s", home, argument + 1) : ls_strdup(argument); // as a shell has it
        if (v->run) v->run(s, path);
        else ui_ask(s, v->asks, ls_strdup(path), 0);
        free(path);
    } else if (*word) {
        ui_say_error(s, "unknown command '%.80s' (F1 lists all)%s", word,
                     s->typed.in_prompt ? "; Enter sends the line as a prompt" : "");
        if (!s->typed.in_prompt) return;
        ui_edit_set(&s->typed.prompt, ":");
        ui_edit_insert(&s->typed.prompt, line, strlen(line));
    }
}

static void enter(ui_state *s) {
    char *text = ui_edit_take(&s->typed.line);
    const char sign = s->typed.sign;
    s->typed.sign = 0;
    if (sign == '/') {
        free(s->view.sought);
        s->view.sought = text;
        if (s->over.n && s->over.open[s->over.n - 1] == UI_HELP) ui_help_find(s, 1);
        else ui_look_for(s, 1);
        return;
    }
    if (sign == ':') run_command(s, text); // a filter is in force while it is typed
    free(text);
}

// Types what all candidates have in common, and lists them where there are several.
static void complete(ui_state *s) {
    const char *typed = s->typed.line.text.n ? s->typed.line.text.p : "", *first = NULL;
    const size_t n = strlen(typed);
    size_t common = 0, found = 0;
    ls_buf list = {0};
    for (int source = 0; source < 3; source++) // actions, commands with an argument, words of the application
        for (int i = 0;; i++) {
            const char *word = source == 0   ? (i < UI_ACTIONS ? ui_actions[i].name : NULL)
                               : source == 1 ? ui_verbs[i].name
                                             : (s->given.words ? s->given.words[i] : NULL);
            if (!word) break;
            const char *value = strchr(word, '='); // KEY=VALUE is a candidate once "KEY=" was typed
            if (strncmp(word, typed, n) || (value && value[1] && n <= (size_t)(value - word))) continue;
            size_t same = strlen(word);
            if (first)
                for (same = 0; same < common && first[same] == word[same];) same++;
            else first = word;
            common = same;
            found++;
            ls_buf_fmt(&list, "%s%s", list.n ? "  " : "", word);
        }
    if (common > n) ui_edit_insert(&s->typed.line, first + n, common - n);
    if (found > 1) ui_say(s, "%s", list.p);
    else if (!found) ui_say(s, "no command begins with this");
    ls_buf_free(&list);
}

void ui_line_leave(ui_state *s) {
    if (s->typed.sign == '\\') ui_rows_filter(s, s->shown.focus, "");
    s->typed.sign = 0;
}

bool ui_line_key(ui_state *s, ui_press k) {
    if (k.code == UI_KEY_ENTER) enter(s);
    else if (k.code == UI_KEY_TAB && s->typed.sign == ':') complete(s);
    else if (k.code == UI_KEY_BACKSPACE && !s->typed.line.text.n) ui_line_leave(s);
    else if (k.code == ':' && s->typed.sign == ':' && !s->typed.line.text.n && s->typed.in_prompt) {
        ui_line_leave(s);
        ui_edit_set(&s->typed.prompt, "::"); // a prompt that begins with a colon
    } else {
        ui_edit_key(&s->typed.line, k.code);
        if (s->typed.sign == '\\') ui_rows_filter(s, s->shown.focus, s->typed.line.text.n ? s->typed.line.text.p : "");
    }
    return true;
}
