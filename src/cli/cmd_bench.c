// `bench` and `compare`: benchmarks of forwards, methods and hardware limits.
#include "cli/bench.h"

#include <string.h>

typedef ls_code (*part)(const ls_command_line *c, int *status, ls_err *err);

static int run(part p, const ls_command_line *c) {
    ls_err err = {0};
    int status = LS_EXIT_OK;
    if (p(c, &status, &err)) return ls_complain(&err);
    return status;
}

int ls_cmd_compare(const ls_command_line *c) {
    return run(ls_bench_methods, c);
}

static ls_code unknown(const ls_command_line *c, int *status, ls_err *err) {
    (void)status;
    return ls_fail(err, LS_E_USAGE, "unknown 'bench %s': expected forward, methods, show, diff or limits", c->args[0]);
}

int ls_cmd_bench(const ls_command_line *c) {
    static const struct {
        const char *word;
        int files; // number of file arguments
        part run;
        bool prompts; // takes the flags of prompts and methods
    } parts[] = {{"forward", 0, ls_bench_forward, false},
                 {"methods", 0, ls_bench_methods, true},
                 {"show", 1, ls_bench_show, true},
                 {"diff", 2, ls_bench_compare_files, false},
                 {"limits", 0, ls_bench_limits, false}};
    const char *word = c->n_args ? c->args[0] : "forward";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(word, parts[i].word)) continue;
        const int files = c->n_args > 1 ? c->n_args - 1 : 0;
        ls_err err = {0};
        if (files != parts[i].files)
            ls_fail(&err, LS_E_USAGE, "'bench %s' takes %s", word,
                    parts[i].files == 2 ? "two files of 'bench methods -o FILE.json'"
                    : parts[i].files    ? "one file of 'bench methods -o FILE.json'"
                                        : "no file");
        else if (!parts[i].prompts && (c->suite || c->methods || c->prompt || c->prompt_file))
            ls_fail(&err, LS_E_USAGE, "'bench %s' takes no prompts and no methods; use 'bench methods'", word);
        else if (!parts[i].prompts && (c->limit || c->per_category || c->turns || c->repeat || c->resume || c->strict))
            ls_fail(&err, LS_E_USAGE, "'bench %s' takes no flags of a suite; use 'bench methods'", word);
        else if (parts[i].run != ls_bench_forward && (c->contexts || c->rows))
            ls_fail(&err, LS_E_USAGE, "only 'bench forward' takes --contexts and --rows");
        else if (c->out && (parts[i].run == ls_bench_limits || parts[i].run == ls_bench_compare_files))
            ls_fail(&err, LS_E_USAGE, "'bench %s' takes no -o; to write a file, append > FILE", word);
        return err.code ? ls_complain(&err) : run(parts[i].run, c);
    }
    return run(unknown, c);
}
