// The command line: commands, flags, help. Flags come from the same table as the configuration keys.
#include "cli/options.h"
#include "base/mem.h"
#include "base/paths.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_FLAGS "model device dtype weights threads context "
#define DECODE_FLAGS                                                                                                   \
    "method budget sizing acceptance max-tokens temperature top-k top-p seed stop chat raw template system trace "     \
    "trace-level "
#define COMMON_FLAGS "config set offline help version "

const ls_command_info ls_commands[] = {
    {"chat", "[FLAGS]", "the screen: prompt, watch, step (also without a command)",
     MODEL_FLAGS DECODE_FLAGS "prompt prompt-file color theme ascii no-mouse script cast size " COMMON_FLAGS},
    {"generate", "[FLAGS]", "answer one prompt as plain text or JSON",
     MODEL_FLAGS DECODE_FLAGS "prompt prompt-file alt json quiet color " COMMON_FLAGS},
    {"compare", "[FLAGS]", "the same prompts by several methods: equal outputs, MAT, speed",
     MODEL_FLAGS DECODE_FLAGS "prompt prompt-file suite methods json quiet " COMMON_FLAGS},
    {"bench", "[FLAGS]", "what reading a prompt and forwards of 1 to 64 rows cost here",
     MODEL_FLAGS "out json quiet " COMMON_FLAGS},
    {"demo", "[NAME|FILE.yaml] [FLAGS]", "guided runs: what to look at, and why it happens; without a name: the list",
     MODEL_FLAGS "trace trace-level live color theme ascii no-mouse script cast size " COMMON_FLAGS},
    {"replay", "TRACE|- [RIVAL] [FLAGS]", "the screen on a recording, without a model; raced with another one",
     "speed paused color theme ascii no-mouse script cast size " COMMON_FLAGS},
    {"inspect", "TRACE [FLAGS]", "recorded steps in words, with their logits, drafts and trees",
     "step turn ascii " COMMON_FLAGS},
    {"diff", "A B", "two recordings of one prompt: where they part, and which was ahead where", COMMON_FLAGS},
    {"report", "TRACE... --out FILE.html|.md|.csv|.json|.svg", "recordings as a page, tables or plots, side by side",
     "out step quiet " COMMON_FLAGS},
    {"export", "TRACE... --out FILE.jsonl|.cast|.json",
     "recordings as Spec-Bench answers, asciicast or Chrome trace events",
     "out suite speed size theme ascii " COMMON_FLAGS},
    {"simulate", "TRACE... [FLAGS]", "what other methods would have done on recorded outputs, without a model",
     "methods budget sizing json quiet " COMMON_FLAGS},
    {"tune", "[FLAGS]", "find what is fastest here on your own prompts, and write it as a configuration file",
     MODEL_FLAGS
     "max-tokens temperature top-k top-p seed chat raw template system prompt prompt-file suite methods out "
     "quiet " COMMON_FLAGS},
    {"corpus", "build FILE|FOLDER... --out FILE | info FILE", "a corpus of your texts or code, for the method rest",
     "model threads out quiet " COMMON_FLAGS},
    {"tokenize", "[FLAGS]", "token ids of a text",
     "model prompt prompt-file chat raw template system json " COMMON_FLAGS},
    {"models", "list | fetch NAME|hf:OWNER/REPO[@REV] | info NAME|PATH | verify [NAME...] | remove NAME",
     "models by name: which there are, getting them, whether their files are what they should be",
     "json yes " COMMON_FLAGS},
    {"doctor", "[FLAGS]", "what this machine has and what is missing", MODEL_FLAGS "json calibrate " COMMON_FLAGS},
    {"config", "show [FLAGS]", "the effective configuration and where each value came from",
     MODEL_FLAGS DECODE_FLAGS "color theme ascii no-mouse " COMMON_FLAGS},
    {0},
};

// Flags that are no configuration key, or that set one to a fixed value.
static const struct {
    const char *flag, *arg, *key, *value, *help;
} extra[] = {
    {"chat", NULL, "prompt.format", "chat", "put the prompt into the model's chat template"},
    {"raw", NULL, "prompt.format", "raw", "use the prompt's bytes as they are"},
    {"ascii", NULL, "ui.ascii", "yes", "draw with ASCII only"},
    {"no-mouse", NULL, "ui.mouse", "no", "leave the mouse to the terminal"},
    {"offline", NULL, "model.offline", "yes", "whatever would use the network is an error (only 'models fetch' does)"},
    {"config", "FILE", NULL, NULL, "read this configuration file too"},
    {"set", "KEY=VALUE", NULL, NULL, "set a configuration key (may be repeated)"},
    {"prompt", "TEXT", NULL, NULL, "the prompt"},
    {"prompt-file", "FILE|-", NULL, NULL, "read the prompt from a file or standard input"},
    {"suite", "FILE|-", NULL, NULL, "prompts as JSON lines: {\"prompt\": ..., \"category\": ...}"},
    {"methods", "LIST", NULL, NULL,
     "methods to compare, by commas: NAME[:ROWS][/SIZING][@ACCEPTANCE][+KNOB=VALUE], or a YAML file"},
    {"alt", "N", NULL, NULL, "a line a token: its probability, who drafted it, and up to N (1 to 8) other choices"},
    {"out", "FILE", NULL, NULL, "write there (-o)"},
    {"speed", "X|max", NULL, NULL, "1: as recorded, 2: twice as fast, max: at once"},
    {"paused", NULL, NULL, NULL, "start in pause"},
    {"live", NULL, NULL, NULL, "decode it here, instead of playing the recording that comes with it"},
    {"step", "LIST", NULL, NULL, "numbers of steps in their turn, from 0: 5 or 5,17,20-22"},
    {"turn", "N", NULL, NULL, "the turn in the file, from 0"},
    {"size", "COLSxROWS", NULL, NULL, "of a film or of the screen of a script, 120x36 where none is given"},
    {"script", "FILE", NULL, NULL, "drive the screen by a script, without a terminal (ui/script.h)"},
    {"cast", "FILE", NULL, NULL, "write a film of it (asciicast), without a terminal"},
    {"yes", NULL, NULL, NULL, "remove without asking"},
    {"calibrate", NULL, NULL, NULL, "measure what forwards cost here, anew, and show it"},
    {"json", NULL, NULL, NULL, "one JSON object on standard output"},
    {"quiet", NULL, NULL, NULL, "no progress and no summary (-q)"},
    {"help", NULL, NULL, NULL, "this text (-h)"},
    {"version", NULL, NULL, NULL, "versions (-V)"},
};
enum { N_EXTRA = sizeof extra / sizeof *extra, MAX_SETTINGS = 256 };

static const struct {
    const char *flag, *arg, *help;
} keyed[] = {
#define OPTION(field, type, key, flag, arg, def, lo, hi, choices, help) {flag, arg, help},
#include "cli/options.def"
#undef OPTION
};

static const ls_command_info *find_command(const char *name) {
    for (const ls_command_info *c = ls_commands; c->name; c++)
        if (!strcmp(c->name, name)) return c;
    return NULL;
}

bool ls_command_takes_arguments(const char *name) {
    return strcmp(find_command(name)->usage, "[FLAGS]") != 0;
}

static bool has_word(const char *words, const char *w) {
    size_t n = strlen(w);
    for (const char *p = words; (p = strstr(p, w)); p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
    return false;
}

static void help_line(ls_buf *out, const char *flag, const char *arg, const char *help) {
    char left[64];
    snprintf(left, sizeof left, "--%s%s%s", flag, arg ? " " : "", arg ? arg : "");
    ls_buf_fmt(out, "  %-24s %s\n", left, help);
}

void ls_help(const char *command, ls_buf *out) {
    const ls_command_info *c = command && *command ? find_command(command) : NULL;
    if (!c) {
        ls_buf_str(out,
                   "logitspec: watch a language model decode by LogitSpec (retrieval-based speculative decoding)\n\n"
                   "  logitspec                                   open the screen on the default model\n"
                   "  logitspec generate --prompt \"Why is the sky blue?\"\n"
                   "  echo \"Summarise: ...\" | logitspec generate --prompt-file - --json\n"
                   "  logitspec --model script                    try the screen on a fake model\n\nCommands:\n");
        for (c = ls_commands; c->name; c++) ls_buf_fmt(out, "  %-10s %s\n", c->name, c->summary);
        ls_buf_str(out, "\n'logitspec COMMAND --help' lists the flags of a command.\n"
                        "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 outputs differ, 130 interrupted.\n");
        return;
    }
    ls_buf_fmt(out, "logitspec %s %s\n%s\n\n", c->name, c->usage, c->summary);
    if (!strcmp(c->name, "generate"))
        ls_buf_str(out, "  logitspec generate --prompt \"Write a haiku\" --method logitspec-paper\n"
                        "  logitspec generate --prompt-file question.txt --json --trace run.jsonl\n"
                        "  logitspec generate --prompt \"The capital of France is\" --raw --max-tokens 20 --alt 3\n\n");
    if (!strcmp(c->name, "bench"))
        ls_buf_str(out, "  logitspec bench\n"
                        "  logitspec bench --model my.gguf --threads 4 -o bench.csv\n\n");
    if (!strcmp(c->name, "compare"))
        ls_buf_str(out, "  logitspec compare --prompt \"Count to twenty.\" --methods ar,logitspec,logitspec:16\n"
                        "  logitspec compare --suite demos/prompts/suite.jsonl --max-tokens 128\n\n");
    if (!strcmp(c->name, "replay"))
        ls_buf_str(out, "  logitspec generate --prompt \"Count to twenty.\" --trace run.jsonl\n"
                        "  logitspec replay run.jsonl --speed 0.5\n"
                        "  ssh machine logitspec generate --prompt Hi --trace - | logitspec replay -\n\n");
    if (!strcmp(c->name, "report"))
        ls_buf_str(out, "  logitspec generate --prompt \"Count to twenty.\" --trace a.jsonl\n"
                        "  logitspec generate --prompt \"Count to twenty.\" --method suffix --trace b.jsonl\n"
                        "  logitspec report a.jsonl b.jsonl -o out.html\n\n");
    if (!strcmp(c->name, "export"))
        ls_buf_str(
            out, "  logitspec export run.jsonl -o run.cast --size 120x36 --speed 0.5    (asciinema play run.cast)\n"
                 "  logitspec export run.jsonl -o run.json                              (open it in ui.perfetto.dev)\n"
                 "  logitspec export traces/*.jsonl -o answers.jsonl --suite question.jsonl\n\n");
    if (!strcmp(c->name, "simulate"))
        ls_buf_str(out,
                   "  logitspec generate --prompt \"Count to twenty.\" --method ar --trace run.jsonl\n"
                   "  logitspec simulate run.jsonl --methods logitspec,logitspec:32,pld/auto,suffix+min_p=0.05\n\n");
    if (!strcmp(c->name, "tune"))
        ls_buf_str(out, "  logitspec tune --suite demos/prompts/suite.jsonl --max-tokens 128 --out tuned.yaml\n"
                        "  logitspec --config tuned.yaml\n\n");
    if (!strcmp(c->name, "corpus"))
        ls_buf_str(out, "  logitspec corpus build ~/src/project README.md --out project.corpus\n"
                        "  logitspec generate --prompt \"...\" --method rest --set rest.corpus=project.corpus\n\n");
    if (!strcmp(c->name, "models"))
        ls_buf_str(out, "  logitspec models list\n"
                        "  logitspec models fetch qwen2.5-0.5b-instruct && logitspec --model qwen2.5-0.5b-instruct\n"
                        "  HF_TOKEN=... logitspec models fetch hf:google/gemma-3-1b-it@main\n\n");
    if (!strcmp(c->name, "tokenize")) ls_buf_str(out, "  logitspec tokenize --prompt \"Hello, world\" --raw\n\n");
    for (size_t i = 0; i < LS_OPT_COUNT; i++)
        if (keyed[i].flag && has_word(c->flags, keyed[i].flag))
            help_line(out, keyed[i].flag, keyed[i].arg, keyed[i].help);
    for (int i = 0; i < N_EXTRA; i++)
        if (has_word(c->flags, extra[i].flag)) help_line(out, extra[i].flag, extra[i].arg, extra[i].help);
}

typedef struct {
    const char *key, *value;
    char *where;
} setting;

static ls_code unknown_flag(const char *arg, ls_err *err) {
    const char *names[LS_OPT_COUNT + N_EXTRA + 1];
    int n = 0;
    for (int i = 0; i < LS_OPT_COUNT; i++)
        if (keyed[i].flag) names[n++] = keyed[i].flag;
    for (int i = 0; i < N_EXTRA; i++) names[n++] = extra[i].flag;
    names[n] = NULL;
    char word[64];
    const char *p = arg + strspn(arg, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(p, "="), p);
    const char *near = ls_nearest(word, names);
    return near ? ls_fail(err, LS_E_USAGE, "unknown flag '%.80s' (did you mean '--%s'?)", arg, near)
                : ls_fail(err, LS_E_USAGE, "unknown flag '%.80s' ('logitspec --help' lists them)", arg);
}

static ls_code apply_layers(ls_options *o, const char *config, char *const *environment, setting *settings, int n,
                            ls_err *err) {
    char *shipped = ls_data_path("configs/default.yaml"),
         *user = ls_user_path("XDG_CONFIG_HOME", ".config", "config.yaml");
    ls_code code = ls_options_file(o, shipped, false, err);
    if (!code && user) code = ls_options_file(o, user, false, err);
    if (!code && config) code = ls_options_file(o, config, true, err);
    if (!code) code = ls_options_environment(o, environment, err);
    for (int i = 0; i < n && !code; i++) {
        if (settings[i].key) {
            code = ls_options_set(o, settings[i].key, settings[i].value, settings[i].where, err);
            continue;
        }
        const char *eq = strchr(settings[i].value, '='); // --set
        if (!eq) {
            code = ls_fail(err, LS_E_USAGE, "--set %.80s: KEY=VALUE is expected", settings[i].value);
            break;
        }
        char *key = ls_strndup(settings[i].value, (size_t)(eq - settings[i].value));
        code = ls_options_set(o, key, eq + 1, "--set", err);
        free(key);
    }
    free(shipped);
    free(user);
    return code;
}

ls_code ls_command_line_read(ls_command_line *c, int argc, char **argv, char *const *environment, ls_err *err) {
    *c = (ls_command_line){.command = ""};
    ls_options_init(&c->options);
    c->args = ls_calloc((size_t)argc + 1, sizeof *c->args);
    struct option longs[LS_OPT_COUNT + N_EXTRA + 1] = {0};
    int n = 0, source[LS_OPT_COUNT + N_EXTRA];
    for (int i = 0; i < LS_OPT_COUNT; i++)
        if (keyed[i].flag) source[n] = i, longs[n++] = (struct option){keyed[i].flag, required_argument, NULL, 0};
    for (int i = 0; i < N_EXTRA; i++)
        source[n] = LS_OPT_COUNT + i,
        longs[n++] = (struct option){extra[i].flag, extra[i].arg ? required_argument : no_argument, NULL, 0};
    setting settings[MAX_SETTINGS];
    const char *used[MAX_SETTINGS];
    int n_settings = 0, n_used = 0, index = 0, got;
    ls_code code = LS_OK;
    optind = 0; // GNU: a full restart, so that tests can parse more than one line
    opterr = 0;
    while (!code && (got = getopt_long(argc, argv, ":qhVo:", longs, &index)) != -1) {
        const char *flag = got ? NULL : longs[index].name;
        if (got == ':') code = ls_fail(err, LS_E_USAGE, "flag '%.80s' needs a value", argv[optind - 1]);
        else if (got == '?') {
            // an argument to a flag without one, an ambiguous or an unknown flag
            code = unknown_flag(argv[optind - 1], err);
        } else if (n_used == MAX_SETTINGS - 1) code = ls_fail(err, LS_E_USAGE, "too many flags");
        else if (got == 'q') c->quiet = true;
        else if (got == 'h') c->help = true;
        else if (got == 'V') c->version = true;
        else if (got == 'o') used[n_used++] = "out", c->out = optarg;
        else {
            used[n_used++] = flag;
            int s = source[index];
            if (s < LS_OPT_COUNT)
                settings[n_settings++] = (setting){ls_options_key(s), optarg, ls_format("--%s", flag)};
            else if (extra[s - LS_OPT_COUNT].key)
                settings[n_settings++] =
                    (setting){extra[s - LS_OPT_COUNT].key, extra[s - LS_OPT_COUNT].value, ls_format("--%s", flag)};
            else if (!strcmp(flag, "set")) settings[n_settings++] = (setting){NULL, optarg, NULL};
            else if (!strcmp(flag, "config")) c->config = optarg;
            else if (!strcmp(flag, "prompt")) c->prompt = optarg;
            else if (!strcmp(flag, "prompt-file")) c->prompt_file = optarg;
            else if (!strcmp(flag, "suite")) c->suite = optarg;
            else if (!strcmp(flag, "methods")) c->methods = optarg;
            else if (!strcmp(flag, "out")) c->out = optarg;
            else if (!strcmp(flag, "speed")) c->speed = optarg;
            else if (!strcmp(flag, "step")) c->step = optarg;
            else if (!strcmp(flag, "turn")) c->turn = optarg;
            else if (!strcmp(flag, "alt")) c->alt = optarg;
            else if (!strcmp(flag, "size")) c->size = optarg;
            else if (!strcmp(flag, "script")) c->script = optarg;
            else if (!strcmp(flag, "cast")) c->cast = optarg;
            else if (!strcmp(flag, "paused")) c->paused = true;
            else if (!strcmp(flag, "live")) c->live = true;
            else if (!strcmp(flag, "yes")) c->yes = true;
            else if (!strcmp(flag, "calibrate")) c->calibrate = true;
            else if (!strcmp(flag, "json")) c->json = true;
            else if (!strcmp(flag, "quiet")) c->quiet = true;
            else if (!strcmp(flag, "help")) c->help = true;
            else c->version = true;
        }
    }
    if (!code && optind < argc) {
        const ls_command_info *info = find_command(argv[optind]);
        if (info) c->command = info->name;
        else {
            const char *names[32] = {0};
            for (int i = 0; ls_commands[i].name; i++) names[i] = ls_commands[i].name;
            const char *near = ls_nearest(argv[optind], names);
            code =
                ls_fail(err, LS_E_USAGE, "unknown command '%.80s' (%s%s%s)", argv[optind],
                        near ? "did you mean '" : "'logitspec --help' lists them", near ? near : "", near ? "'?" : "");
        }
        for (int i = optind + 1; i < argc; i++) c->args[c->n_args++] = argv[i];
    }
    const ls_command_info *info = find_command(*c->command ? c->command : "chat");
    for (int i = 0; i < n_used && !code; i++)
        if (!has_word(info->flags, used[i]))
            code = ls_fail(err, LS_E_USAGE, "'logitspec %s' has no flag '--%s'", info->name, used[i]);
    if (!code && c->prompt && c->prompt_file)
        code = ls_fail(err, LS_E_USAGE, "--prompt and --prompt-file exclude each other");
    if (!code && !c->help && !c->version)
        code = apply_layers(&c->options, c->config, environment, settings, n_settings, err);
    for (int i = 0; i < n_settings; i++) free(settings[i].where);
    if (code) ls_command_line_free(c);
    return code;
}

void ls_command_line_free(ls_command_line *c) {
    ls_options_free(&c->options);
    free(c->args);
    *c = (ls_command_line){.command = ""};
}
