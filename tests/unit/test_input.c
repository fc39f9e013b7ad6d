// Bytes of a terminal as keys: each sequence whole, in one piece and byte by byte, and what must not be a key.
#include "base/mem.h"
#include "ui/input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ALL = 64 };
static const uint64_t MS = 1000000;

// The keys that the bytes are when they come in pieces of that size, 10 ms apart, and nothing after them for 10 s.
static int keys_of(const char *bytes, size_t n, size_t piece, ui_key *keys, ls_buf *pasted) {
    ui_input in = {0};
    uint64_t now = 1000 * MS;
    int n_keys = 0;
    for (size_t i = 0; i <= n; i += i + piece > n && i < n ? n - i : piece) {
        if (i < n) ui_input_feed(&in, bytes + i, n - i < piece ? n - i : piece, now += 10 * MS);
        else now += 10000 * MS; // all that has begun is over
        for (ui_key k; (k = ui_input_next(&in, now)).code != UI_KEY_NONE;) {
            assert_true(n_keys < ALL);
            keys[n_keys++] = k;
            if (k.code == UI_KEY_PASTE && pasted) ls_buf_add(pasted, in.text.p, in.text.n);
        }
        if (i < n) assert_true(ui_input_wait_ms(&in, now) <= 3001);
        else assert_int_equal(ui_input_wait_ms(&in, now), -1);
    }
    ui_input_free(&in);
    return n_keys;
}

// want ends with 0. Whatever follows is not touched.
static void assert_keys(const char *bytes, const int *want) {
    char *followed = ls_format("%sx", bytes);
    for (size_t piece = 1; piece <= strlen(bytes) + 1; piece += strlen(bytes)) {
        ui_key keys[ALL];
        const int n = keys_of(followed, strlen(followed), piece, keys, NULL);
        for (int i = 0; i < n; i++)
            if (keys[i].code != (want[i] ? want[i] : 'x'))
                fail_msg("'%s' in pieces of %zu: key %d is %x", bytes + 1, piece, i, (unsigned)keys[i].code);
        assert_true(n > 0 && !want[n - 1]);
    }
    free(followed);
}

#define KEYS(bytes, ...) assert_keys(bytes, (const int[]){__VA_ARGS__, 0})
#define NOTHING(bytes) assert_keys(bytes, (const int[]){0})

static void keys_of_terminals(void **state) {
    (void)state;
    for (int f = 1; f <= 4; f++) {
        const char ss3[] = {27, 'O', (char)('O' + f), 0}, csi[] = {27, '[', (char)('O' + f), 0},
                   console[] = {27, '[', '[', (char)('@' + f), 0};
        char *number = ls_format("\033[%d~", 10 + f); // PuTTY, rxvt
        KEYS(ss3, UI_KEY_F0 + f);
        KEYS(csi, UI_KEY_F0 + f);
        KEYS(console, UI_KEY_F0 + f);
        KEYS(number, UI_KEY_F0 + f);
        free(number);
    }
    KEYS("\033[15~", UI_KEY_F0 + 5);
    KEYS("\033[21~", UI_KEY_F0 + 10);
    KEYS("\033[24~", UI_KEY_F0 + 12);
    KEYS("\033[A\033OA\033[B\033OB", UI_KEY_UP, UI_KEY_UP, UI_KEY_DOWN, UI_KEY_DOWN);
    KEYS("\033[C\033[D\033OC\033OD", UI_KEY_RIGHT, UI_KEY_LEFT, UI_KEY_RIGHT, UI_KEY_LEFT);
    KEYS("\033[H\033OH\033[1~\033[7~", UI_KEY_HOME, UI_KEY_HOME, UI_KEY_HOME, UI_KEY_HOME);
    KEYS("\033[F\033OF\033[4~\033[8~\033Ow", UI_KEY_END, UI_KEY_END, UI_KEY_END, UI_KEY_END, UI_KEY_END);
    KEYS("\033[5~\033[6~\033[3~\033[Z", UI_KEY_PAGE_UP, UI_KEY_PAGE_DOWN, UI_KEY_DELETE, UI_KEY_BACKTAB);
    KEYS("\177\b\r\n\t", UI_KEY_BACKSPACE, UI_KEY_BACKSPACE, UI_KEY_ENTER, UI_KEY_NEWLINE, UI_KEY_TAB);
    // with modifiers: xterm, rxvt, older ones, and those that tell all keys
    KEYS("\033[1;5C\033[1;3D\033Oc\033O5D", UI_KEY_WORD_RIGHT, UI_KEY_WORD_LEFT, UI_KEY_WORD_RIGHT, UI_KEY_WORD_LEFT);
    KEYS("\033[5D\033[5C", UI_KEY_WORD_LEFT, UI_KEY_WORD_RIGHT); // xterm, long ago
    KEYS("\033\n\033[57414u\033[57414;2u\033[57400u", UI_KEY_NEWLINE, UI_KEY_ENTER, UI_KEY_NEWLINE, '1');
    KEYS("\033[97;65u\033[97;1:1u\033[97;1:2u", 'a', 'a', 'a'); // Caps Lock; pressed, repeated
    KEYS("\033[3$\033[7^", UI_KEY_DELETE, UI_KEY_HOME);
    KEYS("\033[1;2A\033[a\033[5;5~", UI_KEY_UP, UI_KEY_UP, UI_KEY_PAGE_UP);
    KEYS("\033\r\033[13;2u\033[27;2;13~", UI_KEY_NEWLINE, UI_KEY_NEWLINE, UI_KEY_NEWLINE);
    KEYS("\033b\033f\033d\033\177", UI_KEY_WORD_LEFT, UI_KEY_WORD_RIGHT, UI_KEY_DELETE_WORD, UI_CTRL('W'));
    KEYS("\033[99;5u\033[97u\033[97;2u\033[9;2u", UI_CTRL('C'), 'a', 'A', UI_KEY_BACKTAB);
    KEYS("\033\003", UI_CTRL('C')); // Esc, and ^C at once
    KEYS("\033[27u\033\033[C", UI_KEY_ESC, UI_KEY_WORD_RIGHT);
    KEYS("\033Oj\033Op\033OM", '*', '0', UI_KEY_ENTER); // the keypad
}

static void what_has_no_meaning_does_nothing(void **state) {
    (void)state;
    NOTHING("\033q");               // Alt-q
    NOTHING("\033\303\251");        // Alt and an é
    NOTHING("\033[1;2P\033[23;5~"); // function keys with modifiers
    NOTHING("\033[2~\033[E\033[I\033[O");
    NOTHING("\033[?1;2c\033[>0;276;0c\033[24;80R\033[?2026;1$y\033[3;1$y"); // answers
    NOTHING("\033]11;rgb:ff/ff/gg\a\033]0;q\033\\\033P1$r0 q\033\\\033_Gq\033\\\033^q\033\\");
    NOTHING("\033[12345678901234567890;;;;;;;;;q");
    NOTHING("\033[57441u");                                        // a modifier alone
    NOTHING("\033[97;1:3u\033[1;1:3D\033[97;9u\033[1;9D\033[23$"); // released; with Super; rxvt's Shift-F11
    ui_key k[ALL];
    assert_int_equal(keys_of("\0", 1, 1, k, NULL), 0);
    // what is cut off by another key leaves that key alone
    KEYS("\033[1;\r", UI_KEY_ENTER);
    KEYS("\033]0;title\003", UI_CTRL('C'));
    KEYS("\033[\033[A", UI_KEY_UP);
}

static void a_lone_escape_is_a_key_after_a_while(void **state) {
    (void)state;
    ui_input in = {0};
    ui_input_feed(&in, "\033", 1, 0);
    assert_int_equal(ui_input_next(&in, 50 * MS).code, UI_KEY_NONE);
    assert_int_equal(ui_input_wait_ms(&in, 50 * MS), 51);
    assert_int_equal(ui_input_next(&in, 100 * MS).code, UI_KEY_ESC);
    ui_input_feed(&in, "\033", 1, 200 * MS); // a slow link
    assert_int_equal(ui_input_next(&in, 200 * MS).code, UI_KEY_NONE);
    ui_input_feed(&in, "[", 1, 280 * MS);
    assert_int_equal(ui_input_next(&in, 400 * MS).code, UI_KEY_NONE);
    ui_input_feed(&in, "A", 1, 600 * MS);
    assert_int_equal(ui_input_next(&in, 600 * MS).code, UI_KEY_UP);
    ui_input_feed(&in, "\033]", 2, 610 * MS); // Alt-], then letters
    assert_int_equal(ui_input_next(&in, 610 * MS).code, UI_KEY_NONE);
    assert_int_equal(ui_input_next(&in, 720 * MS).code, UI_KEY_NONE);
    ui_input_feed(&in, "h", 1, 730 * MS);
    assert_int_equal(ui_input_next(&in, 730 * MS).code, 'h');
    in.escape_ms = 20;
    ui_input_feed(&in, "\033", 1, 800 * MS);
    assert_int_equal(ui_input_next(&in, 820 * MS).code, UI_KEY_ESC);
    ui_input_free(&in);
    ui_key k[ALL];
    assert_int_equal(keys_of("\033\033", 2, 2, k, NULL), 2);
    assert_true(k[0].code == UI_KEY_ESC && k[1].code == UI_KEY_ESC);
}

static void characters_may_come_in_parts(void **state) {
    (void)state;
    KEYS("caf\303\251 \344\270\226\360\237\230\200", 'c', 'a', 'f', 0xE9, ' ', 0x4E16, 0x1F600);
    KEYS("\351", UI_KEY_INVALID); // Latin-1
    KEYS("\303\033[A", UI_KEY_INVALID, UI_KEY_UP);
    KEYS("\300\257", UI_KEY_INVALID, UI_KEY_INVALID);
    ui_input in = {0};
    ui_input_feed(&in, "\303", 1, 0);
    assert_int_equal(ui_input_next(&in, 50 * MS).code, UI_KEY_NONE);
    ui_input_feed(&in, "\251", 1, 50 * MS);
    assert_int_equal(ui_input_next(&in, 50 * MS).code, 0xE9);
    ui_input_free(&in);
}

static void assert_pasted(const char *bytes, const char *text, int cut) {
    const size_t n = strlen(bytes);
    for (size_t piece = 1; piece <= n; piece += n > 8 ? n / 4 : 1) {
        ui_key k[ALL];
        ls_buf got = {0};
        const int n_keys = keys_of(bytes, n, piece, k, &got);
        assert_int_equal(n_keys, 1);
        assert_int_equal(k[0].code, UI_KEY_PASTE);
        assert_int_equal(k[0].tag, cut);
        assert_int_equal(got.n, strlen(text));
        assert_memory_equal(got.n ? got.p : "", text, got.n);
        ls_buf_free(&got);
    }
}

static void nothing_in_a_paste_is_a_key(void **state) {
    (void)state;
    assert_pasted("\033[200~a\033OS\177q\003b\033[201~", "a\033OS\177q\003b", 0);
    assert_pasted("\033[200~\033[201~", "", 0);
    assert_pasted("\033[200~\033[200~\033[20\033[201~", "\033[200~\033[20", 0);
    assert_pasted("\033[200~ends never", "ends never", 1);
    KEYS("\033[200~a\033[201~q\033[A", UI_KEY_PASTE, 'q', UI_KEY_UP);
    NOTHING("\033[201~"); // of a paste that was ended by its pause
    ls_buf cjk = {0}, got = {0};
    ls_buf_str(&cjk, "\033[200~");
    for (int i = 0; i < 1000; i++) ls_buf_str(&cjk, "\344\270\226");
    ls_buf_str(&cjk, "\033[201~");
    ui_key k[ALL];
    assert_int_equal(keys_of(cjk.p, cjk.n, 100, k, &got), 1);
    assert_int_equal(got.n, 3000);
    ls_buf_free(&cjk);
    ls_buf_free(&got);
}

static void a_paste_that_never_ends_is_ended(void **state) {
    (void)state;
    ui_input in = {0};
    ui_input_feed(&in, "\033[200~text", 10, 0);
    assert_int_equal(ui_input_next(&in, 0).code, UI_KEY_NONE);
    ui_input_feed(&in, "\003", 1, 1000 * MS); // alone, and nothing after it
    assert_int_equal(ui_input_next(&in, 1000 * MS).code, UI_KEY_NONE);
    assert_int_equal(ui_input_wait_ms(&in, 1000 * MS), 101);
    ui_input_feed(&in, "\003", 1, 1050 * MS); // it is held down
    assert_int_equal(ui_input_next(&in, 1149 * MS).code, UI_KEY_NONE);
    ui_key k = ui_input_next(&in, 1150 * MS);
    assert_true(k.code == UI_KEY_PASTE && k.tag == 1);
    assert_string_equal(in.text.p, "text");
    ui_input_feed(&in, "q", 1, 1200 * MS); // keys again
    assert_int_equal(ui_input_next(&in, 1200 * MS).code, 'q');
    ui_input_feed(&in, "\033[200~text\003", 11, 1300 * MS); // a text that ends so, as yet
    assert_int_equal(ui_input_next(&in, 1500 * MS).code, UI_KEY_NONE);
    ui_input_feed(&in, "q\r\033[201~", 8, 1500 * MS);
    k = ui_input_next(&in, 1500 * MS);
    assert_true(k.code == UI_KEY_PASTE && k.tag == 0);
    assert_string_equal(in.text.p, "text\003q\r");
    ui_input_feed(&in, "\033[200~more", 10, 2000 * MS);
    assert_int_equal(ui_input_next(&in, 4900 * MS).code, UI_KEY_NONE);
    k = ui_input_next(&in, 5000 * MS);
    assert_true(k.code == UI_KEY_PASTE && k.tag == 1);
    ui_input_free(&in);
}

static void the_mouse_and_the_background(void **state) {
    (void)state;
    ui_key k[ALL];
    assert_int_equal(keys_of("\033[<0;250;4M\033[<0;250;4m\033[<64;1;1M\033[<35;9;9M", 42, 1, k, NULL), 2);
    assert_true(k[0].code == UI_KEY_MOUSE && k[0].mouse == UI_MOUSE_CLICK && k[0].row == 3 && k[0].col == 249);
    assert_true(k[1].mouse == UI_MOUSE_WHEEL_UP);
    assert_int_equal(keys_of("\033[M !!q", 7, 1, k, NULL), 2); // the older reports
    assert_true(k[0].code == UI_KEY_MOUSE && k[0].row == 0 && k[0].col == 0 && k[1].code == 'q');
    assert_int_equal(keys_of("\033]11;rgb:ffff/8080/0000\033\\", 26, 3, k, NULL), 1);
    assert_true(k[0].code == UI_KEY_BACKGROUND && k[0].tag == 0xff8000);
    assert_int_equal(keys_of("\033]11;rgb:f/ff/000\a", 18, 1, k, NULL), 1);
    assert_int_equal(k[0].tag, 0xffff00);
    NOTHING("\033]11;rgb:f\a\033]11;rgb:ff/ff\a\033]11;rgb:ff/ff/\a");
}

// A terminal whose description names other sequences.
static void a_description_is_asked_first(void **state) {
    (void)state;
    ui_input in = {0};
    ui_input_learn(&in, "\033[224z", UI_KEY_F0 + 1);
    ui_input_learn(&in, "\033[", UI_KEY_LEFT);  // shorter than another
    ui_input_learn(&in, "\177", UI_KEY_DELETE); // no escape sequence
    ui_input_feed(&in, "\033[224z\177", 7, 0);
    assert_int_equal(ui_input_next(&in, 0).code, UI_KEY_F0 + 1);
    assert_int_equal(ui_input_next(&in, 0).code, UI_KEY_BACKSPACE);
    ui_input_free(&in);
}

// Any bytes, in any pieces: it comes to an end, and uses what it got.
static void any_bytes(void **state) {
    (void)state;
    static const char signs[] = "\033\033\033[[O]P~;0129<Mmu$\a\\\003\r\303\251 q\0200A";
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        char bytes[48];
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1103515245 + 12345;
            bytes[i] = signs[(seed >> 16) % (sizeof signs - 1)];
        }
        ui_key k[ALL];
        const int n = keys_of(bytes, sizeof bytes, 1 + seed % 7, k, NULL);
        assert_true(n <= (int)sizeof bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_terminals),
        cmocka_unit_test(what_has_no_meaning_does_nothing),
        cmocka_unit_test(a_lone_escape_is_a_key_after_a_while),
        cmocka_unit_test(characters_may_come_in_parts),
        cmocka_unit_test(nothing_in_a_paste_is_a_key),
        cmocka_unit_test(a_paste_that_never_ends_is_ended),
        cmocka_unit_test(the_mouse_and_the_background),
        cmocka_unit_test(a_description_is_asked_first),
        cmocka_unit_test(any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
