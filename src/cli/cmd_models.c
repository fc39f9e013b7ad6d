// `models`: lists, fetches, describes, verifies and removes models, and runs their chat templates.
#include "base/file.h"
#include "base/ggml.h"
#include "base/json.h"
#include "base/err.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/model_info.h"
#include "engine/load.h"
#include "gpu/plan.h"
#include "model/checkpoint.h"
#include "model/registry.h"
#include "text/chat.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *state_of(const ls_model_place *p) {
    return !p->here ? "absent" : *p->problem ? "broken" : p->n_files ? "here" : "unchecked";
}

static ls_short_text amount_of(int64_t n) {
    ls_short_text a = {"?"};
    if (n >= 1000000000) snprintf(a.s, sizeof a.s, "%.1f GB", (double)n / 1e9);
    else if (n >= 1000000) snprintf(a.s, sizeof a.s, "%.1f MB", (double)n / 1e6);
    else if (n >= 0) snprintf(a.s, sizeof a.s, "%" PRId64 " bytes", n);
    return a;
}

static const char *licence_of(const ls_registry_entry *e, const ls_model_place *p) {
    return e->licence ? e->licence : p->licence ? p->licence : "";
}

static void number_field(ls_jsonw *w, const char *key, int64_t n) { // negative: not known
    ls_jw_field_num(w, key, n < 0 ? NAN : (double)n, 15);
}

// The estimated size of a download if only the number of parameters is known: 16 bits each. Else -1.
static int64_t about_bytes(const ls_registry_entry *e, const ls_model_place *p) {
    return p->size < 0 && e->parameters && !e->n_files ? 2 * e->parameters : -1;
}

static void add_fields(ls_jsonw *w, const ls_registry_entry *e, const ls_model_place *p) {
    static const char *const from[] = {"pypi", "huggingface", "path", "folder"};
    ls_jw_field_str(w, "what", e->what);
    ls_jw_field_str(w, "licence", *licence_of(e, p) ? licence_of(e, p) : NULL);
    ls_jw_field_bool(w, "gated", e->gated);
    ls_jw_field_str(w, "from", from[e->from]);
    ls_jw_field_str(w, "repository", e->repository ? e->repository : p->repository);
    ls_jw_field_str(w, "revision", e->revision ? e->revision : p->revision);
    ls_jw_field_str(w, "commit", p->commit);
    number_field(w, "size", p->size);
    number_field(w, "about_bytes", about_bytes(e, p));
    number_field(w, "parameters", e->parameters ? e->parameters : -1);
    ls_jw_field_str(w, "state", state_of(p));
    ls_jw_field_str(w, "problem", *p->problem ? p->problem : NULL);
    ls_jw_field_str(w, "path", p->path);
}

static void list_json(ls_registry *r, ls_buf *out) {
    ls_jsonw w = ls_jw_begin(out);
    char *folder = ls_models_folder();
    ls_jw_field_str(&w, "folder", folder);
    ls_jw_field_open(&w, "models", '[');
    for (size_t i = 0; i < r->n; i++) {
        const ls_registry_entry *e = ls_registry_get(r, r->entries[i]->name);
        ls_model_place p;
        ls_model_place_find(&p, e);
        ls_jw_open(&w, '{');
        ls_jw_field_str(&w, "name", r->entries[i]->name);
        ls_jw_field_str(&w, "alias", r->entries[i]->alias);
        add_fields(&w, e, &p);
        ls_jw_close(&w, '}');
        ls_model_place_free(&p);
    }
    ls_jw_close(&w, ']');
    ls_jw_end(&w);
    free(folder);
}

static void list_text(ls_registry *r, ls_buf *out) {
    char *folder = ls_models_folder();
    ls_buf_fmt(out, "%-26s %9s  %-9s %-27s %s\n", "name", "size", "", "licence", "what");
    for (size_t i = 0; i < r->n; i++) {
        const ls_registry_entry *e = r->entries[i];
        ls_model_place p;
        if (e->alias) {
            ls_sanitize_row(out, "%-26s %9s  %-9s %-27s = %s", e->name, "", "", "", e->alias);
            continue;
        }
        ls_model_place_find(&p, e);
        const int64_t about = about_bytes(e, &p);
        ls_short_text size = p.size >= 0 ? amount_of(p.size) : (ls_short_text){""};
        if (about >= 0) snprintf(size.s, sizeof size.s, "~%.30s", amount_of(about).s);
        ls_sanitize_row(out, "%-26s %9s  %-9s %-27s %s", e->name, size.s,
                        p.here     ? state_of(&p)
                        : e->gated ? "gated"
                                   : "",
                        licence_of(e, &p),
                        e->what        ? e->what
                        : p.repository ? p.repository
                                       : "");
        ls_model_place_free(&p);
    }
    const size_t rows = ls_wrap(out, 0, ls_columns(STDOUT_FILENO), 76);
    ls_buf_fmt(out,
               "\n'logitspec models fetch NAME' fetches a model into %s.\n~: estimated, two bytes per parameter; fetch "
               "prints the size first. 'gated': first accept the licence on the model's page and set HF_TOKEN.\n",
               folder ? folder : "(no HOME)");
    ls_wrap(out, rows, ls_columns(STDOUT_FILENO), 0);
    free(folder);
}

// In Markdown, which models/README.md has.
static void list_architectures(ls_buf *out) {
    ls_buf_str(out, "| models | `model_type` | GGUF | beside Llama's layer |\n|---|---|---|---|\n");
    for (const ls_arch *a = ls_archs; a->gguf; a++) {
        ls_buf differs = {0};
        ls_arch_differs(a, &differs);
        ls_buf_fmt(out, "| %s | %s%s%s | %s | %s |\n", a->models, a->hf, a->wrapper ? ", " : "",
                   a->wrapper ? a->wrapper : "", a->gguf, differs.n ? differs.p : "");
        ls_buf_free(&differs);
    }
}

// Bits of a weight in memory.
static void bits_of(ls_buf *out, int type) {
    const ls_ggml_layout *l = ls_ggml_layout_of(type);
    ls_buf_fmt(out, " | %.4g | %.4g | %.4g", l->kept_integers * 8 / 256.0, l->kept * 8 / 32.0,
               (double)lsg_tile_bytes(lsg_format_of(type)) * 8 / (LSG_TILE * LSG_GROUP));
}

static void list_formats(ls_buf *out) {
    static const int types[] = {
#define NUMBER(name, ...) LS_GGML_##name,
        LS_GGML_TYPES(NUMBER)
#undef NUMBER
    };
    ls_buf_str(out,
               "| format | files | kept as | bits: CPU, i8 | CPU, f32 | GPU | lost |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const char *name = ls_ggml_type_name(types[i]);
        const bool plain = ls_ggml_layout_of(types[i])->values == 1;
        ls_buf_fmt(out, "| %s | GGUF%s | %s", name, plain ? ", safetensors" : "", name);
        bits_of(out, types[i]);
        ls_buf_str(out, " |  |\n");
    }
    for (const ls_quant_format *f = ls_quant_formats; f->name; f++) {
        ls_buf_fmt(out, "| %s | safetensors: %s | %s", f->name, f->writers, ls_ggml_type_name(f->type));
        bits_of(out, f->type);
        ls_buf_fmt(out, " | %s |\n", f->loss);
    }
}

// Finds a name of the registry, hf:OWNER/REPO, or a folder with a lock file, and where it is on this machine: free *p
// after LS_OK.
static ls_code find(const ls_registry_entry **out, ls_model_place *p, ls_registry *r, const char *name, ls_err *err) {
    *out = ls_registry_find(r, name);
    if (*out) return ls_model_place_find(p, *out), LS_OK;
    if (!strncmp(name, "hf:", 3))
        return ls_fail(err, LS_E_USAGE, "'%.200s': hf:OWNER/REPO[@REVISION] is expected", name);
    return ls_model_unknown(r, name, LS_E_USAGE, err);
}

// The answer to a question on the terminal. LS_E_CANCELLED: no, and the message is `otherwise`; LS_E_USAGE: there is no
// terminal.
static ls_code confirm(ls_buf *question, const char *otherwise, ls_err *err) {
    char answer[16] = "";
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return ls_fail(err, LS_E_USAGE, "no terminal to ask: %s? To answer yes, add --yes", question->p);
    ls_buf_str(question, "? [y/N] ");
    ls_wrap(question, 0, ls_columns(STDERR_FILENO), 2);
    fputs(question->p, stderr);
    if (!fgets(answer, sizeof answer, stdin) || (*answer != 'y' && *answer != 'Y'))
        return ls_fail(err, LS_E_CANCELLED, "%s", otherwise);
    return LS_OK;
}

// Terms are shown even if they are accepted by --yes.
static ls_code accept_terms(const ls_registry_entry *e, bool yes, ls_err *err) {
    ls_buf question = {0};
    if (!e->terms) return LS_OK;
    if (yes) ls_say(0, "%s: you accept the %s (%s)", e->name, e->licence, e->terms);
    ls_sanitize_fmt(&question, "the %s apply to %s (%s); accept them", e->licence, e->name, e->terms);
    const ls_code code = yes ? LS_OK : confirm(&question, "the terms were not accepted; nothing was fetched", err);
    ls_buf_free(&question);
    return code;
}

static ls_code fetch(ls_registry *r, const char *name, bool offline, bool yes, ls_err *err) {
    const ls_registry_entry *e;
    ls_model_place p;
    ls_code code = find(&e, &p, r, name, err);
    if (code) return code;
    char *script = ls_data_path("models/fetch");
    ls_buf json = {0};
    ls_registry_json(e, &json);
    char *installed[] = {"default", p.path, NULL}, *into_folder[] = {"model", json.p, p.folder, NULL};
    char *arguments[8] = {"python3", script};
    int n = 2;
    if (offline) arguments[n++] = "--offline";
    for (char **a = p.installed ? installed : into_folder; *a; a++) arguments[n++] = *a;
    if (e->from == LS_FROM_FOLDER && !p.repository && *p.problem)
        code = ls_fail(err, LS_E_IO, "%s", p.problem); // its lock cannot be read
    else if (e->from == LS_FROM_PATH || (e->from == LS_FROM_FOLDER && !p.repository))
        code = ls_fail(err, LS_E_USAGE, "'%s' is a local path (%s) and cannot be fetched", name, e->path);
    else if (e->from == LS_FROM_FOLDER)
        code = ls_fail(err, LS_E_USAGE, "'%s' is not in the registry: fetch it as hf:%s@%s", name, p.repository,
                       p.revision ? p.revision : "main");
    else if (!p.folder || !*p.folder)
        code = ls_fail(err, LS_E_IO, "no folder for models: set HOME or LOGITSPEC_MODELS");
    else if (access(script, R_OK)) code = ls_fail(err, LS_E_IO, "%s: %s", script, strerror(errno));
    else if (!(p.here && !*p.problem)) code = accept_terms(e, yes, err);
    if (!code)
        code = ls_run_program(arguments, "'models fetch' needs this program (Debian: apt-get install python3)", err);
    if (!code && p.installed) code = ls_registry_ready(name, err); // fetch may have found an existing file
    if (!code) ls_say(LS_COMMANDS, "use it: logitspec --model %s", name);
    ls_buf_free(&json);
    free(script);
    ls_model_place_free(&p);
    return code;
}

static void info_text(const ls_registry_entry *e, const ls_model_place *p, ls_buf *out) {
    ls_sanitize_row(out, "%-13s %s", "name", e->name);
    if (e->what) ls_sanitize_row(out, "%-13s %s", "what", e->what);
    if (*licence_of(e, p))
        ls_sanitize_row(out, "%-13s %s%s%s%s", "licence", licence_of(e, p), e->gated ? " (gated)" : "",
                        e->terms ? ", " : "", e->terms ? e->terms : "");
    const bool pieces = e->from == LS_FROM_PYPI && strchr(e->member, ' '); // their names say nothing more
    if (e->from == LS_FROM_PYPI)
        ls_sanitize_row(out, "%-13s PyPI: %s%s%s", "from", e->requirement, pieces ? "" : ", ", pieces ? "" : e->member);
    else if (e->repository || p->repository)
        ls_sanitize_row(out, "%-13s Hugging Face: %s at %s", "from", e->repository ? e->repository : p->repository,
                        p->commit     ? p->commit
                        : e->revision ? e->revision
                                      : "?");
    ls_sanitize_row(out, "%-13s %s (%s)", "path", p->path, state_of(p));
    if (p->fetched) ls_sanitize_row(out, "%-13s %s", "fetched", p->fetched);
    if (*p->problem) ls_sanitize_row(out, "%-13s %s", "problem", p->problem);
    if (!p->n_files && e->from == LS_FROM_HUGGINGFACE)
        ls_sanitize_row(out, "%-13s %s", "files", "listed and pinned when the model is fetched");
    for (size_t i = 0; i < p->n_files; i++) {
        ls_sanitize_row(out, "%-13s %s, %s, sha256 %s%s", i ? "" : "files", p->files[i].name,
                        amount_of(p->files[i].size).s, p->files[i].sha256,
                        !p->files[i].mtime_ns ? ""
                        : *p->problem         ? ""
                                              : ", verified");
    }
}

static ls_code info(ls_registry *r, const char *name, const ls_command_line *c, ls_buf *out, ls_err *err) {
    const char *devices = c->options.devices, *card = c->device_model;
    const ls_registry_entry *e;
    ls_model_place p = {0};
    ls_err why = {0};
    ls_buf about = {0};
    const bool plain = find(&e, &p, r, name, err) != LS_OK;
    if (plain && access(name, F_OK))
        return errno == ENOENT ? LS_E_USAGE : ls_fail(err, LS_E_IO, "%.200s: %s", name, strerror(errno));
    const char *path = plain ? name : p.path;
    const bool here = plain || (p.here && !p.misfit);
    const ls_code code = here ? ls_model_describe(path, devices, card, &about, c->json, &why) : LS_OK;
    if (c->json) {
        ls_jsonw w = ls_jw_begin(out);
        ls_jw_field_str(&w, "name", plain ? NULL : e->name);
        if (plain) ls_jw_field_str(&w, "path", path);
        else add_fields(&w, e, &p);
        ls_jw_field_open(&w, "files", '[');
        for (size_t i = 0; i < p.n_files; i++) {
            ls_jw_open(&w, '{');
            ls_jw_field_str(&w, "name", p.files[i].name);
            ls_jw_field_int(&w, "size", p.files[i].size);
            ls_jw_field_str(&w, "sha256", p.files[i].sha256);
            ls_jw_close(&w, '}');
        }
        ls_jw_close(&w, ']');
        ls_jw_key(&w, "model");
        ls_buf_str(out, about.n && !code ? about.p : "null");
        w.comma = true;
        ls_jw_end(&w);
    } else {
        if (!plain) info_text(e, &p, out);
        if (code) ls_sanitize_row(out, "%-13s %s", "model", why.msg);
        else if (about.n) ls_buf_add(out, about.p, about.n);
        ls_wrap(out, 0, ls_columns(STDOUT_FILENO), 14);
    }
    ls_buf_free(&about);
    ls_model_place_free(&p);
    // for a registered model, a missing description of its files is no error
    if (!code || !(plain || card || (devices && *devices))) return LS_OK;
    *err = why;
    return code;
}

static void differs(void *name, const char *line) {
    ls_say(0, "%s: %s", (const char *)name, line);
}

static ls_code verify_one(ls_registry *r, const char *name, bool asked, ls_console *to, ls_err *err) {
    const ls_registry_entry *e;
    ls_model_place p;
    size_t bad = 0;
    ls_code code = find(&e, &p, r, name, err);
    if (code) return code;
    const char *problem = !p.here               ? "not fetched"
                          : p.misfit            ? p.problem
                          : !p.n_files && asked ? "no lock file to compare with"
                                                : NULL;
    if (problem && (p.here || asked)) differs((char *)name, problem), bad = 1;
    else if (p.here && p.n_files) {
        code = ls_model_verify(&p, &bad, &(ls_model_verify_options){ls_gauge_show, differs, (char *)name}, err);
        if (!code && !bad)
            ls_say(0, "%s: %zu file%s, %s: verified", name, p.n_files, ls_plural(p.n_files), amount_of(p.size).s);
    }
    if (bad) to->status = LS_EXIT_FAILED;
    ls_model_place_free(&p);
    return code;
}

static ls_code verify(ls_registry *r, const char *const *names, int n, ls_console *to, ls_err *err) {
    ls_code code = LS_OK;
    for (int i = 0; i < n && !code; i++) code = verify_one(r, names[i], true, to, err);
    for (size_t i = 0; !n && i < r->n && !code; i++)
        if (!r->entries[i]->alias) code = verify_one(r, r->entries[i]->name, false, to, err);
    return code;
}

static int remove_path(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

// Whether it is a real folder directly in the models folder, not a link: only such a folder may be removed.
static bool is_ours(const char *folder) {
    char *models = ls_models_folder(), *real = ls_real_path(folder), *parent = models ? ls_real_path(models) : NULL;
    char *slash = real ? strrchr(real, '/') : NULL;
    struct stat st;
    const bool ours = slash && parent && !lstat(folder, &st) && S_ISDIR(st.st_mode) &&
                      strlen(parent) == (size_t)(slash - real) && !strncmp(parent, real, strlen(parent));
    free(models);
    free(real);
    free(parent);
    return ours;
}

static ls_code remove_model(ls_registry *r, const char *name, bool yes, ls_err *err) {
    const ls_registry_entry *e;
    ls_model_place p;
    ls_code code = find(&e, &p, r, name, err);
    if (code) return code;
    const char *what = p.installed ? p.path : p.folder;
    struct stat st;
    if (!p.here && lstat(what, &st)) code = ls_fail(err, LS_E_IO, "'%s' is not on this machine (%s)", name, what);
    else if (e->from == LS_FROM_PATH || (!p.installed && !is_ours(p.folder)))
        code = ls_fail(err, LS_E_IO, "%s is outside the models folder and was not removed",
                       e->from == LS_FROM_PATH ? p.path : what);
    else if (!yes) {
        ls_buf question = {0};
        ls_sanitize_fmt(&question, "remove %s (%s)", what, amount_of(p.size).s);
        code = confirm(&question, "nothing was removed", err);
        ls_buf_free(&question);
    }
    if (code) {
    } else if (p.installed ? unlink(what) : nftw(what, remove_path, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT))
        code = ls_fail(err, LS_E_IO, "%s: %s", what, strerror(errno));
    else {
        const bool folder = e->from == LS_FROM_FOLDER;
        const char *again = folder ? p.repository : name;
        const char *setup = p.installed ? "'make setup' or " : "";
        if (again)
            ls_say(0, "removed %s; %s'logitspec models fetch %s%s' fetches it again", what, setup, folder ? "hf:" : "",
                   again);
        else ls_say(0, "removed %s", what);
    }
    ls_model_place_free(&p);
    return code;
}

enum { MOST_BYTES = 64 << 20 };

static ls_code read_file(const char *path, ls_buf *out, ls_err *err) {
    return strcmp(path, "-") ? ls_read_any(out, path, MOST_BYTES, NULL, err)
                             : ls_read_all(out, stdin, path, MOST_BYTES, err);
}

static ls_code template_at(const char *path, const char *name, ls_buf *out, ls_json **names, ls_err *err) {
    struct stat st;
    ls_checkpoint *c;
    ls_code code = stat(path, &st) ? ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno)) : LS_OK;
    char magic[4] = "";
    FILE *f = code || S_ISDIR(st.st_mode) ? NULL : fopen(path, "re");
    if (f) {
        const size_t n = fread(magic, 1, sizeof magic, f);
        fclose(f);
        if (n < sizeof magic || memcmp(magic, "GGUF", n)) return read_file(path, out, err);
    }
    if (!code) code = ls_checkpoint_open(&c, path, err);
    if (code) return code;
    ls_buf variables = {0};
    code = ls_load_template(c, name, out, &variables, err);
    if (!code && variables.n) code = ls_json_parse(names, variables.p, variables.n, path, err);
    ls_buf_free(&variables);
    ls_checkpoint_close(c);
    return !code && !out->n ? ls_fail(err, LS_E_USAGE, "%s has no chat template", path) : code;
}

static void add_marked(const ls_marked *text, ls_buf *out) {
    bool inside = false;
    for (size_t i = 0; i <= text->text.n; i++) {
        const bool marked = i < text->text.n && text->marks.p[i];
        if (marked != inside) ls_buf_str(out, marked ? "\u27e6" : "\u27e7");
        inside = marked;
        if (i < text->text.n) ls_buf_char(out, text->text.p[i]);
    }
}

// Renders a conversation with a chat template, without a model. path: a Jinja file, or a checkpoint, whose template is
// chosen by name (--template; see ls_load_template). --messages: a JSON file ("-": standard input), whose keys are the
// template's variables. --marks: puts U+27E6 and U+27E7 around text from the conversation. Appends the text.
static ls_code run_template(const char *path, const ls_command_line *c, ls_buf *out, ls_err *err) {
    const char *messages = c->messages;
    ls_buf text = {0}, given = {0};
    ls_jinja *t = NULL;
    ls_json *variables = NULL, *names = NULL;
    ls_marked written = {0};
    ls_jinja_context context = {.now = LS_CHAT_DAY};
    ls_code code = messages ? LS_OK : ls_fail(err, LS_E_USAGE, "--messages FILE.json, the conversation, is required");
    if (!code) code = template_at(path, c->options.chat_template, &text, &names, err);
    if (!code) code = read_file(messages, &given, err);
    if (!code) code = ls_json_parse(&variables, given.p ? given.p : "", given.n, messages, err);
    if (!code && !ls_json_is_object(variables))
        code = ls_fail(err, LS_E_USAGE, "%s: an object with \"messages\" is expected", messages);
    context.variables = variables;
    context.names = names;
    if (!code) ls_json_int(ls_json_get(variables, "now"), &context.now);
    if (!code && ((code = ls_jinja_parse(&t, text.p ? text.p : "", text.n, err)) ||
                  (code = ls_jinja_render(t, &context, &written, err))))
        ls_err_prefix(err, "%s", path);
    if (!code && c->marks) add_marked(&written, out);
    else if (!code && written.text.n) ls_buf_add(out, written.text.p, written.text.n);
    ls_marked_free(&written);
    ls_json_free(variables);
    ls_json_free(names);
    ls_jinja_free(t);
    ls_buf_free(&text);
    ls_buf_free(&given);
    return code;
}

static ls_code template(ls_registry *r, const char *name, const ls_command_line *c, ls_buf *out, ls_err *err) {
    const ls_registry_entry *e;
    ls_model_place p = {0};
    const bool plain = !access(name, F_OK);
    ls_code code = plain ? LS_OK : find(&e, &p, r, name, err);
    if (code) return code;
    if (!plain && !p.here)
        code = ls_fail(err, LS_E_USAGE, "%s is not on this machine: run 'logitspec models fetch %s'", e->name, e->name);
    if (!code) code = run_template(plain ? name : p.path, c, out, err);
    ls_model_place_free(&p);
    return code;
}

ls_code ls_cmd_models(const ls_command_line *c, ls_console *to, ls_err *err) {
    const char *verb = c->n_args ? c->args[0] : "list";
    const int n = c->n_args > 0 ? c->n_args - 1 : 0;
    const char *const *names = c->args + 1;
    ls_registry r = {0};
    ls_buf *out = &to->out;
    ls_code code = ls_registry_read(&r, err);
    if (code) {
    } else if (!strcmp(verb, "list") && !n && c->architectures) list_architectures(out);
    else if (!strcmp(verb, "list") && !n && c->formats) list_formats(out);
    else if (!strcmp(verb, "list") && !n) (c->json ? list_json : list_text)(&r, out);
    else if (!strcmp(verb, "fetch") && n == 1) code = fetch(&r, names[0], c->options.offline, c->yes, err);
    else if (!strcmp(verb, "info") && n == 1) code = info(&r, names[0], c, out, err);
    else if (!strcmp(verb, "verify")) {
        ls_catch_signals();
        code = verify(&r, names, n, to, err);
    } else if (!strcmp(verb, "remove") && n == 1) code = remove_model(&r, names[0], c->yes, err);
    else if (!strcmp(verb, "template") && n == 1) code = template(&r, names[0], c, out, err);
    else
        code = ls_fail(err, LS_E_USAGE,
                       "usage: logitspec models list, fetch NAME, info NAME|PATH, verify [NAME...], remove NAME or "
                       "template NAME|PATH|FILE");
    ls_registry_free(&r);
    return code;
}
