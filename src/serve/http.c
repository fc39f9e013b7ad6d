#include "serve/http.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "serve/reply.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS = 1000,
    SILENT_S = 60,            // a connection on which nothing happens for so long is closed
    CONNECTION_BYTES = 32768, // of headers
    BODIES_BYTES = 64 << 20,  // of all requests that are being read
    EVENT_BYTES = 16384,
    WATCHERS = 16,
    WATCH_BYTES = 1 << 17 // that are written at once
};
static const uint64_t BEAT_NS = 10000000000; // in which a watcher gets a line

// Somebody who watches: a stream of what the feed has, at the pace of the connection.
typedef struct {
    ls_feed_reader reader;
    bool listens;
    atomic_bool sleeps; // suspended until there is news
    ls_buf out;         // not sent yet from byte `sent` on
    size_t sent;
    uint64_t spoke_ns;
} watcher;

// An open connection.
typedef struct peer {
    struct peer *next, **at;
    int fd;
    uint64_t since_ns; // when it began to send a request; 0: it has sent one
    char address[64];
} peer;

struct ls_http {
    const ls_serve_options *o;
    ls_queue *queue;
    struct MHD_Daemon *daemon;
    ls_request_defaults defaults;
    const char *models[4];
    char url[120];
    ls_socket_file file; // of a socket that it listens at
    size_t bodies;       // bytes
    int watchers;
    atomic_bool ends; // watchers are sent away
    uint64_t beat_ns;
    peer *peers; // protected by the lock of the queue
};

// A request that is being read or answered.
typedef struct {
    ls_http *http;
    struct MHD_Connection *connection;
    peer *peer;
    int status; // why it is refused; 0: it is not
    char message[512];
    int retry_s; // Retry-After; 0: none
    int key;
    const struct route *route;
    const char *origin; // allowed, or NULL; borrowed from the options
    ls_buf body;
    ls_exchange *x; // NULL: not queued
    watcher w;      // zero: it does not watch
} call;

// ---- resources without decoding

static void write_health(ls_http *h, ls_buf *out) {
    (void)h;
    ls_buf_str(out, "{\"status\":\"ok\"}");
}

static void write_models(ls_http *h, ls_buf *out) {
    ls_jsonw w = {.out = out};
    ls_jw_open(&w, '{');
    ls_jw_field_str(&w, "object", "list");
    ls_jw_field_open(&w, "data", '[');
    ls_jw_open(&w, '{');
    ls_jw_field_str(&w, "id", h->models[0]);
    ls_jw_field_str(&w, "object", "model");
    ls_jw_field_int(&w, "created", 0);
    ls_jw_field_str(&w, "owned_by", "logitspec");
    ls_jw_field_int(&w, "max_model_len", h->o->model->engine->n_context);
    ls_jw_field_str(&w, "sha256", h->o->model->sha256);
    ls_jw_close(&w, '}');
    ls_jw_close(&w, ']');
    ls_jw_close(&w, '}');
}

static void write_metrics(ls_http *h, ls_buf *out) {
    ls_metrics_write(h->queue, out);
}

static const char json[] = "application/json", prometheus[] = "text/plain; version=0.0.4; charset=utf-8";
static const struct route {
    const char *method, *path;
    int api; // ls_api; -1: it is answered without the decoder
    enum { KEY, WATCH_KEY, NO_KEY } needs;
    void (*write)(ls_http *h, ls_buf *out);
    const char *type;
} routes[] = {
    {"GET", "/health", -1, NO_KEY, write_health, json},
    {"GET", "/v1/models", -1, KEY, write_models, json},
    {"GET", "/metrics", -1, KEY, write_metrics, prometheus},
    {"GET", "/watch", -1, WATCH_KEY, NULL, NULL},
    {"POST", "/v1/chat/completions", LS_API_CHAT, KEY, NULL, NULL},
    {"POST", "/v1/completions", LS_API_COMPLETIONS, KEY, NULL, NULL},
    {"POST", "/v1/messages", LS_API_MESSAGES, KEY, NULL, NULL},
    {"POST", "/tokenize", LS_API_TOKENIZE, KEY, NULL, NULL},
    {"POST", "/detokenize", LS_API_DETOKENIZE, KEY, NULL, NULL},
};
static const struct route nowhere = {.api = -1};

static const struct route *route_of(const char *method, const char *path, bool *known) {
    *known = false;
    for (const struct route *r = routes; r < routes + sizeof routes / sizeof *routes; r++) {
        if (strcmp(r->path, path)) continue;
        *known = true;
        if (!strcmp(r->method, method)) return r;
    }
    return &nowhere;
}

// ---- responses

static enum MHD_Result send_response(const call *c, int status, const char *type, struct MHD_Response *response) {
    char text[16];
    if (!response) return MHD_NO;
    if (type) MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (status == 429 || status == 503) {
        snprintf(text, sizeof text, "%d", c->retry_s > 0 ? c->retry_s : 1);
        MHD_add_response_header(response, "Retry-After", text);
    }
    if (c->origin) {
        MHD_add_response_header(response, "Access-Control-Allow-Origin", c->origin);
        MHD_add_response_header(response, "Vary", "Origin");
    }
    const enum MHD_Result result = MHD_queue_response(c->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_text(const call *c, int status, const char *type, const char *p, size_t n) {
    return send_response(c, status, type,
                         MHD_create_response_from_buffer(n, (void *)(n ? p : ""), MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result send_stream(call *c, const char *type, MHD_ContentReaderCallback read) {
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_BYTES, read, c, NULL);
    if (r) MHD_add_response_header(r, "X-Accel-Buffering", "no"); // for nginx: each event at once
    return send_response(c, 200, type, r);
}

static enum MHD_Result send_error(call *c) {
    ls_buf text = {0};
    ls_queue_count(c->http->queue, &c->http->queue->metrics.refused);
    ls_reply_error(c->route->api < 0 ? LS_API_CHAT : (ls_api)c->route->api, c->status, c->message, &text);
    const enum MHD_Result result = send_text(c, c->status, json, text.p, text.n);
    ls_buf_free(&text);
    return result;
}

// The next bytes of a stream; without any, the connection sleeps until the decoder says more.
static ssize_t read_events(void *cls, uint64_t pos, char *to, size_t most) {
    const call *c = cls;
    ls_exchange *x = c->x;
    (void)pos;
    pthread_mutex_lock(&c->http->queue->lock);
    size_t n = x->out.n - x->sent;
    if (n > most) n = most;
    if (n) memcpy(to, x->out.p + x->sent, n);
    x->sent += n;
    ssize_t result = (ssize_t)n;
    if (!n && x->ended) result = MHD_CONTENT_READER_END_OF_STREAM;
    else if (!n) {
        x->waits = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&c->http->queue->lock);
    return result;
}

// The answer to a queued request, as far as it is known.
static enum MHD_Result send_answer(call *c) {
    ls_exchange *x = c->x;
    pthread_mutex_lock(&c->http->queue->lock);
    const bool streams = x->request.stream && x->status == 200, ready = streams || x->ended;
    if (!ready) {
        x->waits = true;
        MHD_suspend_connection(c->connection);
    }
    pthread_mutex_unlock(&c->http->queue->lock);
    if (!ready) return MHD_YES;
    if (!streams) return send_text(c, x->status, json, x->out.p, x->out.n);
    return send_stream(c, "text/event-stream; charset=utf-8", read_events);
}

// ---- watchers

static void refuse(call *c, int status, const char *message) {
    if (c->status) return;
    c->status = status;
    snprintf(c->message, sizeof c->message, "%s", message);
}

static void wake_watcher(void *ud) {
    call *c = ud;
    if (atomic_exchange(&c->w.sleeps, false)) MHD_resume_connection(c->connection);
}

// Takes what is new from the feed. False: nothing is.
static bool take_news(call *c) {
    watcher *w = &c->w;
    ls_buf_clear(&w->out);
    w->sent = 0;
    const uint64_t now = ls_now_ns();
    const bool news = ls_feed_send(c->http->o->feed, &w->reader, &w->out, WATCH_BYTES),
               beats = !news && now - w->spoke_ns > BEAT_NS / 2;
    if (beats) ls_buf_str(&w->out, "{\"type\":\"alive\"}\n");
    if (news || beats) w->spoke_ns = now;
    return news || beats;
}

static ssize_t read_news(void *cls, uint64_t pos, char *to, size_t most) {
    call *c = cls;
    watcher *w = &c->w;
    (void)pos;
    if (w->sent == w->out.n && !take_news(c)) {
        if (c->http->ends) return MHD_CONTENT_READER_END_OF_STREAM;
        MHD_suspend_connection(c->connection);
        w->sleeps = true;
        // what came meanwhile woke nobody
        if (take_news(c) || c->http->ends) wake_watcher(c);
        return 0;
    }
    const size_t left = w->out.n - w->sent, n = left < most ? left : most;
    memcpy(to, w->out.p + w->sent, n);
    w->sent += n;
    return (ssize_t)n;
}

static enum MHD_Result watch(call *c) {
    ls_http *h = c->http;
    if (!h->o->feed) refuse(c, 404, "nobody can watch this server: serve.watch_mib is 0");
    else if (h->watchers >= WATCHERS || h->ends)
        refuse(c, 503, h->ends ? "the server is being stopped" : "too many watchers");
    if (c->status) return send_error(c);
    c->w.listens = true;
    c->w.spoke_ns = ls_now_ns();
    c->w.reader = (ls_feed_reader){.wake = wake_watcher, .ud = c};
    h->watchers++;
    ls_feed_listen(h->o->feed, &c->w.reader);
    return send_stream(c, "application/x-ndjson", read_news);
}

static void stop_watching(call *c) {
    if (!c->w.listens) return;
    ls_feed_leave(c->http->o->feed, &c->w.reader);
    c->http->watchers--;
    ls_buf_free(&c->w.out);
}

// Watchers see the prompts of all clients: where clients have keys, watchers need keys of their own. No page may watch.
static void check_watcher(call *c, const char *authorization, const char *api_key, const char *origin) {
    const ls_serve_options *o = c->http->o;
    if (origin) refuse(c, 403, "pages may not watch");
    if (o->keys.n && !o->watch_keys.n)
        refuse(c, 403, "nobody may watch this server: start it with --watch-key-file FILE");
    if (ls_keys_find(&o->watch_keys, authorization, api_key) < 0) refuse(c, 401, "the request has no valid watch key");
}

// ---- requests

static const char *header(const call *c, const char *name) {
    return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

static void check(call *c, const char *path, const char *method) {
    const ls_serve_options *o = c->http->o;
    const char *origin = header(c, "Origin"), *length = header(c, "Content-Length"), *type = header(c, "Content-Type");
    bool known;
    c->route = route_of(method, path, &known);
    for (const char *const *p = o->origins; p && *p && origin; p++)
        if (!strcmp(*p, origin)) c->origin = *p;
    if (!ls_host_is_good(header(c, "Host"), o->hosts))
        refuse(c, 403, "this Host is not served: use an address or localhost, or start the server with --host NAME");
    if (!ls_origin_is_good(origin, o->origins))
        refuse(c, 403, "pages of this Origin may not ask: start the server with --origin ORIGIN");
    if (c->origin && !strcmp(method, "OPTIONS")) return; // a browser asks whether a page may ask
    if (c->route == &nowhere)
        refuse(c, known ? 405 : 404, known ? "this path takes another method" : "there is no such path");
    const char *authorization = header(c, "Authorization"), *api_key = header(c, "X-Api-Key");
    if (c->route->needs == WATCH_KEY) check_watcher(c, authorization, api_key, origin);
    else c->key = ls_keys_find(&o->keys, authorization, api_key);
    if (c->key < 0 && c->route->needs != NO_KEY) refuse(c, 401, "the request has no valid key");
    if (c->route->api >= 0 && (!type || strncasecmp(type, json, sizeof json - 1)))
        refuse(c, 415, "the Content-Type must be application/json");
    if (length && (strlen(length) > 9 || atol(length) > LS_BODY_BYTES)) refuse(c, 413, "the body is too large");
}

static call *new_call(ls_http *h, struct MHD_Connection *connection) {
    call *c = ls_calloc(1, sizeof *c);
    c->http = h;
    c->connection = connection;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    c->peer = info ? info->socket_context : NULL;
    return c;
}

// From now on the connection sends a request; since 0: it has sent one.
static void set_since(const call *c, uint64_t since_ns) {
    if (!c->peer) return;
    pthread_mutex_lock(&c->http->queue->lock);
    c->peer->since_ns = since_ns;
    pthread_mutex_unlock(&c->http->queue->lock);
}

// False: the connection is to be closed.
static bool take_body(call *c, const char *p, size_t n) {
    ls_http *h = c->http;
    if (c->status) return c->status != 413; // what is refused is read, so that the client reads why
    if (c->body.n + n > LS_BODY_BYTES) return false;
    if (h->bodies + n > BODIES_BYTES) refuse(c, 503, "the server is reading too many large requests");
    else {
        ls_buf_add(&c->body, p, n);
        h->bodies += n;
    }
    return true;
}

static void forget_body(call *c) {
    c->http->bodies -= c->body.n;
    ls_buf_free(&c->body);
}

static void describe(ls_request_facts *f, const call *c, const char *agent) {
    *f = (ls_request_facts){.key = c->http->o->keys.n ? c->key + 1 : 0};
    snprintf(f->path, sizeof f->path, "%s", c->route->path);
    snprintf(f->client, sizeof f->client, "%s", c->peer ? c->peer->address : "?");
    size_t n = 0;
    for (const char *p = agent ? agent : ""; *p && n + 1 < sizeof f->agent; p++)
        if (*p >= ' ' && *p < 127) f->agent[n++] = *p;
}

static void queue(call *c) {
    ls_http *h = c->http;
    ls_exchange *x = ls_exchange_new();
    ls_err err = {0};
    const ls_code code =
        ls_request_read(&x->request, (ls_api)c->route->api, (ls_str){c->body.p, c->body.n}, &h->defaults, &err);
    forget_body(c);
    if (code) refuse(c, code == LS_E_UNSUPPORTED ? 404 : 400, err.msg);
    x->connection = c->connection;
    if (c->peer) x->fd = c->peer->fd;
    describe(&x->facts, c, header(c, "User-Agent"));
    const int status = code ? 0 : ls_queue_put(h->queue, x, &c->retry_s);
    if (status) refuse(c, status, status == 429 ? "too many requests are waiting" : "the server is being stopped");
    if (c->status) ls_exchange_drop(h->queue, x);
    else c->x = x;
}

static enum MHD_Result send_preflight(const call *c) {
    struct MHD_Response *r = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    if (r) {
        MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST");
        MHD_add_response_header(r, "Access-Control-Allow-Headers",
                                "authorization, content-type, x-api-key, anthropic-version");
    }
    return send_response(c, 204, NULL, r);
}

static enum MHD_Result respond(call *c, const char *method) {
    if (!c->status && c->origin && !strcmp(method, "OPTIONS")) return send_preflight(c);
    if (!c->status && c->route->api >= 0) queue(c);
    if (c->status) return send_error(c);
    if (c->x) return send_answer(c);
    if (c->route->needs == WATCH_KEY) return watch(c);
    ls_buf text = {0};
    c->route->write(c->http, &text);
    const enum MHD_Result result = send_text(c, 200, c->route->type, text.p, text.n);
    ls_buf_free(&text);
    return result;
}

// Called when the headers are here, for each part of the body, at its end, and after a sleep.
static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *path, const char *method,
                              const char *version, const char *upload, size_t *n, void **state) {
    call *c = *state;
    (void)version;
    if (!c) {
        *state = c = new_call(cls, connection);
        check(c, path, method);
        return c->status == 413 ? send_error(c) : MHD_YES; // a large body is not read
    }
    if (*n) {
        const bool good = take_body(c, upload, *n);
        *n = 0;
        return good ? MHD_YES : MHD_NO;
    }
    if (c->x) return send_answer(c);
    set_since(c, 0);
    return respond(c, method);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why) {
    ls_http *h = cls;
    call *c = *state;
    (void)connection, (void)why;
    if (!c) return;
    if (c->x) {
        ls_exchange_left(h->queue, c->x);
        ls_exchange_drop(h->queue, c->x);
    }
    set_since(c, ls_now_ns());
    forget_body(c);
    stop_watching(c);
    free(c);
    *state = NULL;
}

// ---- connections

static void on_connection(void *cls, struct MHD_Connection *connection, void **state,
                          enum MHD_ConnectionNotificationCode what) {
    ls_http *h = cls;
    peer *p = *state;
    pthread_mutex_lock(&h->queue->lock);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD),
                                       *from = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
        p = ls_calloc(1, sizeof *p);
        *p = (peer){.next = h->peers, .at = &h->peers, .fd = fd ? fd->connect_fd : -1, .since_ns = ls_now_ns()};
        ls_address_write(from ? from->client_addr : NULL, p->address, sizeof p->address);
        if (h->peers) h->peers->at = &p->next;
        h->peers = p;
        h->queue->metrics.connections++;
        *state = p;
    } else if (p) {
        *p->at = p->next;
        if (p->next) p->next->at = p->at;
        h->queue->metrics.connections--;
        free(p);
        *state = NULL;
    }
    pthread_mutex_unlock(&h->queue->lock);
}

// Ends connections that take too long to send a request: a byte from time to time would keep them open.
static void sweep(void *ud) {
    ls_http *h = ud;
    const uint64_t now = ls_now_ns(), most = (uint64_t)SILENT_S * 1000000000;
    pthread_mutex_lock(&h->queue->lock);
    for (const peer *p = h->peers; p; p = p->next)
        if (p->since_ns && now - p->since_ns > most) shutdown(p->fd, SHUT_RDWR);
    pthread_mutex_unlock(&h->queue->lock);
    if (now - h->beat_ns < BEAT_NS) return;
    h->beat_ns = now;
    ls_feed_wake(h->o->feed);
}

static void resume(void *connection) {
    MHD_resume_connection(connection);
}

__attribute__((format(printf, 2, 0))) static void on_log(void *ud, const char *format, va_list list) {
    (void)ud;
    if (!ls_log_is_on()) return;
    char *text = ls_format_list(format, list);
    ls_log("http: %s", text);
    free(text);
}

static unsigned connection_limit(void) {
    enum { OTHER_FILES = 64 };
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur > CONNECTIONS + OTHER_FILES) return CONNECTIONS;
    return files.rlim_cur > 2 * OTHER_FILES ? (unsigned)files.rlim_cur - OTHER_FILES : OTHER_FILES;
}

static ls_code start(ls_http *h, ls_err *err) {
    const ls_listen *at = &h->o->listen;
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)at->port)};
    inet_pton(at->v6 ? AF_INET6 : AF_INET, at->address, at->v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr);
    // poll, not epoll: there, a client that closes right behind the beginning of a request is noticed a minute later
    int fd = MHD_INVALID_SOCKET;
    const ls_code code = *at->path ? ls_listen_at_path(at, &fd, &h->file, err) : LS_OK;
    if (code) return code;
    const unsigned flags =
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (at->v6 ? MHD_USE_IPv6 : 0);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // the thread of connections takes none
    errno = 0;
    h->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, h,
                                 MHD_OPTION_SOCK_ADDR, at->v6 ? (void *)&v6 : (void *)&v4, MHD_OPTION_LISTEN_SOCKET, fd,
                                 MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION,
                                 on_connection, h, MHD_OPTION_CONNECTION_LIMIT, connection_limit(),
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                 (size_t)CONNECTION_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!h->daemon && *at->path) {
        close(fd);
        ls_listen_remove(at, &h->file);
    }
    if (!h->daemon)
        return *at->path ? ls_fail(err, LS_E_IO, "cannot listen at %s: %s", at->path, strerror(error))
                         : ls_fail(err, LS_E_IO, "cannot listen at %s port %d: %s", at->address, at->port,
                                   error ? strerror(error) : "libmicrohttpd does not say why");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (*at->path) snprintf(h->url, sizeof h->url, "unix:%s", at->path);
    else
        snprintf(h->url, sizeof h->url, at->v6 ? "http://[%s]:%d" : "http://%s:%d", at->address,
                 info ? info->port : at->port);
    return LS_OK;
}

ls_code ls_http_open(ls_http **out, const ls_serve_options *o, ls_queue *queue, ls_err *err) {
    *out = NULL;
    ls_http *h = ls_calloc(1, sizeof *h);
    h->o = o;
    h->queue = queue;
    h->models[0] = o->model->name;
    h->models[1] = o->name;
    h->models[2] = "default";
    h->defaults = (ls_request_defaults){&o->setup->decode, o->seeded, o->setup->system, h->models};
    *queue = (ls_queue){
        .most = o->max_waiting, .places = o->parallel, .feed = o->feed, .resume = resume, .tick = sweep, .ud = h};
    ls_code code = ls_queue_open(queue, err);
    if (!code) code = start(h, err);
    if (code) {
        ls_queue_close(queue);
        free(h);
        return code;
    }
    *out = h;
    return LS_OK;
}

const char *ls_http_url(const ls_http *h) {
    return h->url;
}

void ls_http_close(ls_http *h) {
    h->ends = true;
    ls_feed_wake(h->o->feed); // libmicrohttpd stops no sleeping connections
    if (*h->o->listen.path) ls_listen_remove(&h->o->listen, &h->file);
    MHD_stop_daemon(h->daemon);
    ls_queue_close(h->queue);
    free(h);
}

const char *ls_http_version(void) {
    return MHD_get_version();
}
