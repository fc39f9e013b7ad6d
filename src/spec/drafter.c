#include "spec/drafter.h"
#include "spec/draft_logitspec.h"
#include "spec/draft_tuned.h"

#include <string.h>

const ls_method ls_methods[] = {
    {"ar", "plain decoding, one token a step", 1, false, NULL},
    {"logitspec", "LogitSpec and remembered choices in a best-first tree, sized by measured cost", 0, true,
     ls_draft_tuned},
    {"logitspec-paper", "LogitSpec exactly as published (arXiv 2507.01449)", 64, true, ls_draft_logitspec_paper},
    {0},
};

const ls_method *ls_method_find(const char *name) {
    for (const ls_method *m = ls_methods; m->name; m++)
        if (!strcmp(m->name, name)) return m;
    return NULL;
}
