// The ending of a counted noun.
#pragma once

#define ls_plural(n) ((n) == 1 ? "" : "s") // of any kind of number
