#include "base/json.h"
#include "base/utf8.h"
#include "tests/fuzz/input.h"
#include "ui/render.h"

#include <ctype.h>
#include <ftw.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_fail(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    abort();
}

// ---- input

const char *fuzz_file(const uint8_t *data, size_t n) {
    static int fd = -1;
    static char path[40];
    if (fd < 0) fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, n, 0) != (ssize_t)n) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

static char folder[40];

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *place) {
    (void)st, (void)kind, (void)place;
    return remove(path);
}

static void remove_folder(void) {
    enum { DESCRIPTORS = 4 };
    nftw(folder, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
    if (*folder) return folder;
    snprintf(folder, sizeof folder, "%s/logitspec-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(folder)) abort();
    atexit(remove_folder);
    return folder;
}

void fuzz_said(ls_code code, const ls_err *err) {
    EXPECT(!code || (*err->msg && err->code == code));
}

// ---- JSON and CSV

void fuzz_json(const char *p, size_t n) {
    ls_json *doc;
    ls_err err = {0};
    if (ls_json_parse(&doc, p, n, "output", &err)) fuzz_fail(__FILE__, __LINE__, err.msg);
    ls_json_free(doc);
}

void fuzz_json_lines(const char *p, size_t n) {
    EXPECT(n && p[n - 1] == '\n');
    for (const char *end = p + n, *line = p, *next; line < end; line = next + 1) {
        next = memchr(line, '\n', (size_t)(end - line));
        fuzz_json(line, (size_t)(next - line));
    }
}

void fuzz_csv(const char *p, size_t n, int cells) {
    int cell = 1;
    for (size_t i = 0; i < n; cell++) {
        if (p[i] == '"') {
            for (i++; i < n && (p[i] != '"' || (i + 1 < n && p[i + 1] == '"')); i++) i += p[i] == '"';
            EXPECT(i < n);
            i++;
        } else
            while (i < n && !strchr(",\r", p[i])) {
                EXPECT(p[i] != '"' && p[i] != '\n' && p[i]);
                i++;
            }
        EXPECT(i < n && (p[i] == ',' || p[i] == '\r'));
        if (p[i++] == ',') continue;
        EXPECT(i < n && p[i] == '\n' && cell == cells);
        i++;
        cell = 0;
    }
    EXPECT(cell == 1);
}

// ---- XML and HTML

typedef struct {
    const char *p, *end;
    int html;
} markup;

static int is_word(const char *list, const char *word, size_t n) { // list: words between blanks
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == n && !memcmp(at, word, n)) return 1;
    return 0;
}

static void entity(markup *m) {
    static const char *const named[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!strncmp(m->p, named[i], strlen(named[i]))) {
            m->p += strlen(named[i]);
            return;
        }
    char *end;
    EXPECT(m->p[1] == '#' && isdigit((unsigned char)m->p[2]));
    const long cp = strtol(m->p + 2, &end, 10);
    EXPECT(*end == ';' && cp >= 32 && cp < 127);
    m->p = end + 1;
}

// Characters up to one of `ends`: such that XML allows, entities that are ones, no markup.
static void characters(markup *m, const char *ends) {
    while (m->p < m->end && !strchr(ends, *m->p)) {
        uint32_t cp = 0;
        const int n = ls_utf8_decode(m->p, (size_t)(m->end - m->p), &cp);
        EXPECT(n > 0 && *m->p != '<');
        EXPECT((cp >= 32 || cp == '\n' || cp == '\t') && (cp < 0x7F || cp >= 0xA0) && (cp & 0xFFFE) != 0xFFFE);
        EXPECT((cp < 0x202A || cp > 0x202E) && (cp < 0x2066 || cp > 0x2069)); // they turn what stands around them
        if (cp == '&') entity(m);
        else m->p += n;
    }
}

static void expect_number(const char *p, size_t n) {
    char text[40], *end;
    EXPECT(n && n < sizeof text);
    memcpy(text, p, n);
    text[n] = 0;
    EXPECT(isfinite(strtod(text, &end)) && (!*end || !strcmp(end, "%")));
}

static void attribute(markup *m) {
    static const char numbers[] = "x y cx cy r rx width height textLength font-size stroke-width fill-opacity "
                                  "stroke-opacity opacity data-group data-id data-n data-of data-parent data-row "
                                  "data-step data-token data-turn data-value";
    static const char others[] = "charset class color content d data-plot data-special data-state data-x fill "
                                 "font-family font-weight href http-equiv id lang name open rel role stroke "
                                 "stroke-dasharray style text-anchor text-decoration title transform viewBox "
                                 "xml:space xmlns";
    const char *name = m->p, *value;
    while (m->p < m->end && (isalnum((unsigned char)*m->p) || strchr("-:", *m->p))) m->p++;
    const size_t n = (size_t)(m->p - name);
    const int number = is_word(numbers, name, n);
    EXPECT(number || is_word(others, name, n));
    if (m->html && *m->p != '=') return; // "open"
    EXPECT(m->end - m->p > 2 && m->p[0] == '=' && m->p[1] == '"');
    value = m->p += 2;
    characters(m, "\"");
    EXPECT(m->p < m->end);
    if (number) expect_number(value, (size_t)(m->p - value));
    if (is_word("d transform viewBox", name, n))
        EXPECT(!memmem(value, (size_t)(m->p - value), "nan", 3) && !memmem(value, (size_t)(m->p - value), "inf", 3));
    if (is_word("href", name, n)) EXPECT(!strncmp(value, "data:", 5));
    m->p++;
}

void fuzz_markup(const char *p, size_t n) {
    static const char elements[] = "body circle details div figcaption figure g h1 h2 h3 head html link meta p path "
                                   "rect section span style summary svg table tbody td text th thead title tr";
    enum { DEEP = 64 };
    static const char doctype[] = "<!DOCTYPE html>\n";
    struct {
        const char *name;
        size_t n;
    } open[DEEP];
    int depth = 0;
    markup m = {p, p + n, !strncmp(p, doctype, sizeof doctype - 1)};
    EXPECT(strlen(p) == n); // no NUL in it
    if (m.html) m.p += sizeof doctype - 1;
    for (characters(&m, "<"); m.p < m.end; characters(&m, "<")) {
        const int closes = m.p[1] == '/';
        const char *name = m.p += 1 + closes;
        while (m.p < m.end && (isalnum((unsigned char)*m.p))) m.p++;
        const size_t len = (size_t)(m.p - name);
        EXPECT(is_word(elements, name, len));
        if (closes) {
            EXPECT(depth-- && open[depth].n == len && !memcmp(open[depth].name, name, len) && *m.p++ == '>');
            continue;
        }
        while (*m.p == ' ') {
            m.p++;
            attribute(&m);
        }
        const int empty = *m.p == '/' || (m.html && is_word("meta link", name, len));
        m.p += *m.p == '/';
        EXPECT(*m.p++ == '>' && depth < DEEP);
        if (!empty) {
            open[depth].name = name;
            open[depth++].n = len;
        }
        if (is_word("style", name, len)) m.p = strstr(m.p, "</style>");
        EXPECT(m.p);
    }
    EXPECT(!depth);
}

// ---- terminals

void fuzz_shown(const char *p, size_t n, int ansi) {
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        const int len = ls_utf8_decode(p + i, n - i, &cp);
        EXPECT(len > 0);
        if (ansi && cp == 27) {
            EXPECT(p[++i] == '[');
            i += 1 + strspn(p + i + 1, "?0123456789;");
            EXPECT(i < n && strchr("mHlh", p[i])); // colours, the cursor
            i++;
            continue;
        }
        EXPECT(cp == '\n' || (cp >= 32 && (cp < 127 || cp >= 160)));
        EXPECT((cp < 0x200B || cp > 0x200F) && (cp < 0x2028 || cp > 0x202E) && (cp < 0x2060 || cp > 0x206F) &&
               cp != 0xFEFF && cp != 0x61C);
        i += (size_t)len;
    }
}

void fuzz_screen(ui_state *s, int rows, int cols, ui_film *film, double seconds) {
    const ui_theme *theme = ui_theme_find("default");
    ui_canvas c = {.utf8 = true, .ascii = s->view.ascii};
    ls_buf out = {0};
    ui_canvas_resize(&c, rows, cols);
    ui_render(s, &c);
    ui_canvas_text(&c, false, &out);
    fuzz_shown(out.p, out.n, 0);
    if (film) {
        ui_film_frame(film, &c, seconds);
        ls_buf_clear(&out);
        ui_canvas_ansi(&c, theme, &out);
        fuzz_shown(out.p, out.n, 1);
        ls_buf_clear(&out);
        ui_canvas_svg(&c, theme, &out);
        fuzz_markup(out.p, out.n);
    }
    ls_buf_free(&out);
    ui_canvas_free(&c);
}

// ---- in place of what the program does to the world (linked by --wrap)

// Nothing is written: what a key script or a film would put into a file is looked at.
ls_code __wrap_ls_write_file(const char *path, const ls_buf *bytes, ls_err *err);
ls_code __wrap_ls_write_file(const char *path, const ls_buf *bytes, ls_err *err) {
    const char *end = strrchr(path, '.'), *p = bytes->n ? bytes->p : "";
    (void)err;
    if (end && end != path && !strcmp(end, ".svg")) fuzz_markup(p, bytes->n);
    else if (end && !strcmp(end, ".cast")) fuzz_json_lines(p, bytes->n);
    else fuzz_shown(p, bytes->n, end && end != path && !strcmp(end, ".ansi"));
    return LS_OK;
}

// A clock that runs faster the more often it is asked, so that nobody waits: a minute is over after fifty looks.
static uint64_t now_ns, tick_ns;
static int looks;

void fuzz_clock(void) {
    now_ns = looks = 0;
    tick_ns = 1 << 22;
}

uint64_t __wrap_ls_now_ns(void);
uint64_t __wrap_ls_now_ns(void) {
    if (++looks % 4 == 0 && tick_ns < 1ull << 40) tick_ns *= 2;
    return now_ns += tick_ns;
}
