// The program: a command line in, an exit code out.
#include "cli/commands.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(const ls_command_line *c);
    } commands[] = {{"chat", ls_cmd_chat},       {"generate", ls_cmd_generate}, {"bench", ls_cmd_bench},
                    {"compare", ls_cmd_compare}, {"demo", ls_cmd_demo},         {"replay", ls_cmd_replay},
                    {"inspect", ls_cmd_inspect}, {"diff", ls_cmd_diff},         {"report", ls_cmd_report},
                    {"export", ls_cmd_export},   {"simulate", ls_cmd_simulate}, {"tune", ls_cmd_tune},
                    {"corpus", ls_cmd_corpus},   {"tokenize", ls_cmd_tokenize}, {"doctor", ls_cmd_doctor},
                    {"config", ls_cmd_config},   {"models", ls_cmd_models}};
    setlocale(LC_CTYPE, ""); // widths and line drawing; numbers keep the C locale
    ls_command_line c;
    ls_err err = {0};
    ls_buf text = {0};
    if (ls_command_line_read(&c, argc, argv, environ, &err)) return ls_complain(&err);
    int status = LS_EXIT_USAGE;
    if (c.help) {
        ls_help(c.command, &text);
        status = ls_print(&text) ? LS_EXIT_OK : LS_EXIT_FAILED;
    } else if (c.version) {
        ls_buf_str(&text, "logitspec " LS_VERSION "\n");
        status = ls_print(&text) ? LS_EXIT_OK : LS_EXIT_FAILED;
    } else {
        const char *name = *c.command ? c.command : "chat";
        if (c.n_args && !ls_command_takes_arguments(name)) {
            ls_fail(&err, LS_E_USAGE, "'logitspec %s' takes no argument '%.80s'; a prompt goes into --prompt", name,
                    c.args[0]);
            status = ls_complain(&err);
        } else
            for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
                if (!strcmp(commands[i].name, name)) status = commands[i].run(&c);
    }
    ls_command_line_free(&c);
    return status;
}
