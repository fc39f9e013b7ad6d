// `bench` and `compare`: benchmarks of forwards, methods and hardware limits.
#include "cli/bench.h"

#include <string.h>

ls_code ls_cmd_bench(const ls_command_line *c, ls_console *to, ls_err *err) {
    static const struct {
        const char *word;
        int files; // number of file arguments
        ls_code (*run)(const ls_command_line *c, ls_console *to, ls_err *err);
        bool prompts; // takes the flags of prompts and methods
    } parts[] = {{"forward", 0, ls_bench_forward, false},
                 {"methods", 0, ls_cmd_compare, true},
                 {"show", 1, ls_bench_show, true},
                 {"diff", 2, ls_bench_compare_files, false},
                 {"limits", 0, ls_bench_limits, false}};
    const char *word = c->n_args ? c->args[0] : "forward";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(word, parts[i].word)) continue;
        const int files = c->n_args > 1 ? c->n_args - 1 : 0;
        if (files != parts[i].files)
            return ls_fail(err, LS_E_USAGE, "'bench %s' takes %s", word,
                           parts[i].files == 2 ? "two files of 'bench methods -o FILE.json'"
                           : parts[i].files    ? "one file of 'bench methods -o FILE.json'"
                                               : "no file");
        if (!parts[i].prompts && (c->suite || c->methods || c->prompt || c->prompt_file))
            return ls_fail(err, LS_E_USAGE, "'bench %s' takes no prompts and no methods; use 'bench methods'", word);
        if (!parts[i].prompts && (c->limit || c->per_category || c->turns || c->repeat || c->resume || c->strict))
            return ls_fail(err, LS_E_USAGE, "'bench %s' takes no flags of a suite; use 'bench methods'", word);
        if (parts[i].run != ls_bench_forward && (c->contexts || c->rows))
            return ls_fail(err, LS_E_USAGE, "only 'bench forward' takes --contexts and --rows");
        if (c->out && (parts[i].run == ls_bench_limits || parts[i].run == ls_bench_compare_files))
            return ls_fail(err, LS_E_USAGE, "'bench %s' takes no -o; to write a file, append > FILE", word);
        return parts[i].run(c, to, err);
    }
    return ls_fail(err, LS_E_USAGE, "unknown 'bench %s': expected forward, methods, show, diff or limits", word);
}
