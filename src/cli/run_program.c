#include "cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIGNALS = 3 };
static const int passed_on[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
static volatile pid_t child;

// A terminal sends its signals to both processes (si_code > 0). A signal sent by kill() reaches only this process, so
// it is forwarded.
static void pass_on(int number, siginfo_t *from, void *context) {
    (void)context;
    if (from->si_code <= 0 && child > 0) kill(child, number);
}

// Runs in the child. execvp() closes the pipe (O_CLOEXEC); if it fails, the pipe gets errno.
static _Noreturn void become(char *const *arguments, const struct sigaction *old, const sigset_t *mask, pid_t parent,
                             int pipe) {
    for (int i = 0; i < SIGNALS; i++) sigaction(passed_on[i], &old[i], NULL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);                         // the child ends when this process ends for any reason
    if (getppid() == parent) execvp(arguments[0], arguments); // else the parent ended before prctl()
    const int error = errno;
    _exit(write(pipe, &error, sizeof error) == sizeof error ? 127 : 126);
}

ls_code ls_run_program(char *const *arguments, const char *needed, ls_err *err) {
    struct sigaction old[SIGNALS], ours = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t all, mask;
    int ends[2], status = 0, failed = 0;
    if (pipe2(ends, O_CLOEXEC)) return ls_fail(err, LS_E_IO, "%s cannot be started: %s", arguments[0], strerror(errno));
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask);
    for (int i = 0; i < SIGNALS; i++) {
        sigaction(passed_on[i], NULL, &old[i]);
        if (old[i].sa_handler != SIG_IGN) sigaction(passed_on[i], &ours, NULL);
    }
    const pid_t parent = getpid();
    child = fork();
    if (!child) become(arguments, old, &mask, parent, ends[1]);
    if (child < 0) failed = errno;
    close(ends[1]);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (child > 0) {
        ssize_t n;
        while ((n = read(ends[0], &failed, sizeof failed)) < 0 && errno == EINTR) {
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    }
    close(ends[0]);
    child = 0;
    for (int i = 0; i < SIGNALS; i++) sigaction(passed_on[i], &old[i], NULL);
    if (failed == ENOENT) return ls_fail(err, LS_E_IO, "%s is not found in PATH: %s", arguments[0], needed);
    if (failed) return ls_fail(err, LS_E_IO, "%s cannot be started: %s", arguments[0], strerror(failed));
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return LS_OK;
    if ((WIFEXITED(status) && WEXITSTATUS(status) == LS_EXIT_INTERRUPTED) || WIFSIGNALED(status)) return LS_E_CANCELLED;
    return LS_E_IO;
}
