// Who may ask: keys, and the Host and Origin of a request. Everything that is compared with a key takes a time that
// does not depend on the key.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { LS_KEY_LEAST = 16, LS_KEY_MOST = 200, LS_KEYS = 256 };

typedef struct {
    char (*hash)[65]; // SHA-256 of each key
    int n;            // 0: no key is asked for
} ls_keys;

// Reads keys, a line each; blank lines and those that begin with # are none. name: for messages. LS_E_USAGE.
ls_code ls_keys_read(ls_keys *out, ls_str text, const char *name, ls_err *err);
void ls_keys_free(ls_keys *k);
// The number of the key of a request; -1: it has none, or a wrong one. 0 if no key is asked for. authorization: of the
// header of that name, "Bearer KEY"; api_key: of x-api-key; NULL: absent.
int ls_keys_find(const ls_keys *k, const char *authorization, const char *api_key);

// Whether a request's Host is an address, localhost or one of `names`: a page of a browser that was sent here by a name
// of its own (DNS rebinding) has another one. host NULL: absent, as in HTTP/1.0.
bool ls_host_is_good(const char *host, const char *const *names);
// Whether there is no Origin (no page of a browser asks), or one of `origins`.
bool ls_origin_is_good(const char *origin, const char *const *origins);

// Where to listen: "ADDRESS:PORT", "[ADDRESS]:PORT", a port alone, at 127.0.0.1, or "unix:PATH", a socket in the file
// system, which other users cannot open.
typedef struct {
    char address[64];
    char path[108]; // of a socket; "": it is an address
    int port;       // 0: the system chooses one
    bool loopback, v6;
} ls_listen;
ls_code ls_listen_read(ls_listen *out, const char *text, ls_err *err);
void ls_address_write(const struct sockaddr *a, char *out, size_t size); // of a client; NULL: "?"
// The file of a socket.
typedef struct {
    dev_t device;
    ino_t inode;
} ls_socket_file;
// Listens at at->path; a socket that a server left there is replaced. LS_E_IO.
ls_code ls_listen_at_path(const ls_listen *at, int *fd, ls_socket_file *file, ls_err *err);
void ls_listen_remove(const ls_listen *at, const ls_socket_file *file); // unless another server has replaced it
