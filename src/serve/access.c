#include "serve/access.h"
#include "base/mem.h"
#include "base/sha256.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

ls_code ls_keys_read(ls_keys *out, ls_str text, const char *name, ls_err *err) {
    *out = (ls_keys){0};
    int line = 0;
    ls_code code = LS_OK;
    for (size_t at = 0; at < text.n && !code;) {
        const char *p = text.p + at, *newline = memchr(p, '\n', text.n - at);
        size_t n = newline ? (size_t)(newline - p) : text.n - at, visible = 0;
        at += n + (newline != NULL);
        line++;
        if (n && p[n - 1] == '\r') n--;
        if (!n || *p == '#') continue;
        while (visible < n && p[visible] > ' ' && p[visible] < 127) visible++;
        if (visible < n || n < LS_KEY_LEAST || n > LS_KEY_MOST)
            code = ls_fail(err, LS_E_USAGE, "%s:%d: a key has %d to %d visible ASCII characters", name, line,
                           LS_KEY_LEAST, LS_KEY_MOST);
        else if (out->n == LS_KEYS) code = ls_fail(err, LS_E_USAGE, "%s: more than %d keys", name, LS_KEYS);
        if (code) break;
        out->hash = ls_realloc(out->hash, (size_t)(out->n + 1) * sizeof *out->hash);
        ls_sha256_hex(p, n, out->hash[out->n]);
        if (!*out->hash[out->n++]) code = ls_fail(err, LS_E_IO, "%s: libcrypto has no SHA-256", name);
    }
    if (!code && !out->n) code = ls_fail(err, LS_E_USAGE, "%s has no key", name);
    if (code) ls_keys_free(out);
    return code;
}

void ls_keys_free(ls_keys *k) {
    free(k->hash);
    *k = (ls_keys){0};
}

// Hashes have one length, and all are looked at to the end: the time tells nothing of the keys.
int ls_keys_find(const ls_keys *k, const char *authorization, const char *api_key) {
    static const char bearer[] = "Bearer ";
    const char *given = api_key;
    char hash[65];
    int found = -1;
    if (!k->n) return 0;
    if (!given && authorization && !strncasecmp(authorization, bearer, sizeof bearer - 1))
        given = authorization + sizeof bearer - 1;
    if (!given || strlen(given) > LS_KEY_MOST) return -1;
    ls_sha256_hex(given, strlen(given), hash);
    if (!*hash) return -1;
    for (int i = 0; i < k->n; i++) {
        unsigned differs = 0;
        for (int j = 0; j < 64; j++) differs |= (unsigned char)(hash[j] ^ k->hash[i][j]);
        if (!differs) found = i;
    }
    return found;
}

static bool is_address(const char *host, size_t n) {
    char text[64];
    struct in6_addr a;
    if (n >= sizeof text) return false;
    memcpy(text, host, n);
    text[n] = 0;
    return inet_pton(AF_INET, text, &a) == 1 || inet_pton(AF_INET6, text, &a) == 1;
}

bool ls_host_is_good(const char *host, const char *const *names) {
    static const char local[] = "localhost";
    if (!host) return true;
    const char *end = *host == '[' ? strchr(host, ']') : NULL;
    const size_t n = end ? (size_t)(end - host) - 1 : strcspn(host, ":");
    const char *port = end ? end + 1 : host + n;
    if (*port && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1))) return false;
    if (is_address(end ? host + 1 : host, n) || (!end && n == sizeof local - 1 && !strncasecmp(host, local, n)))
        return true;
    for (; names && *names && !end; names++)
        if (strlen(*names) == n && !strncasecmp(*names, host, n)) return true;
    return false;
}

bool ls_origin_is_good(const char *origin, const char *const *origins) {
    if (!origin) return true;
    for (; origins && *origins; origins++)
        if (!strcmp(*origins, origin)) return true;
    return false;
}

ls_code ls_listen_read(ls_listen *out, const char *text, ls_err *err) {
    const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
    size_t n = colon ? (size_t)(colon - text) : 0;
    char *end = NULL;
    struct in_addr v4;
    struct in6_addr v6;
    *out = (ls_listen){.address = "127.0.0.1"};
    if (!strncmp(text, "unix:", 5)) {
        if (!text[5] || strlen(text + 5) >= sizeof out->path)
            return ls_fail(err, LS_E_USAGE, "--listen unix:PATH: the path has 1 to %zu bytes", sizeof out->path - 1);
        snprintf(out->path, sizeof out->path, "%s", text + 5);
        out->loopback = true;
        return LS_OK;
    }
    const bool bracketed = n > 2 && *text == '[' && text[n - 1] == ']';
    if (bracketed) text++, n -= 2;
    if (n >= sizeof out->address) n = 0, digits = "";
    if (n) memcpy(out->address, text, n), out->address[n] = 0;
    if (!strcmp(out->address, "localhost")) strcpy(out->address, "127.0.0.1");
    const long port = strtol(digits, &end, 10);
    out->port = (int)port;
    out->v6 = inet_pton(AF_INET6, out->address, &v6) == 1;
    if (!*digits || *end || port < 0 || port > 65535 || strspn(digits, "0123456789") != strlen(digits) ||
        out->v6 != bracketed || (!out->v6 && inet_pton(AF_INET, out->address, &v4) != 1))
        return ls_fail(
            err, LS_E_USAGE,
            "--listen %.80s: expected ADDRESS:PORT or PORT, such as 127.0.0.1:8080 or [::1]:8080, or unix:PATH", text);
    out->loopback = out->v6 ? IN6_IS_ADDR_LOOPBACK(&v6) : ntohl(v4.s_addr) >> 24 == 127;
    return LS_OK;
}

void ls_listen_remove(const ls_listen *at, const ls_socket_file *file) {
    struct stat st;
    if (!lstat(at->path, &st) && st.st_dev == file->device && st.st_ino == file->inode) unlink(at->path);
}

ls_code ls_listen_at_path(const ls_listen *at, int *fd, ls_socket_file *file, ls_err *err) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct stat st;
    memcpy(to.sun_path, at->path, sizeof at->path);
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool fine = *fd >= 0 && other >= 0;
    const bool there = fine && !lstat(at->path, &st) && S_ISSOCK(st.st_mode),
               used = there && (!connect(other, (struct sockaddr *)&to, sizeof to) || errno == EAGAIN);
    if (there && !used && errno == ECONNREFUSED) unlink(at->path); // nobody listens there; other sockets stay
    // the file is the user's alone from the beginning
    fine = fine && !fchmod(*fd, S_IRUSR | S_IWUSR) && !bind(*fd, (struct sockaddr *)&to, sizeof to) &&
           !listen(*fd, SOMAXCONN);
    const int error = errno;
    if (other >= 0) close(other);
    if (fine && !lstat(at->path, &st)) file->device = st.st_dev, file->inode = st.st_ino;
    if (fine) return LS_OK;
    if (*fd >= 0) close(*fd);
    return ls_fail(err, LS_E_IO, "cannot listen at %s: %s", at->path,
                   used ? "another server listens there" : strerror(error));
}

void ls_address_write(const struct sockaddr *a, char *out, size_t size) {
    char text[INET6_ADDRSTRLEN] = "?";
    if (a && a->sa_family == AF_UNIX) snprintf(text, sizeof text, "a socket");
    if (a && a->sa_family == AF_INET) inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, text, sizeof text);
    if (a && a->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)a)->sin6_addr, text, sizeof text);
    snprintf(out, size, "%s", text);
}
