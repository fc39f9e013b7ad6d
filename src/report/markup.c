#include "report/markup.h"
#include "base/colour.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void ls_markup_after(ls_buf *out, const char *p, size_t n, uint32_t *before) {
    char sign[LS_SANITIZE_BYTES];
    for (size_t i = 0; i < n;) {
        const size_t taken = ls_sanitize_next(p + i, n - i, before, sign);
        const bool kept = !*sign || p[i] == '\n' || p[i] == '\t';
        const char *shown = kept ? p + i : sign;
        const size_t length = kept ? taken : strlen(sign);
        for (size_t k = 0; k < length; k++)
            if (strchr("<>&\"'", shown[k])) ls_buf_fmt(out, "&#%d;", shown[k]);
            else ls_buf_char(out, shown[k]);
        i += taken;
    }
}

void ls_markup(ls_buf *out, const char *p, size_t n) {
    ls_markup_after(out, p, n, &(uint32_t){0});
}

void ls_markup_str(ls_buf *out, const char *s) {
    ls_markup(out, s, strlen(s));
}

void ls_markup_fmt(ls_buf *out, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = ls_format_list(fmt, ap);
    va_end(ap);
    ls_markup_str(out, text);
    free(text);
}

// Whether p[i] could be syntax of CommonMark or of tables. An underscore within a word, an apostrophe or a lone & is
// not, and stays readable where the source itself is read.
static bool is_markdown_syntax(const char *p, size_t n, size_t i) {
    const unsigned char before = i ? (unsigned char)p[i - 1] : 0, after = i + 1 < n ? (unsigned char)p[i + 1] : 0;
    switch (p[i]) {
    case '_': return !isalnum(before) || !isalnum(after);
    case '&': return !after || isalnum(after) || after == '#';
    case '>': return !i;
    default: return p[i] && strchr("<|*`[]\\~", p[i]);
    }
}

// Entities are never syntax, so characters that could be become entities.
void ls_markdown(ls_buf *out, const char *p, size_t n) {
    ls_buf b = {0};
    ls_sanitize_text(&b, p, n);
    for (size_t i = 0; i < b.n; i++)
        if (is_markdown_syntax(b.p, b.n, i)) ls_buf_fmt(out, "&#%d;", b.p[i]);
        else ls_buf_char(out, b.p[i] == '\n' || b.p[i] == '\t' ? ' ' : b.p[i]);
    ls_buf_free(&b);
}

void ls_markdown_str(ls_buf *out, const char *s) {
    ls_markdown(out, s, strlen(s));
}

// RFC 4180. A leading apostrophe keeps a spreadsheet from evaluating the text as a formula.
void ls_csv_str(ls_buf *out, const char *s) {
    ls_buf shown = {0};
    ls_sanitize_str(&shown, s);
    ls_buf_char(out, '"');
    if (shown.n && strchr("=+-@", *shown.p)) ls_buf_char(out, '\'');
    for (size_t i = 0; i < shown.n; i++) {
        if (shown.p[i] == '"') ls_buf_char(out, '"');
        ls_buf_char(out, shown.p[i]);
    }
    ls_buf_char(out, '"');
    ls_buf_free(&shown);
}

void ls_label_token(ls_buf *out, const ls_tokens *t, int32_t id) {
    const ls_token *token = ls_token_of(t, id);
    for (int32_t i = 0; i < token->n; i++) switch (token->bytes[i]) {
        case ' ': ls_buf_str(out, "·"); break;
        case '\n': ls_buf_str(out, "⏎"); break;
        case '\t': ls_buf_str(out, "⇥"); break;
        default: ls_buf_char(out, token->bytes[i]);
        }
}

// ---- pages

static const char common[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:84em;margin:0 auto;padding:1em 1.5em;background:var(--ground);"
    "color:var(--ink);overflow-wrap:break-word}"
    "h1{font-size:1.6em;margin:.2em 0}h2{font-size:1.25em;margin:1.8em 0 .4em}h3{font-size:1em;margin:1.2em 0 .3em}"
    "table{border-collapse:collapse;margin:.5em 0}"
    "th,td{text-align:left;padding:.15em .9em .15em 0;border-bottom:1px solid #8884;vertical-align:top}"
    "td{font-variant-numeric:tabular-nums}td,th{max-width:24em}"
    "figcaption,.note{color:var(--soft);font-size:.85em}"
    ".scroll{overflow-x:auto}pre{white-space:pre-wrap}"
    "figure{margin:0;break-inside:avoid}figure h3{margin:.4em 0}svg.plot{max-width:100%;height:auto}"
    ".warn{color:var(--bad);font-weight:600}";

static void colours(ls_buf *out) {
    static const struct {
        const char *name;
        int light, dark;
    } list[] = {{"ground", LS_GROUND_LIGHT, LS_GROUND_DARK},
                {"ink", LS_INK_LIGHT, LS_INK_DARK},
                {"soft", LS_SOFT_LIGHT, LS_SOFT_DARK},
                {"good", LS_GOOD_LIGHT, LS_GOOD_DARK},
                {"bad", LS_BAD_LIGHT, LS_BAD_DARK}};
    for (int dark = 0; dark < 2; dark++) {
        ls_buf_str(out, dark ? "}@media(prefers-color-scheme:dark){:root{" : ":root{color-scheme:light dark;");
        for (size_t i = 0; i < sizeof list / sizeof *list; i++)
            ls_buf_fmt(out, "--%s:#%06x;", list[i].name, ls_rgb256(dark ? list[i].dark : list[i].light));
    }
    ls_buf_str(out, "}}");
}

void ls_page_begin(ls_buf *out, const char *title, const char *style) {
    ls_buf_str(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                    "'unsafe-inline'; img-src data:\">\n"
                    "<link rel=\"icon\" href=\"data:,\">\n");
    ls_page_tag(out, "title", title);
    ls_buf_str(out, "<style>");
    colours(out);
    ls_buf_str(out, common);
    ls_buf_str(out, style);
    ls_buf_str(out, "</style></head><body>\n");
    ls_page_tag(out, "h1", title);
}

void ls_page_end(ls_buf *out) {
    ls_buf_str(out, "</body></html>\n");
}

void ls_page_tag(ls_buf *out, const char *name, const char *text) {
    ls_buf_fmt(out, "<%s>", name);
    ls_markup_str(out, text);
    ls_buf_fmt(out, "</%s>\n", name);
}
