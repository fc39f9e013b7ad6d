// What is written: files that are replaced at once or not at all, devices and FIFOs that are written as they are,
// recordings that nobody reads, prompts that several screens keep in one file.
#include "base/system.h"
#include "base/file.h"
#include "base/io.h"
#include "base/mem.h"
#include "ui/edit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

// ---- a system that fails on demand: these stand before libc's

static bool no_nameless;                 // open: as a file system without O_TMPFILE
static int write_error, sync_error;      // 0: none
static volatile bool write_hangs, freed; // write comes back when freed

int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    if (no_nameless && (flags & O_TMPFILE) == O_TMPFILE) return errno = EOPNOTSUPP, -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *p, size_t n) {
    while (write_hangs && !freed) usleep(1000);
    if (write_error && fd > 2) return errno = write_error, -1;
    return syscall(SYS_write, fd, p, n);
}

int fsync(int fd) {
    if (sync_error) return errno = sync_error, -1;
    return (int)syscall(SYS_fsync, fd);
}

// ---- a folder of its own for each test

static char folder[] = "/tmp/logitspec-outputs-XXXXXX", path[64], other[64];

static int begin(void **state) {
    (void)state;
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    no_nameless = write_hangs = freed = false;
    write_error = sync_error = 0;
    umask(022);
    return 0;
}

static int finish(void **state) {
    (void)state;
    char *command = ls_format("rm -r %s", folder);
    const int failed = system(command);
    free(command);
    return failed;
}

static int entries(void) {
    DIR *d = opendir(folder);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

static void put(const char *name, const char *text, mode_t mode) {
    FILE *f = fopen(name, "w");
    assert_true(f && fputs(text, f) >= 0 && !fclose(f));
    assert_int_equal(chmod(name, mode), 0);
}

static void holds(const char *name, const char *text) {
    ls_buf b = {0};
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    assert_int_equal(ls_read_all(&b, f, name, 1 << 30, NULL), LS_OK);
    fclose(f);
    assert_string_equal(b.n ? b.p : "", text);
    ls_buf_free(&b);
}

static mode_t mode_of(const char *name) {
    struct stat st;
    assert_int_equal(lstat(name, &st), 0);
    return st.st_mode;
}

static ls_code replace(const char *name, const char *text, ls_err *err) {
    return ls_write_file(name, &(ls_buf){.p = (char *)text, .n = strlen(text)}, err);
}

static ls_code replace_private(const char *name, const char *text) {
    return ls_write_private(name, &(ls_buf){.p = (char *)text, .n = strlen(text)}, NULL);
}

// ---- files

static void a_file_that_is_replaced_keeps_its_mode(void **state) {
    (void)state;
    for (int named = 0; named < 2; named++) {
        no_nameless = named;
        assert_int_equal(replace(path, "one", NULL), LS_OK);
        assert_int_equal(mode_of(path), S_IFREG | 0644);
        assert_int_equal(chmod(path, 0600), 0);
        assert_int_equal(replace(path, "two", NULL), LS_OK);
        assert_int_equal(mode_of(path), S_IFREG | 0600);
        assert_int_equal(chmod(path, 0666), 0); // wider than the umask: it was meant so
        assert_int_equal(replace_private(path, "three"), LS_OK);
        assert_int_equal(mode_of(path), S_IFREG | 0666);
        holds(path, "three");
        unlink(path);
        assert_int_equal(replace_private(path, "four"), LS_OK);
        assert_int_equal(mode_of(path), S_IFREG | 0600);
        assert_int_equal(entries(), 1);
        unlink(path);
    }
    if (geteuid()) {
        print_message("needs:root: the owner of a file that root replaces\n");
        return;
    }
    struct stat st;
    put(path, "old", 0640);
    assert_int_equal(chown(path, 1234, 4321), 0);
    assert_int_equal(replace(path, "new", NULL), LS_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_uid == 1234 && st.st_gid == 4321 && st.st_mode == (S_IFREG | 0640));
}

static void links_are_followed(void **state) {
    (void)state;
    char to[64] = "";
    put(other, "old", 0640);
    assert_int_equal(symlink("other", path), 0); // relative: from where the link is
    assert_int_equal(replace(path, "new", NULL), LS_OK);
    assert_int_equal(readlink(path, to, sizeof to), 5);
    holds(other, "new");
    assert_int_equal(mode_of(other), S_IFREG | 0640);
    unlink(other); // now it leads nowhere
    assert_int_equal(replace(path, "again", NULL), LS_OK);
    assert_true(S_ISLNK(mode_of(path)));
    holds(other, "again");
    unlink(other);
    assert_int_equal(symlink("file", other), 0); // in a circle
    ls_err err;
    assert_int_equal(replace(path, "x", &err), LS_E_IO);
    assert_non_null(strstr(err.msg, "cannot write "));
    assert_int_equal(entries(), 2);
}

static void a_failed_write_changes_nothing(void **state) {
    (void)state;
    static const struct {
        int write, sync;
        const char *words;
    } faults[] = {{ENOSPC, 0, "the disk is full"},
                  {EDQUOT, 0, "the disk quota of this user is used up"},
                  {EFBIG, 0, "the file would exceed the size limit of this process (ulimit -f)"},
                  {0, EIO, "Input/output error"},
                  {0, ENOSPC, "the disk is full"}};
    put(path, "old", 0644);
    for (int named = 0; named < 2; named++)
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
            ls_err err = {0};
            no_nameless = named;
            write_error = faults[i].write;
            sync_error = faults[i].sync;
            const ls_code code = replace(path, "new", &err), absent = replace(other, "new", NULL);
            write_error = sync_error = 0;
            assert_int_equal(code, LS_E_IO);
            assert_int_equal(absent, LS_E_IO);
            char *said = ls_format("cannot write %s: %s", path, faults[i].words);
            assert_string_equal(err.msg, said);
            free(said);
            holds(path, "old");
            assert_int_equal(entries(), 1);
        }
}

static void a_limit_on_the_size_of_files_is_an_error(void **state) {
    (void)state;
    struct rlimit before, few = {4096, RLIM_INFINITY};
    ls_err err = {0};
    ls_buf big = {0};
    for (int i = 0; i < 1000; i++) ls_buf_str(&big, "123456789\n");
    put(path, "old", 0644);
    signal(SIGXFSZ, SIG_IGN); // as the program does
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    few.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    const ls_code code = ls_write_file(path, &big, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    ls_buf_free(&big);
    assert_int_equal(code, LS_E_IO);
    assert_non_null(strstr(err.msg, "(ulimit -f)"));
    holds(path, "old");
    assert_int_equal(entries(), 1);
}

static void a_replacement_that_is_not_wanted_leaves_nothing(void **state) {
    (void)state;
    for (int named = 0; named < 2; named++) {
        ls_atomic_file r;
        no_nameless = named;
        put(path, "old", 0644);
        assert_int_equal(ls_atomic_open(&r, path, LS_FILE_SHARED, NULL), LS_OK);
        fputs("half", r.f);
        holds(path, "old");
        assert_int_equal(ls_atomic_close(&r, false, NULL), LS_OK);
        holds(path, "old");
        assert_int_equal(entries(), 1);
    }
}

static void nobody_can_foresee_where_it_is_written(void **state) {
    (void)state;
    put(other, "precious", 0644);
    char *planted = ls_format("%s.part%d", path, (int)getpid());
    assert_int_equal(symlink(other, planted), 0);
    for (int named = 0; named < 2; named++) {
        no_nameless = named;
        assert_int_equal(replace(path, "new", NULL), LS_OK);
        holds(path, "new");
        holds(other, "precious");
        assert_true(S_ISLNK(mode_of(planted)));
    }
    free(planted);
}

static void *read_all(void *ud) {
    ls_buf *b = ud;
    FILE *f = fopen(path, "r");
    if (f) ls_read_all(b, f, path, 1 << 30, NULL), fclose(f);
    return NULL;
}

static void what_is_no_file_is_written_in_place(void **state) {
    (void)state;
    pthread_t reader;
    ls_buf got = {0}, sent = {0};
    ls_err err;
    for (int i = 0; i < 30000; i++) ls_buf_fmt(&sent, "line %d\n", i); // more than a FIFO holds
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(symlink("file", other), 0); // through a link too
    assert_int_equal(pthread_create(&reader, NULL, read_all, &got), 0);
    assert_int_equal(ls_write_file(other, &sent, &err), LS_OK);
    pthread_join(reader, NULL);
    assert_int_equal(got.n, sent.n);
    assert_memory_equal(got.p, sent.p, sent.n);
    assert_true(S_ISFIFO(mode_of(path)));
    assert_true(S_ISLNK(mode_of(other)));
    ls_buf_free(&got);
    ls_buf_free(&sent);
    unlink(other);
    assert_int_equal(symlink("/dev/full", other), 0);
    assert_int_equal(replace(other, "x", &err), LS_E_IO);
    assert_non_null(strstr(err.msg, "the disk is full"));
    assert_true(S_ISLNK(mode_of(other)));
    assert_int_equal(replace(folder, "x", &err), LS_E_IO);
    assert_int_equal(entries(), 2);
}

static void one_file_has_many_names(void **state) {
    (void)state;
    char third[80];
    snprintf(third, sizeof third, "%s/../%s/third", folder, strrchr(folder, '/') + 1);
    put(path, "x", 0644);
    put(other, "x", 0644);
    assert_int_equal(link(path, third), 0);
    assert_true(ls_is_same_file(path, third));
    assert_false(ls_is_same_file(path, other));
    assert_false(ls_is_same_file(path, "/nonexistent"));
    assert_false(ls_is_same_file("/nonexistent", "/nonexistent"));
}

// ---- recordings

static void a_file_is_recorded_by_one(void **state) {
    (void)state;
    ls_sink *s, *second;
    ls_err err;
    uint64_t dropped;
    assert_int_equal(ls_sink_open(&s, path, NULL, NULL, &err), LS_OK);
    assert_int_equal(mode_of(path), S_IFREG | 0600); // it holds prompts
    assert_int_equal(ls_sink_open(&second, path, NULL, NULL, &err), LS_E_IO);
    assert_null(second);
    assert_non_null(strstr(err.msg, "another run records into it: name another file"));
    assert_int_equal(replace(path, "x", &err), LS_E_IO); // nor does anything else take its place
    assert_non_null(strstr(err.msg, "records into it"));
    ls_sink_put(s, "kept", 4);
    assert_int_equal(ls_sink_close(s, &dropped), 0);
    holds(path, "kept");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(ls_sink_open(&s, path, NULL, NULL, &err), LS_OK); // nobody has it now
    ls_sink_put(s, "new", 3);
    assert_int_equal(ls_sink_close(s, &dropped), 0);
    holds(path, "new");
    assert_int_equal(mode_of(path), S_IFREG | 0644);
}

static bool hurried(void *ud, const char *stage, double fraction) {
    (void)fraction;
    assert_true(*stage);
    return ++*(int *)ud < 3;
}

static void a_recording_that_nobody_reads_ends(void **state) {
    (void)state;
    ls_sink *s;
    ls_err err;
    uint64_t dropped;
    int asked = 0;
    char *block = ls_calloc(1, 1 << 20);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(ls_sink_open(&s, path, hurried, &asked, &err), LS_E_CANCELLED); // there is no reader
    assert_int_equal(asked, 3);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    asked = 0;
    assert_int_equal(ls_sink_open(&s, path, hurried, &asked, &err), LS_OK);
    // twice what it keeps, for its thread may take the first half at once: here it waits, and gives up
    for (int i = 0; i < 140; i++) ls_sink_put(s, block, 1 << 20);
    assert_int_equal(ls_sink_error(s), ETIMEDOUT);
    assert_true(asked >= 3);
    assert_int_equal(ls_sink_close(s, &dropped), ETIMEDOUT);
    uint64_t got = 0;
    for (ssize_t n; (n = read(reader, block, 1 << 20)) > 0;) got += (uint64_t)n;
    close(reader);
    assert_true(got > 0);
    assert_int_equal(got + dropped, (uint64_t)140 << 20); // not a byte is unaccounted for
    free(block);
}

static void *read_slowly(void *ud) {
    uint64_t *got = ud;
    char block[4096];
    const int fd = open(path, O_RDONLY);
    for (ssize_t n; (n = read(fd, block, sizeof block)) > 0; usleep(2000)) *got += (uint64_t)n;
    close(fd);
    return NULL;
}

static void who_reads_slowly_gets_everything(void **state) {
    (void)state;
    ls_sink *s;
    ls_err err;
    pthread_t reader;
    uint64_t got = 0, dropped;
    char *block = ls_calloc(1, 1 << 20);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_slowly, &got), 0);
    assert_int_equal(ls_sink_open(&s, path, NULL, NULL, &err), LS_OK);
    for (int i = 0; i < 3; i++) ls_sink_put(s, block, 1 << 20);
    assert_int_equal(ls_sink_close(s, &dropped), 0);
    pthread_join(reader, NULL);
    assert_int_equal(dropped, 0);
    assert_int_equal(got, 3 << 20);
    free(block);
}

static bool at_once(void *ud, const char *stage, double fraction) {
    (void)ud, (void)stage, (void)fraction;
    return false;
}

// A terminal that was stopped: the write itself does not come back.
static void a_write_that_hangs_holds_nobody(void **state) {
    (void)state;
    ls_sink *s;
    ls_err err;
    uint64_t dropped;
    const uint64_t start = ls_now_ns();
    assert_int_equal(ls_sink_open(&s, "/dev/null", at_once, NULL, &err), LS_OK);
    write_hangs = true;
    ls_sink_put(s, "lost", 4);
    assert_int_equal(ls_sink_close(s, &dropped), ETIMEDOUT);
    assert_int_equal(dropped, 4);
    assert_true(ls_now_ns() - start < 9000000000ull); // before it would give up by itself
    freed = true;                                     // the thread cleans up behind itself
}

// ---- prompts

static void type(ui_edit *e, const char *text) {
    ui_edit_insert(e, text, strlen(text));
    free(ui_edit_take(e));
}

static void two_screens_keep_their_prompts(void **state) {
    (void)state;
    ui_edit a = {0}, b = {0}, again = {0};
    ls_err err;
    snprintf(path, sizeof path, "%s/state/history", folder); // in a folder that is made
    ui_history_load(&a, path);
    ui_history_load(&b, path);
    type(&a, "first of a");
    assert_int_equal(ui_history_add(&a, path, &err), LS_OK);
    type(&b, "first of b");
    assert_int_equal(ui_history_add(&b, path, &err), LS_OK);
    assert_int_equal(ui_history_add(&b, path, &err), LS_OK); // it is there already
    type(&a, "second of a");
    assert_int_equal(ui_history_add(&a, path, &err), LS_OK);
    holds(path, "[\"first of a\"]\n[\"first of b\"]\n[\"second of a\"]\n");
    assert_int_equal(mode_of(path), S_IFREG | 0600);
    FILE *f = fopen(path, "a");
    assert_true(f && fputs("[\"torn", f) >= 0 && !fclose(f));
    type(&b, "after what was torn");
    assert_int_equal(ui_history_add(&b, path, &err), LS_OK);
    ui_history_load(&again, path);
    assert_int_equal(again.n_history, 4);
    assert_string_equal(again.history[3], "after what was torn");
    type(&b, "lost");
    write_error = ENOSPC;
    const ls_code code = ui_history_add(&b, path, &err);
    write_error = 0;
    assert_int_equal(code, LS_E_IO);
    assert_non_null(strstr(err.msg, "prompts are not saved"));
    assert_non_null(strstr(err.msg, "the disk is full"));
    ui_edit_free(&a);
    ui_edit_free(&b);
    ui_edit_free(&again);
}

// Several screens add at once while others begin, which cuts the file.
static void prompts_survive_many_screens(void **state) {
    (void)state;
    enum { SCREENS = 4, PROMPTS = 60, OLD = 3000 };
    ls_buf old = {0};
    for (int i = 0; i < OLD; i++) ls_buf_fmt(&old, "[\"old %d\"]\n", i);
    put(path, old.p, 0640);
    ls_buf_free(&old);
    for (int s = 0; s < SCREENS; s++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child) continue;
        ui_edit e = {0};
        char text[40];
        bool ok = true;
        for (int i = 0; i < PROMPTS && ok; i++) {
            ui_edit fresh = {0};
            if (i % 10 == 0) ui_history_load(&fresh, path); // as a screen that begins
            ui_edit_free(&fresh);
            snprintf(text, sizeof text, "screen %d prompt %d", s, i);
            type(&e, text);
            ok = !ui_history_add(&e, path, NULL);
        }
        _exit(!ok);
    }
    for (int s = 0, status; s < SCREENS; s++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    ui_edit all = {0};
    ui_history_load(&all, path);
    int found[SCREENS] = {0}, newest = 0;
    for (size_t i = 0; i < all.n_history; i++) {
        int s, n;
        if (sscanf(all.history[i], "old %d", &n) == 1) newest = n;
        else if (sscanf(all.history[i], "screen %d prompt %d", &s, &n) == 2) assert_int_equal(n, found[s]++);
        else fail_msg("%s", all.history[i]);
    }
    for (int s = 0; s < SCREENS; s++) assert_int_equal(found[s], PROMPTS);
    assert_int_equal(newest, OLD - 1);
    assert_true(all.n_history <= 1000 + SCREENS * PROMPTS); // it was cut
    assert_int_equal(mode_of(path), S_IFREG | 0640);
    assert_int_equal(entries(), 1);
    ui_edit_free(&all);
}

static void a_held_history_holds_no_screen(void **state) {
    (void)state;
    ui_edit e = {0};
    ls_err err;
    put(path, "[\"old\"]\n", 0600);
    const int holder = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(fcntl(holder, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET}), 0);
    ui_history_load(&e, path); // read all the same
    assert_int_equal(e.n_history, 1);
    type(&e, "new");
    assert_int_equal(ui_history_add(&e, path, &err), LS_E_IO);
    close(holder);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    ui_history_load(&e, path); // neither waited for nor read
    type(&e, "newer");
    assert_int_equal(ui_history_add(&e, path, &err), LS_E_IO);
    assert_true(S_ISFIFO(mode_of(path)));
    ui_edit_free(&e);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, finish)
    const struct CMUnitTest tests[] = {TEST(a_file_that_is_replaced_keeps_its_mode),
                                       TEST(links_are_followed),
                                       TEST(a_failed_write_changes_nothing),
                                       TEST(a_limit_on_the_size_of_files_is_an_error),
                                       TEST(a_replacement_that_is_not_wanted_leaves_nothing),
                                       TEST(nobody_can_foresee_where_it_is_written),
                                       TEST(what_is_no_file_is_written_in_place),
                                       TEST(one_file_has_many_names),
                                       TEST(a_file_is_recorded_by_one),
                                       TEST(a_recording_that_nobody_reads_ends),
                                       TEST(who_reads_slowly_gets_everything),
                                       TEST(a_write_that_hangs_holds_nobody),
                                       TEST(two_screens_keep_their_prompts),
                                       TEST(prompts_survive_many_screens),
                                       TEST(a_held_history_holds_no_screen)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
