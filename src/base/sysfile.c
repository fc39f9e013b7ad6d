#include "base/sysfile.h"

#include <stdio.h>
#include <string.h>

bool ls_sysfile_line(const char *path, const char *key, char *out, size_t size) {
    char line[512];
    const size_t n = strlen(key);
    bool found = false;
    FILE *f = fopen(path, "re");
    *out = 0;
    while (f && !found && fgets(line, sizeof line, f))
        if ((found = !strncmp(line, key, n))) snprintf(out, size, "%.*s", (int)strcspn(line + n, "\n"), line + n);
    if (f) fclose(f);
    return found;
}
