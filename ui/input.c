#include "ui/input.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    ESCAPE_MS = 100,  // a lone ESC is the key Esc after this time: a slow link may delay the rest of a sequence
    REST_MS = 500,    // for the rest of a sequence or of a character
    STRING_MS = 1000, // for a whole string of the terminal: Alt-] with letters after it is no string
    ALONE_MS = 50,    // ^C ends an unfinished paste if it comes this long after the last bytes ...
    STOP_MS = 100,    // ... and nothing follows for this time
    PAUSE_MS = 3000,  // an unfinished paste ends after this time without bytes
    MOST_REPLY = 4096,
};

enum { SHIFT = 1, ALT = 2, CTRL = 4, FOREIGN = 8 | 16 | 32, LOCKS = 64 | 128 }; // of a modifier parameter, less one

void ui_input_free(ui_input *in) {
    ls_buf_free(&in->bytes);
    ls_buf_free(&in->text);
}

void ui_input_learn(ui_input *in, const char *sequence, int key) {
    if (*sequence != 27 || !sequence[1] || in->n_learnt == UI_SEQUENCES) return;
    in->learnt[in->n_learnt].sequence = sequence;
    in->learnt[in->n_learnt++].key = key;
}

void ui_input_feed(ui_input *in, const char *bytes, size_t n, uint64_t now_ns) {
    in->bytes.n -= in->at;
    if (in->bytes.n) memmove(in->bytes.p, in->bytes.p + in->at, in->bytes.n);
    in->at = 0;
    ls_buf_add(&in->bytes, bytes, n);
    bool stops = in->stopping || now_ns - in->since_ns >= ALONE_MS * 1000000ull;
    for (size_t i = 0; i < n; i++) stops &= bytes[i] == UI_CTRL('C');
    in->stopping = stops;
    in->since_ns = now_ns;
}

// What Shift, Alt and Ctrl make of a key; UI_KEY_NONE: nothing here.
static int with_modifiers(int key, int mods) {
    const int word = mods & (ALT | CTRL);
    if (mods & FOREIGN) return UI_KEY_NONE;
    if (key == UI_KEY_LEFT && word) return UI_KEY_WORD_LEFT;
    if (key == UI_KEY_RIGHT && word) return UI_KEY_WORD_RIGHT;
    if (key == UI_KEY_DELETE && word) return UI_KEY_DELETE_WORD;
    if (key == UI_KEY_BACKSPACE && word) return UI_CTRL('W');
    if ((key == UI_KEY_ENTER || key == UI_KEY_NEWLINE) && mods) return UI_KEY_NEWLINE;
    if (key == UI_KEY_TAB && mods) return mods == SHIFT ? UI_KEY_BACKTAB : UI_KEY_NONE;
    if (key > UI_KEY_F0 && mods) return UI_KEY_NONE;
    if (key >= UI_KEY_FIRST || !mods || key == UI_KEY_ESC) return key;
    if (key == UI_CTRL('C')) return key; // after Esc, in a hurry
    if (mods & ALT) {                    // the words of line editors
        const int letter = key | 32;
        return letter == 'b'   ? UI_KEY_WORD_LEFT
               : letter == 'f' ? UI_KEY_WORD_RIGHT
               : letter == 'd' ? UI_KEY_DELETE_WORD
                               : UI_KEY_NONE;
    }
    if (mods & CTRL) return key >= '@' && key < 127 ? UI_CTRL(key) : UI_KEY_NONE;
    return key >= 'a' && key <= 'z' ? key - 32 : key;
}

// The key of a code point, which may be a number in a sequence. Surrogates and the private use area (kitty's keys
// without a character) give UI_KEY_NONE.
static int of_character(int c) {
    if (c < 0 || c >= UI_KEY_FIRST || (c >= 0xD800 && c <= 0xF8FF)) return UI_KEY_NONE;
    return c == 127 || c == 8 ? UI_KEY_BACKSPACE : c;
}

// CSI or SS3, then a letter.
static int of_letter(int c) {
    static const struct {
        char letter;
        int key;
    } keys[] = {
#define KEY(id, name, capability, letter) {letter, UI_KEY_##id},
#include "ui/keys.def"
#undef KEY
        {'M', UI_KEY_ENTER}, {'w', UI_KEY_END}, {'I', UI_KEY_TAB}, {' ', ' '}, {'X', '='}};
    if (c >= 'P' && c <= 'S') return UI_KEY_F0 + 1 + c - 'P';
    for (size_t i = 0; c && i < sizeof keys / sizeof *keys; i++)
        if (keys[i].letter == c) return keys[i].key;
    return UI_KEY_NONE;
}

// CSI, a number, "~".
static int of_number(int n) {
    static const signed char function[] = {[11] = 1, 2, 3, 4, 5, [17] = 6, 7, 8, 9, 10, [23] = 11, 12};
    static const int named[] = {
        0, UI_KEY_HOME, 0, UI_KEY_DELETE, UI_KEY_END, UI_KEY_PAGE_UP, UI_KEY_PAGE_DOWN, UI_KEY_HOME, UI_KEY_END};
    if (n >= 0 && n < (int)(sizeof named / sizeof *named)) return named[n];
    return n > 0 && n < (int)sizeof function && function[n] ? UI_KEY_F0 + function[n] : UI_KEY_NONE;
}

static ui_key mouse(int button, int col, int row, bool pressed) {
    enum { WHEEL = 64, OTHERS = 3 | 32 | 128 }; // of a button: bits of others, and of motion
    const int which = button & (WHEEL | OTHERS);
    if (!pressed || col < 1 || row < 1 || (which && (which & ~1) != WHEEL)) return (ui_key){0};
    const ui_mouse_kind kind = !which ? UI_MOUSE_CLICK : which == WHEEL ? UI_MOUSE_WHEEL_UP : UI_MOUSE_WHEEL_DOWN;
    return (ui_key){UI_KEY_MOUSE, kind, row - 1, col - 1, 0};
}

// A whole control sequence: p[2] is the first byte behind CSI, p[end] the last one.
static ui_key of_csi(ui_input *in, const unsigned char *p, size_t end) {
    enum { RELEASE = 3, KITTY_KEYPAD = 57399, KITTY_KEYPAD_ENTER = 57414 }; // RELEASE: behind the modifiers' colon
    int v[4] = {0, 0, 0, 0}, n = 0, what = 0;
    const int last = p[end];
    const bool private = p[2] >= '<' && p[2] <= '?';
    for (size_t i = 2 + private; i < end; i++) {
        if (p[i] == ';' && n < 3) n++;
        else if (p[i] == ':') { // a part of a parameter
            if (n == 1 && !what) what = p[i + 1] - '0';
            while (i + 1 < end && p[i + 1] != ';') i++;
        } else if (p[i] >= '0' && p[i] <= '9' && v[n] < 1000000) v[n] = 10 * v[n] + p[i] - '0';
        else if (p[i] < '0') return (ui_key){0}; // an intermediate byte: no key
    }
    if (private)
        return p[2] == '<' && (last == 'M' || last == 'm') ? mouse(v[0], v[1], v[2], last == 'M') : (ui_key){0};
    if (last == '~' && v[0] == 200) {
        in->mode = UI_INPUT_PASTE;
        in->stopping = false;
        ls_buf_clear(&in->text);
        return (ui_key){0};
    }
    const bool old = !n && last >= 'A' && last <= 'D' && v[0] > 1; // the modifiers alone
    const int mods = old ? (v[0] - 1) & ~LOCKS : v[1] > 0 ? (v[1] - 1) & ~LOCKS : 0;
    int key = UI_KEY_NONE;
    if (what == RELEASE) return (ui_key){0};
    if (last == '~' && v[0] == 27 && n == 2) key = with_modifiers(of_character(v[2]), mods); // xterm: other keys
    else if (last == 'u' && v[0] >= KITTY_KEYPAD && v[0] < KITTY_KEYPAD + 10) key = v[0] - KITTY_KEYPAD + '0';
    else if (last == 'u' && v[0] == KITTY_KEYPAD_ENTER) key = with_modifiers(UI_KEY_ENTER, mods);
    else if (last == 'u') key = with_modifiers(of_character(v[0]), mods);
    else if (last == '~') key = with_modifiers(of_number(v[0]), mods);
    else if (last == '^' || last == '@') key = with_modifiers(of_number(v[0]), CTRL); // rxvt
    else if (last == '$') key = with_modifiers(of_number(v[0]), SHIFT);
    else if (last >= 'a' && last <= 'd') key = with_modifiers(of_letter(last - 32), SHIFT);
    else if ((last >= 'A' && last <= 'H') || last == 'Z' || (last >= 'P' && last <= 'S' && (!n || v[0] == 1)))
        key = with_modifiers(of_letter(last), last == 'Z' ? 0 : mods); // (with other numbers, R is a place)
    return (ui_key){.code = key};
}

// Returns the length of the sequence at p; 0: it is incomplete. over: no more bytes of it will come.
// k->code stays UI_KEY_NONE if the sequence means nothing here.
static size_t control_sequence(ui_input *in, const unsigned char *p, size_t n, bool over, ui_key *k) {
    enum { MOUSE_BYTES = 6 };
    if (n > 2 && p[2] == '[') { // the Linux console: CSI [ A is F1
        if (n > 3 && p[3] >= 'A' && p[3] <= 'E') k->code = UI_KEY_F0 + 1 + p[3] - 'A';
        return n > 3 ? 4 : over ? n : 0;
    }
    if (n > 2 && p[2] == 'M') { // the older mouse reports: three bytes, each 32 more than the number
        if (n < MOUSE_BYTES) return over ? n : 0;
        *k = mouse(p[3] - 32, p[4] - 32, p[5] - 32, true);
        return MOUSE_BYTES;
    }
    for (size_t i = 2; i < n; i++) {
        const bool rxvt = i <= 4 && p[i] == '$' && strspn((const char *)p + 2, "0123456789") == i - 2; // Shift
        if (p[i] < 0x20 || p[i] > 0x7e) return i; // it was cut off: what follows is something else
        if (p[i] < 0x40 && !rxvt) continue;
        *k = of_csi(in, p, i);
        return i + 1;
    }
    return over || n > MOST_REPLY ? n : 0;
}

static size_t single_shift(const unsigned char *p, size_t n, bool over, ui_key *k) {
    size_t i = 2;
    int mods = 0;
    while (i < n && ((p[i] >= '0' && p[i] <= '9') || p[i] == ';')) { // older terminals: a modifier
        if (p[i] != ';') mods = (p[i] - '1') & (SHIFT | ALT | CTRL);
        i++;
    }
    if (i == n) return over ? n : 0;
    if (p[i] < 0x20 || p[i] > 0x7e) return i;
    if (p[i] >= 'j' && p[i] <= 'y' && p[i] != 'w') k->code = p[i] - 64; // the digits and signs of the keypad
    else if (p[i] >= 'a' && p[i] <= 'd') k->code = with_modifiers(of_letter(p[i] - 32), CTRL); // rxvt
    else k->code = with_modifiers(of_letter(p[i]), mods);
    return i + 1;
}

static size_t sequence(ui_input *in, const unsigned char *p, size_t n, bool over, ui_key *k) {
    size_t best = 0;
    bool more = false;
    for (int i = 0; i < in->n_learnt; i++) {
        const char *s = in->learnt[i].sequence;
        const size_t m = strlen(s);
        if (m <= n && m > best && !memcmp(p, s, m)) {
            best = m;
            k->code = in->learnt[i].key;
        } else if (m > n && !memcmp(p, s, n)) more = true;
    }
    if (best) return best;
    if (n == 1 || (more && !over)) {
        if (over) k->code = UI_KEY_ESC;
        return over;
    }
    switch (p[1]) {
    case '[': return control_sequence(in, p, n, over, k);
    case 'O': return single_shift(p, n, over, k);
    case ']': // a string that a terminal sends: an answer
    case 'P':
    case 'X':
    case '^':
    case '_':
        in->mode = UI_INPUT_STRING;
        ls_buf_clear(&in->text);
        ls_buf_char(&in->text, (char)p[1]);
        in->began_ns = in->since_ns;
        return 2;
    case 27: // Alt and a key that has a sequence; else Esc, twice
        if (n == 2 && !over) return 0;
        if (n > 2 && (p[2] == '[' || p[2] == 'O')) {
            const size_t rest = sequence(in, p + 1, n - 1, over, k);
            k->code = with_modifiers(k->code, ALT);
            return rest ? rest + 1 : 0;
        }
        k->code = UI_KEY_ESC;
        return 1;
    default: break;
    }
    uint32_t cp = 0;
    const int len = ls_utf8_decode((const char *)p + 1, n - 1, &cp);
    if (!len && !over) return 0;
    if (len > 0) k->code = with_modifiers(of_character((int)cp), ALT);
    return 1 + (size_t)(len > 0 ? len : 1);
}

// xterm's answer to a question for a colour: "]11;rgb:", then three numbers of one to four hexadecimal digits.
static ui_key colour_answer(const ls_buf *text) {
    static const char begin[] = "]11;rgb";
    unsigned rgb = 0;
    const char *p = strchr(text->p, ':');
    if (strncmp(text->p, begin, sizeof begin - 1) || !p) return (ui_key){0};
    for (int i = 0; i < 3; i++) {
        char *end;
        const unsigned long v = strtoul(p + 1, &end, 16);
        const long digits = end - p - 1;
        if (digits < 1 || digits > 4 || !strchr("0123456789abcdefABCDEF", p[1])) return (ui_key){0};
        if (i < 2 && *end != '/') return (ui_key){0};
        rgb = rgb << 8 | (unsigned)(v * 255 / ((1ul << 4 * digits) - 1));
        p = end;
    }
    return (ui_key){.code = UI_KEY_BACKGROUND, .tag = (int)rgb};
}

// True: the string has ended.
static bool string(ui_input *in, bool over, ui_key *k) {
    const char *p = in->bytes.p + in->at;
    const size_t n = in->bytes.n - in->at;
    size_t i = 0;
    while (i < n && (unsigned char)p[i] >= 0x20) i++;
    if (in->text.n < MOST_REPLY) ls_buf_add(&in->text, p, i);
    in->at += i;
    const size_t left = n - i;
    if (!over && (!left || (p[i] == 27 && left == 1))) return false;
    const bool ended = left && (p[i] == 7 || (p[i] == 27 && left > 1 && p[i + 1] == '\\'));
    if (ended) { // else another control character cuts it off, and is what it is
        in->at += p[i] == 7 ? 1 : 2;
        *k = colour_answer(&in->text);
    }
    in->mode = UI_INPUT_KEYS;
    return true;
}

// True: the paste has ended.
static bool paste(ui_input *in, bool over, ui_key *k) {
    static const char end[] = "\033[201~";
    enum { END = sizeof end - 1 };
    const char *p = in->bytes.p + in->at;
    size_t n = in->bytes.n - in->at, keep = 0;
    const char *found = n ? memmem(p, n, end, END) : NULL;
    if (!found) // keeps a possible beginning of the end for the next call
        for (keep = n < END ? n : END - 1; keep && memcmp(p + n - keep, end, keep);) keep--;
    const size_t text = found ? (size_t)(found - p) : n - keep;
    ls_buf_add(&in->text, p, text);
    in->at += found ? text + END : text;
    if (!found && !over) return false;
    while (!found && in->stopping && in->text.n && in->text.p[in->text.n - 1] == UI_CTRL('C')) in->text.n--;
    ls_buf_str(&in->text, "");
    in->mode = UI_INPUT_KEYS;
    *k = (ui_key){.code = UI_KEY_PASTE, .tag = !found};
    return true;
}

// When an incomplete sequence, string or paste is accepted as it is.
static uint64_t deadline_ns(const ui_input *in) {
    const uint64_t ms = 1000000, escape = (uint64_t)(in->escape_ms ? in->escape_ms : ESCAPE_MS) * ms,
                   rest = in->since_ns + REST_MS * ms;
    switch (in->mode) {
    case UI_INPUT_PASTE: return in->since_ns + (in->stopping ? STOP_MS : PAUSE_MS) * ms;
    case UI_INPUT_STRING:
        if (in->text.n == 1) return in->since_ns + escape; // nothing followed: Alt and a key
        return rest < in->began_ns + STRING_MS * ms ? rest : in->began_ns + STRING_MS * ms;
    case UI_INPUT_KEYS: break;
    }
    return in->bytes.n - in->at == 1 && in->bytes.p[in->at] == 27 ? in->since_ns + escape : rest;
}

ui_key ui_input_next(ui_input *in, uint64_t now_ns) {
    for (;;) {
        ui_key k = {0};
        const bool over = now_ns >= deadline_ns(in);
        if (in->mode == UI_INPUT_PASTE) {
            if (!paste(in, over, &k)) return k;
        } else if (in->mode == UI_INPUT_STRING) {
            if (!string(in, over, &k)) return k;
        } else {
            const unsigned char *p = (const unsigned char *)in->bytes.p + in->at;
            const size_t n = in->bytes.n - in->at;
            if (!n) return k;
            if (*p == 27) {
                const size_t used = sequence(in, p, n, over, &k);
                if (!used) return k;
                in->at += used;
            } else {
                uint32_t cp = 0;
                const int len = ls_utf8_decode((const char *)p, n, &cp);
                if (!len && !over) return k;
                k.code = len > 0 ? of_character((int)cp) : UI_KEY_INVALID;
                in->at += (size_t)(len > 0 ? len : 1);
            }
        }
        if (k.code != UI_KEY_NONE) return k; // (NUL is none)
    }
}

int ui_input_wait_ms(const ui_input *in, uint64_t now_ns) {
    if (in->mode == UI_INPUT_KEYS && in->at == in->bytes.n) return -1;
    const uint64_t until = deadline_ns(in);
    return now_ns >= until ? 0 : (int)((until - now_ns) / 1000000) + 1;
}
