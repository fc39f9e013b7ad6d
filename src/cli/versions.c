// The versions of the program and its libraries, for bug reports.
#include "base/io.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/yaml.h"
#include "cli/commands.h"
#include "engine/engine_torch.h"
#include "text/normalize.h"
#include "text/regex.h"
#include "trace/trace.h"
#include "ui/term_curses.h"

#include <gnu/libc-version.h>
#include <unistd.h>

void ls_versions(ls_buf *out) {
    ls_engine_torch_facts torch;
    ls_err err;
    char regex[32];
    ls_buf_str(out, "logitspec " LS_VERSION "\n");
    if (ls_engine_torch_probe(&torch, &err)) ls_buf_fmt(out, "no compute library: %s\n", err.msg);
    else ls_buf_fmt(out, "%s, CPU kernels for %s\n", torch.version, torch.level);
    ls_regex_version(regex);
    ls_buf_fmt(out, "%s, libyaml %s, PCRE2 %s, utf8proc %s, OpenSSL %s, jansson %s, zstd %s, glibc %s\n",
               ui_curses_version(), ls_yaml_version(), regex, ls_normalize_version(), ls_sha256_version(),
               ls_json_version(), ls_zst_version(), gnu_get_libc_version());
#ifdef __clang__
    ls_buf_str(out, "built by clang " __clang_version__);
#else
    ls_buf_str(out, "built by gcc " __VERSION__);
#endif
    ls_buf_fmt(out, "; trace format version %d\n", LS_TRACE_VERSION);
    ls_wrap(out, 0, ls_columns(STDOUT_FILENO), 2);
}
