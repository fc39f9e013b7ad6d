#include "report/markup.h"
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
