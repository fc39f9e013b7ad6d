#include "report/markup.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Turns or hides text, or may not stand in XML.
static bool is_hidden(uint32_t cp) {
    return cp < 0x20 || (cp >= 0x7F && cp < 0xA0) || cp == 0xAD || cp == 0x61C || (cp >= 0x200B && cp <= 0x200F) ||
           (cp >= 0x2028 && cp <= 0x202E) || (cp >= 0x2060 && cp <= 0x206F) || cp == 0xFEFF ||
           (cp >= 0xFFF0 && cp <= 0xFFFB) || (cp & 0xFFFE) == 0xFFFE || (cp >= 0xE0000 && cp <= 0xE0FFF);
}

static void put(ls_buf *out, const char *p, size_t n, bool html) {
    const char *open = html ? "&lt;" : "<", *close = html ? "&gt;" : ">";
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        const int len = ls_utf8_decode(p + i, n - i, &cp);
        if (len <= 0) ls_buf_fmt(out, "%s%02X%s", open, (unsigned char)p[i], close);
        else if (cp == '\n' || cp == '\t') ls_buf_char(out, p[i]);
        else if (cp < 0x20 || cp == 0x7F) ls_buf_fmt(out, "%s%02X%s", open, (unsigned)cp, close);
        else if (is_hidden(cp)) ls_buf_fmt(out, "%sU+%04X%s", open, (unsigned)cp, close);
        else if (html && strchr("<>&\"'", p[i])) ls_buf_fmt(out, "&#%u;", (unsigned)cp);
        else ls_buf_add(out, p + i, (size_t)len);
        i += len > 0 ? (size_t)len : 1;
    }
}

void ls_markup(ls_buf *out, const char *p, size_t n) {
    put(out, p, n, true);
}

void ls_label_safe(ls_buf *out, const char *p, size_t n) {
    put(out, p, n, false);
}

void ls_markup_str(ls_buf *out, const char *s) {
    ls_markup(out, s, strlen(s));
}

void ls_markup_fmt(ls_buf *out, const char *fmt, ...) {
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n >= 0) ls_markup(out, text, (size_t)n);
    free(text);
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

size_t ls_label_cells(const char *p, size_t n) {
    size_t cells = 0;
    for (size_t i = 0; i < n;) {
        const int len = ls_utf8_decode(p + i, n - i, NULL);
        cells += len > 0 ? 1 : 4; // <E4>
        i += len > 0 ? (size_t)len : 1;
    }
    return cells;
}
