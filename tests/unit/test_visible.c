// What of a stranger's text reaches a terminal as it is, and what by a sign.
#include "base/json.h"
#include "base/utf8.h"
#include "report/markup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void line(const char *text, const char *want) {
    ls_buf out = {0};
    ls_sanitize_str(&out, text);
    assert_string_equal(out.n ? out.p : "", want);
    assert_int_equal(ls_all_visible(text), !strcmp(text, want));
    ls_buf_free(&out);
}

static void signs(void **state) {
    (void)state;
    line("", "");
    line("a\x1b[2J\nb\tc\r\x7f", "a^[[2J⏎b⇥c^M^?");
    line("\302\200\302\205\302\23331m\u00a0", "<U+0080><U+0085><U+009B>31m\u00a0");
    line("\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069\ufeff\u00ad",
         "<U+061C><U+200B><U+200E><U+200F><U+2028><U+2029><U+202A><U+202E><U+2066><U+2069><U+FEFF><U+00AD>");
    line("\U000e0041\U000e007f", "<U+E0041><U+E007F>");
    // cut off, overlong, a surrogate, beyond the last code point, bytes that UTF-8 never has
    line("\xE4\xBD\xA0\xE4\xBD\x7F\xFF.", "\xE4\xBD\xA0<E4><BD>^?<FF>.");
    line("\xC0\xAF\xED\xA0\x80\xF4\x90\x80\x80", "<C0><AF><ED><A0><80><F4><90><80><80>");
    line("x\xF0\x9F\x98", "x<F0><9F><98>");
}

static void what_text_needs_stays(void **state) {
    (void)state;
    static const char *const kept[] = {
        "naïve Ω 你好 العربية עברית ไทย",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",                      // Persian with ZWNJ
        "\u0915\u094d\u200d\u0937",                                              // Devanagari with ZWJ
        "\U0001F469\u200D\U0001F4BB \u2764\uFE0F\u200D\U0001F525 1\uFE0F\u20E3", // pictures of several characters
        "\u845b\U000E0100",                                                      // an ideograph with its variant
        "\U0001F1E9\U0001F1EA \U0001F44D\U0001F3FD",
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) line(kept[i], kept[i]);
    line("pay\u200dpal\u200c", "pay<U+200D>pal<U+200C>");
    line("\U0001F469\u200d\u200d\u200d", "\U0001F469\u200d<U+200D><U+200D>");
    line("\u2764\uFE0F\uFE0E\uFE0F", "\u2764\uFE0F<U+FE0E><U+FE0F>"); // bits that nobody sees
    line("a\U000E0100\uFE01", "a<U+E0100><U+FE01>");
}

// For every code point: a sign is plain, and so is what is made of it.
static void signs_are_plain(void **state) {
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char sign[LS_SANITIZE_BYTES], bytes[4], again[LS_SANITIZE_BYTES];
        const int n = ls_utf8_encode(cp, bytes);
        uint32_t before = 0;
        if (!n) continue;
        assert_int_equal(ls_sanitize_next(bytes, (size_t)n, &before, sign), n);
        assert_int_equal(before, *sign ? 0 : cp);
        for (size_t at = 0, all = strlen(sign); at < all;) {
            at += ls_sanitize_next(sign + at, all - at, &before, again);
            assert_string_equal(again, "");
        }
        if (cp < 0x20 || (cp >= 0x7F && cp < 0xA0)) assert_true(*sign);
    }
}

// However a text is cut into pieces, what is shown is the same.
static void pieces(void **state) {
    (void)state;
    static const char text[] = "a\302\2331m\n\xE4\xBD\u4f60\U0001F469\u200D\U0001F4BB\xF0\x9F\x98z\u202e\xC2";
    const size_t n = sizeof text - 1;
    ls_buf want = {0};
    ls_sanitize_text(&want, text, n);
    assert_string_equal(want.p, "a<U+009B>1m\n<E4><BD>\u4f60\U0001F469\u200D\U0001F4BB<F0><9F><98>z<U+202E><C2>");
    for (size_t i = 0; i <= n; i++)
        for (size_t j = i; j <= n; j++) {
            ls_sanitize_stream s = {0};
            ls_buf got = {0};
            ls_sanitize_push(&s, text, i, &got);
            ls_sanitize_push(&s, text + i, j - i, &got);
            for (size_t k = j; k < n; k++) ls_sanitize_push(&s, text + k, 1, &got);
            ls_sanitize_end(&s, &got);
            assert_string_equal(got.p, want.p);
            ls_buf_free(&got);
        }
    ls_buf_free(&want);
}

// JSON that is written holds nothing of that raw, and is read as it was.
static void json_is_exact(void **state) {
    (void)state;
    static const char text[] =
        "\x1b]0;"
        "x\x07\n\t\"\\\302\205\302\233\u061c\u202e\u2066\u200d\U0001F469\u200d\U0001F4BB\ufe0f\U000e0041\U0010ffff";
    ls_buf out = {0}, shown = {0};
    ls_jsonw w = {.out = &out};
    ls_jw_open(&w, '[');
    ls_jw_strn(&w, text, sizeof text - 1);
    ls_jw_close(&w, ']');
    ls_sanitize_line(&shown, out.p, out.n);
    assert_string_equal(shown.p, out.p);
    ls_json *doc;
    ls_err err;
    size_t n;
    assert_int_equal(ls_json_parse(&doc, out.p, out.n, "here", &err), LS_OK);
    const char *back = ls_json_str(ls_json_at(doc, 0), &n);
    assert_int_equal(n, sizeof text - 1);
    assert_memory_equal(back, text, n);
    ls_json_free(doc);
    ls_buf_free(&out);
    ls_buf_free(&shown);
}

static void cell(const char *text, const char *want) {
    ls_buf out = {0};
    ls_csv_str(&out, text);
    assert_string_equal(out.p, want);
    ls_buf_free(&out);
}

static void cells_of_a_table(void **state) {
    (void)state;
    cell("", "\"\"");
    cell("a \"b\", c", "\"a \"\"b\"\", c\"");
    cell("=1+1", "\"'=1+1\"");
    cell("@SUM(A1)", "\"'@SUM(A1)\"");
    cell("-x", "\"'-x\"");
    cell("\t=1", "\"⇥=1\""); // no blank is left that a reader would drop
    cell("a\x1b[31m\n", "\"a^[[31m⏎\"");
}

static void markup(void **state) {
    (void)state;
    ls_buf out = {0};
    ls_markup_str(&out, "<b>\x1b\u202e&\n'\xFF");
    assert_string_equal(out.p, "&#60;b&#62;^[&#60;U+202E&#62;&#38;\n&#39;&#60;FF&#62;");
    ls_buf_free(&out);
}

static void markdown(void **state) {
    (void)state;
    ls_buf out = {0};
    ls_markdown_str(&out, "Q4_1 plain's a & b > c");
    assert_string_equal(out.p, "Q4_1 plain's a & b > c");
    ls_buf_free(&out);
    ls_markdown_str(&out, "> _a_ &lt;<b>\n`*[x](y)|~~\\");
    assert_string_equal(out.p, "&#62; &#95;a&#95; &#38;lt;&#60;b> &#96;&#42;&#91;x&#93;(y)&#124;&#126;&#126;&#92;");
    ls_buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs),           cmocka_unit_test(what_text_needs_stays),
        cmocka_unit_test(signs_are_plain), cmocka_unit_test(pieces),
        cmocka_unit_test(json_is_exact),   cmocka_unit_test(cells_of_a_table),
        cmocka_unit_test(markup),          cmocka_unit_test(markdown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
