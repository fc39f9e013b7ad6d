#include "engine/launch.h"
#include "base/mem.h"
#include "compute/lst.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY "LOGITSPEC_RANKS_MEMORY"
#define TOKEN "LOGITSPEC_RANKS_TOKEN"
#define ADDRESS "LOGITSPEC_RANKS_ADDRESS"
#define TIMEOUT "LOGITSPEC_RANKS_TIMEOUT"
#define DEVICE "LOGITSPEC_RANKS_DEVICE"

enum { TIMEOUT_S = 60 }; // longer than any forward, so that a slow rank does not count as lost

// ---- what a launcher says

// The variables of launchers; the first set one counts: rank, number of ranks, number on this machine, and rank among
// these.
static const struct {
    const char *rank, *n, *beside, *local;
} launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_TASKS_PER_NODE", "SLURM_LOCALID"}};

static bool number_of(const char *name, int32_t *out) {
    const char *text = name ? getenv(name) : NULL;
    char *end;
    const long n = text ? strtol(text, &end, 10) : -1;
    if (!text || end == text || n < 0 || n > 1 << 20) return false; // "2(x3)", Slurm's list of counts, is a 2
    *out = (int32_t)n;
    return true;
}

// The local address of the route to that host; other ranks reach this machine at this address.
static ls_code own_address(ls_rank_env *p, const char *host, const char *port, ls_err *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    const int code = getaddrinfo(host, port, &hints, &found);
    if (code) return ls_fail(err, LS_E_USAGE, "MASTER_ADDR=%.100s: %s", host, gai_strerror(code));
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof own;
    const int fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0); // connecting a datagram socket sends nothing
    const bool known =
        fd >= 0 && !connect(fd, found->ai_addr, found->ai_addrlen) &&
        !getsockname(fd, (struct sockaddr *)&own, &size) &&
        !getnameinfo((struct sockaddr *)&own, size, p->address, sizeof p->address, NULL, 0, NI_NUMERICHOST);
    if (fd >= 0) close(fd);
    freeaddrinfo(found);
    const bool meant = !strncmp(host, "127.", 4) || !strcmp(host, "localhost") || !strcmp(host, "::1");
    if (known && !meant && p->n > p->beside && (!strncmp(p->address, "127.", 4) || !strcmp(p->address, "::1")))
        return ls_fail(err, LS_E_USAGE,
                       "MASTER_ADDR=%.100s is a loopback address (%s), but some ranks are on other machines: set it "
                       "to an address that these machines can reach",
                       host, p->address);
    return known
               ? LS_OK
               : ls_fail(err, LS_E_USAGE,
                         "MASTER_ADDR=%.100s cannot be reached from here: set " ADDRESS "=IP to this machine's address",
                         host);
}

// The launcher that started this process as one of several; -1: none.
static int launcher_of(ls_rank_env *out) {
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        if (!number_of(launchers[i].rank, &out->rank) || !number_of(launchers[i].n, &out->n) || out->n < 2) continue;
        if (!number_of(launchers[i].beside, &out->beside) || out->beside < 1) out->beside = 1;
        return (int)i;
    }
    return -1;
}

// "cpu" or absent, "cuda:N", or "cuda": the GPU whose number is the rank's among those of its machine.
static ls_code device_of(ls_rank_env *p, int by, ls_err *err) {
    const char *device = getenv(DEVICE);
    p->gpu = -1;
    if (!device || !strcmp(device, "cpu")) return LS_OK;
    char *end = NULL;
    const long n = !strncmp(device, "cuda:", 5) ? strtol(device + 5, &end, 10) : -1;
    if (end && end > device + 5 && !*end && n >= 0 && n < LST_MAX_RANKS) p->gpu = (int32_t)n;
    else if (strcmp(device, "cuda"))
        return ls_fail(err, LS_E_USAGE, DEVICE "=%.40s must be cpu, cuda or cuda:N", device);
    else if (!number_of(launchers[by].local, &p->gpu))
        return ls_fail(err, LS_E_USAGE, DEVICE "=cuda needs the number of this rank's GPU in %s, which is not set",
                       launchers[by].local);
    return LS_OK;
}

bool ls_is_other_rank(void) {
    ls_rank_env place;
    return launcher_of(&place) >= 0 && place.rank > 0;
}

ls_code ls_rank_env_read(ls_rank_env *out, ls_err *err) {
    int32_t timeout_s = TIMEOUT_S;
    if (getenv(TIMEOUT) && (!number_of(TIMEOUT, &timeout_s) || timeout_s < 1))
        return ls_fail(err, LS_E_USAGE, TIMEOUT "=%.40s must be a number of seconds", getenv(TIMEOUT));
    const ls_rank_env alone = {.n = 1, .beside = 1, .gpu = -1, .memory = -1, .timeout_s = timeout_s};
    *out = alone;
    const int by = launcher_of(out);
    if (by < 0) {
        *out = alone; // some of a launcher's variables may be set
        return LS_OK;
    }
    if (out->rank >= out->n || out->n > LST_MAX_RANKS)
        return ls_fail(err, LS_E_USAGE,
                       "%s=%d and %s=%d: ranks are 0 to %s - 1, and at most %d ranks can share a model",
                       launchers[by].rank, out->rank, launchers[by].n, out->n, launchers[by].n, LST_MAX_RANKS);
    const ls_code code = device_of(out, by, err);
    if (code) return code;
    if (number_of(MEMORY, &out->memory)) return LS_OK; // its parent is rank 0 of this program
    const char *token = getenv(TOKEN), *address = getenv(ADDRESS);
    if (!token || strlen(token) < 16 || strlen(token) > 64)
        return ls_fail(err, LS_E_USAGE,
                       TOKEN " is missing or invalid: set it to the same 16 to 64 random characters for all ranks of a "
                             "run (openssl rand -hex 16)");
    const char *restarts = getenv("TORCHELASTIC_RESTART_COUNT"); // the store keeps addresses of earlier starts
    snprintf(out->token, sizeof out->token, "%s %.8s", token, restarts ? restarts : "");
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    if (!host || !*host || strlen(host) > 200)
        return ls_fail(
            err, LS_E_USAGE,
            "this is rank %d of %d, but MASTER_ADDR is not set: for all ranks, set MASTER_ADDR and MASTER_PORT to "
            "the address of rank 0",
            out->rank, out->n);
    if (!port || !*port) port = "29500";
    snprintf(out->store, sizeof out->store, "%s:%.8s", host, port);
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE"); // torchrun runs the store itself
    out->serves = !agent || strcmp(agent, "True");
    if (!address) return own_address(out, host, port, err);
    snprintf(out->address, sizeof out->address, "%s", address);
    return LS_OK;
}

// ---- ranks that this process starts

typedef struct {
    pid_t pid;  // 0: it has ended
    int alive;  // write end of a pipe; the child reads the other end, and exits when it closes
    int log;    // read end of the child's output
    int status; // of waitpid
} child;

struct ls_children {
    int32_t n;               // ranks, this process included
    int memory;              // file descriptor of the shared memory
    child of[LST_MAX_RANKS]; // from rank 1 on
};

extern char **environ;

enum { CHILDS_MEMORY = 3 }; // its file descriptor in a rank

static char **environment_of(int32_t rank, int32_t n, int32_t gpu) {
    static const char *const set[] = {
        (DEVICE "="), "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "LOCAL_WORLD_SIZE=", (MEMORY "=")};
    enum { SET = sizeof set / sizeof *set };
    size_t count = 0, kept = 0;
    while (environ[count]) count++;
    char **out = ls_calloc(count + SET + 1, sizeof *out);
    for (size_t i = 0; i < count; i++) {
        bool again = false;
        for (size_t j = 0; j < SET; j++) again |= !strncmp(environ[i], set[j], strlen(set[j]));
        if (!again) out[kept++] = ls_strdup(environ[i]);
    }
    const int numbers[] = {0, rank, n, rank, n, CHILDS_MEMORY};
    out[kept++] = gpu < 0 ? ls_format("%scpu", set[0]) : ls_format("%scuda:%d", set[0], gpu);
    for (size_t j = 1; j < SET; j++) out[kept++] = ls_format("%s%d", set[j], numbers[j]);
    return out;
}

// Descriptors 0 to 3 of a rank are assigned explicitly, so these must be above 3 (the caller may have closed its
// input).
static int above(int fd) {
    const int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, CHILDS_MEMORY + 1);
    if (fd >= 0) close(fd);
    return moved;
}

static int start(child *c, int memory, int32_t rank, int32_t n, int32_t gpu) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return errno;
    ends[0] = above(ends[0]);
    c->alive = above(ends[1]);
    c->log = above(memfd_create("rank", MFD_CLOEXEC));
    char **env = environment_of(rank, n, gpu), program[] = "/proc/self/exe", name[] = "logitspec", command[] = "rank",
         *arguments[] = {name, command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_adddup2(&files, ends[0], 0);
    posix_spawn_file_actions_adddup2(&files, c->log, 1);
    posix_spawn_file_actions_adddup2(&files, c->log, 2);
    posix_spawn_file_actions_adddup2(&files, memory, CHILDS_MEMORY);
    posix_spawn_file_actions_addclosefrom_np(&files, CHILDS_MEMORY + 1);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID); // a terminal's signals are for rank 0
    const int failed =
        c->log < 0 || c->alive < 0 || ends[0] < 0 ? errno : posix_spawn(&c->pid, program, &files, &how, arguments, env);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    if (ends[0] >= 0) close(ends[0]);
    for (char **e = env; *e; e++) free(*e);
    free(env);
    if (failed) c->pid = 0;
    return failed;
}

ls_code ls_children_start(ls_children **out, ls_rank_env *own, int32_t n, const int32_t *gpus, ls_err *err) {
    *out = NULL;
    ls_children *c = ls_calloc(1, sizeof *c);
    for (int i = 0; i < LST_MAX_RANKS; i++) c->of[i] = (child){.alive = -1, .log = -1};
    c->n = n;
    c->memory = above(memfd_create("ranks", MFD_CLOEXEC));
    int failed = c->memory < 0 ? errno : 0;
    for (int32_t rank = 1; rank < n && !failed; rank++) failed = start(&c->of[rank], c->memory, rank, n, gpus[rank]);
    if (failed) {
        ls_children_end(c);
        return ls_fail(err, LS_E_IO, "the other ranks cannot be started: %s", strerror(failed));
    }
    *own = (ls_rank_env){.n = n, .beside = n, .gpu = gpus[0], .memory = c->memory, .timeout_s = own->timeout_s};
    *out = c;
    return LS_OK;
}

static bool has_ended(child *c) {
    // ECHILD: if SIGCHLD is ignored, the kernel does not keep exit statuses
    const pid_t seen = c->pid > 0 ? waitpid(c->pid, &c->status, WNOHANG) : 0;
    if (seen > 0 || (seen < 0 && errno == ECHILD)) c->pid = 0;
    return c->pid == 0;
}

int32_t ls_children_first_ended(ls_children *c) {
    for (int32_t rank = 1; rank < c->n; rank++)
        if (has_ended(&c->of[rank])) return rank;
    return 0;
}

static void last_words(const child *c, ls_buf *out) {
    char text[400];
    const off_t size = lseek(c->log, 0, SEEK_END), at = size > (off_t)sizeof text ? size - (off_t)sizeof text : 0;
    ssize_t n = pread(c->log, text, sizeof text, at);
    while (n > 0 && text[n - 1] == '\n') n--;
    const char *line = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;
    line = line ? line + 1 : text;
    if (n > 0) ls_buf_fmt(out, ": %.*s", (int)(text + n - line), line);
}

bool ls_children_ended(ls_children *c, int32_t rank, ls_buf *how) {
    child *k = &c->of[rank];
    for (int i = 0; i < 50 && !has_ended(k); i++) usleep(10000);
    if (k->pid) return false;
    if (WIFSIGNALED(k->status))
        ls_buf_fmt(how, "ended by signal %d (%s)", WTERMSIG(k->status), strsignal(WTERMSIG(k->status)));
    else ls_buf_fmt(how, "ended with exit code %d", WEXITSTATUS(k->status));
    last_words(k, how);
    return true;
}

void ls_children_end(ls_children *c) {
    if (!c) return;
    for (int32_t rank = 1; rank < c->n; rank++)
        if (c->of[rank].alive >= 0) close(c->of[rank].alive);
    for (int32_t rank = 1; rank < c->n; rank++) {
        child *k = &c->of[rank];
        for (int i = 0; i < 100 && !has_ended(k); i++) usleep(10000);
        if (k->pid) {
            kill(k->pid, SIGKILL);
            waitpid(k->pid, &k->status, 0);
        }
        if (k->log >= 0) close(k->log);
    }
    if (c->memory >= 0) close(c->memory);
    free(c);
}
