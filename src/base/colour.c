#include "base/colour.h"

unsigned ls_rgb256(int n) {
    static const unsigned base[16] = {0x1c1f26, 0xe06c75, 0x98c379, 0xe5c07b, 0x61afef, 0xc678dd, 0x56b6c2, 0xdcdfe4,
                                      0x5c6370, 0xe06c75, 0x98c379, 0xe5c07b, 0x61afef, 0xc678dd, 0x56b6c2, 0xffffff};
    static const unsigned level[6] = {0, 95, 135, 175, 215, 255};
    if (n < 16) return base[n];
    if (n >= 232) return (unsigned)(8 + 10 * (n - 232)) * 0x010101;
    n -= 16;
    return level[n / 36] << 16 | level[n / 6 % 6] << 8 | level[n % 6];
}
