// The 256 colours of a terminal (xterm: 16 colours that terminals choose, a cube of 6x6x6, 24 greys) as RGB, for pages
// and pictures.
#pragma once

// Colours that do not stand for a draft source (those: spec/sources.def), on a dark and on a light background.
enum {
    LS_GROUND_DARK = 234, // of pages and figures
    LS_GROUND_LIGHT = 231,
    LS_INK_DARK = 255, // text on it
    LS_INK_LIGHT = 232,
    LS_SOFT_DARK = 249, // notes: a contrast of at least 5, also on a background tinted by a token's source
    LS_SOFT_LIGHT = 239,
    LS_GOOD_DARK = 195,
    LS_GOOD_LIGHT = 25, // accepted, faster
    LS_BAD_DARK = 203,
    LS_BAD_LIGHT = 161, // rejected, slower, an error
};

unsigned ls_rgb256(int n); // 0xRRGGBB of colour 0 to 255; the first 16 as in a soft dark theme
