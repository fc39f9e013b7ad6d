#include "decode/stats.h"

#include <math.h>
#include <stdio.h>

int ls_plain_forwards(const ls_step *s) {
    return s->n_emitted -
           (s->finish == LS_FINISH_EOS || s->finish == LS_FINISH_LENGTH || s->finish == LS_FINISH_CONTEXT);
}

double ls_step_plain_us(const ls_step *s) {
    const double own = s->t_total_us - s->t_draft_us;
    if (s->plain_us <= 0) return 0;
    return s->forward && (s->rows == 1 || own < s->plain_us) ? own : s->plain_us;
}

double ls_step_gain_us(const ls_step *s) {
    return s->plain_us > 0 ? ls_step_plain_us(s) * ls_plain_forwards(s) - s->t_total_us : (double)NAN;
}

static void add_miss(ls_stats *st, const ls_step *s) {
    if (st->last_miss && s->index == st->last_index + 1 && s->forward && s->n_emitted == 1) {
        st->miss_steps[st->last_miss]++;
        st->miss_us[st->last_miss] += s->t_total_us;
    }
    st->last_miss = s->miss;
    st->last_index = s->index;
    st->misses[s->miss] += s->miss != LS_MISS_NONE;
}

static void add_previews(ls_stats *st, const ls_step *s) {
    st->rejections++;
    for (int i = 1; i < LS_ACCEPT_COUNT; i++) {
        const ls_accept rule = ls_accept_usual(i);
        int row;
        const int more = ls_step_would(s, &rule, &row);
        st->would_steps[i] += more > 0;
        st->would_tokens[i] += (uint64_t)more;
    }
}

double ls_stats_break_even(const ls_stats *st) {
    const double plain = ls_stats_plain_tokens_per_s(st);
    return plain > 0 ? ls_per(st->total_us, st->steps) * plain / 1e6 : NAN;
}

ls_ratio ls_stats_experts(const ls_stats *st) {
    ls_ratio all = {0, 0};
    for (int r = 0; r <= LS_STATS_HIST; r++) all.n += st->experts[r].n, all.of += st->experts[r].of;
    return all;
}

void ls_stats_add(ls_stats *st, const ls_step *s) {
    add_miss(st, s);
    st->steps++;
    st->emitted += (uint64_t)s->n_emitted;
    st->by_emitted[s->n_emitted < LS_STATS_HIST ? s->n_emitted : LS_STATS_HIST]++;
    st->draft_us += s->t_draft_us;
    st->forward_us += s->t_forward_us;
    st->device_us += s->t_device_us;
    st->comm_us += s->t_comm_us;
    st->draft_forwards += (uint64_t)s->draft_forwards;
    st->probes += (uint64_t)s->probes;
    st->draft_forward_us += s->t_draft_forward_us;
    st->ahead_forwards += (uint64_t)s->ahead_forwards;
    st->wait_us += s->t_wait_us;
    st->verify_us += s->t_verify_us;
    st->commit_us += s->t_commit_us;
    st->total_us += s->t_total_us;
    st->waited_us += s->t_total_us * s->cpu_wait;
    // a step that plain decoding makes without a forward costs it nothing, so its cost is known where the answer's is:
    // in a plain run no step but this one has no time of its own
    if (s->plain_us > 0 || (st->plain_known && s->index && !ls_plain_forwards(s))) {
        st->plain_us += ls_step_plain_us(s) * ls_plain_forwards(s);
        st->plain_tokens += (uint64_t)s->n_emitted;
        st->plain_against_us += s->t_total_us;
        st->plain_forwards += (uint64_t)ls_plain_forwards(s);
        st->plain_spread_us += ls_step_plain_us(s) * ls_plain_forwards(s) * s->plain_spread;
        if (s->plain_us > 0) st->plain_timed = s->plain_timed;
    }
    st->plain_known = s->plain_us > 0;
    if (!s->forward) return;
    st->lossy += (uint64_t)ls_step_lossy(s, NULL);
    st->forwards++;
    ls_ratio *experts = &st->experts[ls_step_forwarded(s) < LS_STATS_HIST ? ls_step_forwarded(s) : LS_STATS_HIST];
    experts->n += (uint64_t)s->experts;
    experts->of += s->experts > 0;
    if (s->experts_read >= 0) {
        st->experts_kept.n += (uint64_t)(s->experts - s->experts_read);
        st->experts_kept.of += (uint64_t)s->experts;
    }
    st->context += (uint64_t)s->context_len;
    st->drafted += (uint64_t)(s->rows - 1);
    const int accepted = ls_step_accepted(s);
    st->accepted += (uint64_t)accepted;
    st->steps_with_draft += s->rows > 1;
    st->steps_with_accept += accepted > 0;
    if (!ls_step_described(s)) return; // who was rejected is not known
    int changed;
    st->judged += (uint64_t)ls_step_judged(s, &changed);
    st->judged_otherwise += (uint64_t)changed;
    const ls_next_next next = ls_step_next_next(s);
    if (next.token >= 0) {
        st->next_next++;
        st->next_next_drafted += next.drafted;
        st->next_next_rank[next.rank < 0 ? LS_MAX_TOP : next.rank]++;
    }
    if (ls_step_rejected(s)) add_previews(st, s);
    for (int i = 1; i < s->tree.n; i++) {
        const ls_node *n = &s->tree.nodes[i];
        st->from[n->from].of++;
        st->from[n->from].n += n->state == LS_NODE_ACCEPTED && n->depth <= accepted;
    }
    const int32_t answer = s->context_len - s->output_pos; // where it begins
    for (int i = 1; i <= accepted; i++) st->repeats.n += s->tree.nodes[s->path[i]].match_pos >= answer;
    st->repeats.of += (uint64_t)accepted;
    const int deepest = ls_tree_depth(&s->tree);
    for (int d = 1; d <= deepest && d < LS_STATS_DEPTHS; d++) {
        st->depth[d].of++;
        st->depth[d].n += d <= accepted;
    }
    for (int b = 0; b < s->tree.n_branches; b++) {
        int r = s->tree.branches[b].rank;
        if (r < 0 || r >= LS_STATS_RANKS) continue;
        st->rank[r].of++;
        st->rank[r].n += ls_step_branch_accepted(s, &s->tree.branches[b]) > 0;
    }
}

bool ls_stats_repeats(const ls_stats *st) {
    enum { FEW = 16 }; // too few to say so
    return st->repeats.of >= FEW && 2 * st->repeats.n > st->repeats.of;
}

uint64_t ls_stats_misses(const ls_stats *st) {
    uint64_t n = 0;
    for (int m = 0; m < LS_MISS_COUNT; m++) n += st->misses[m];
    return n;
}

uint64_t ls_stats_next_next_below(const ls_stats *st, int ranks) {
    uint64_t n = 0;
    for (int r = 0; r < ranks && r < LS_MAX_TOP; r++) n += st->next_next_rank[r];
    return n;
}

double ls_stats_mat(const ls_stats *st) {
    return st->steps ? (double)st->emitted / (double)st->steps : 0;
}

double ls_stats_tokens_per_s(const ls_stats *st) {
    return st->total_us > 0 ? 1e6 * (double)st->emitted / st->total_us : 0;
}

double ls_stats_plain_tokens_per_s(const ls_stats *st) {
    return st->plain_us > 0 ? 1e6 * (double)st->plain_tokens / st->plain_us : 0;
}

double ls_stats_speedup(const ls_stats *st) {
    return st->plain_against_us > 0 ? st->plain_us / st->plain_against_us : 0;
}

double ls_stats_waited(const ls_stats *st) {
    return st->total_us > 0 ? st->waited_us / st->total_us : 0;
}

bool ls_speedup_is_possible(double speedup, uint64_t emitted, uint64_t steps) {
    static const double TOLERANCE = 1.1; // both are measured, and a turn's last token is free
    return !(speedup > TOLERANCE * ls_per((double)emitted, steps));
}

ls_short_text ls_speedup_text(double x, double spread, bool ascii) {
    const int digits = spread >= 0.95 ? 0 : spread >= 0.095 ? 1 : 2;
    ls_short_text out;
    char part[16];
    snprintf(part, sizeof part, "%.*f", digits, spread);
    if (spread < 0.005) snprintf(out.s, sizeof out.s, "%.2f", x);
    else snprintf(out.s, sizeof out.s, "%.*f%s%s", digits, x, ascii ? "+-" : "±", part + (*part == '0'));
    return out;
}

// A step is at least as long as a plain one, so no speedup is above MAT: what is measured above it is noise. It is too
// noisy if the spread is above half of the speedup, or even the lowest speedup is above MAT.
ls_speedup ls_stats_speedup_told(const ls_stats *st) {
    const double x = ls_stats_speedup(st), spread = x > 0 ? st->plain_spread_us / st->plain_against_us : 0;
    const bool told = x > 0 && spread <= x / 2 && ls_speedup_is_possible(x - spread, st->emitted, st->steps);
    return told ? (ls_speedup){fmin(x, ls_stats_mat(st)), spread} : (ls_speedup){0};
}

ls_short_text ls_stats_speedup_text(const ls_stats *st, bool ascii) {
    const ls_speedup told = ls_stats_speedup_told(st);
    return told.x > 0 ? ls_speedup_text(told.x, told.spread, ascii) : (ls_short_text){"?"};
}

int ls_stats_speedup_sign(const ls_stats *st) {
    const ls_speedup told = ls_stats_speedup_told(st);
    const double least = fmax(told.spread, 0.005);
    return told.x > 0 ? (told.x > 1 + least) - (told.x < 1 - least) : 0;
}

const char *ls_stats_speedup_verdict(const ls_stats *st) {
    static const char *const words[] = {"slower", "no difference", "faster"};
    return ls_stats_speedup_told(st).x > 0 ? words[ls_stats_speedup_sign(st) + 1] : "too noisy";
}

double ls_per(double a, uint64_t n) {
    return n ? a / (double)n : (double)NAN;
}

void ls_stats_write_speedup(ls_jsonw *w, const ls_stats *st) {
    const ls_speedup told = ls_stats_speedup_told(st);
    ls_jw_field_num(w, "speedup", told.x > 0 ? told.x : (double)NAN, 7);
    ls_jw_field_num(w, "speedup_spread", told.x > 0 && st->plain_timed ? told.spread : (double)NAN, 3);
}

void ls_stats_write(ls_jsonw *w, const ls_stats *st, double prefill_ms) {
    ls_jw_field_int(w, "steps", (int64_t)st->steps);
    ls_jw_field_int(w, "emitted", (int64_t)st->emitted);
    ls_jw_field_num(w, "mat", st->steps > 0 ? ls_stats_mat(st) : (double)NAN, 6);
    ls_jw_field_int(w, "draft_verified", (int64_t)st->drafted);
    ls_jw_field_int(w, "draft_accepted", (int64_t)st->accepted);
    ls_jw_field_int(w, "draft_forwards", (int64_t)st->draft_forwards);
    ls_jw_field_int(w, "ahead_forwards", (int64_t)st->ahead_forwards);
    ls_jw_field_num(w, "prefill_ms", prefill_ms, 6);
    ls_jw_field_num(w, "decode_ms", st->total_us / 1e3, 6);
    ls_jw_field_num(w, "tokens_per_s", st->total_us > 0 ? ls_stats_tokens_per_s(st) : (double)NAN, 6);
    ls_jw_field_num(w, "ar_tokens_per_s", st->plain_forwards > 0 ? ls_stats_plain_tokens_per_s(st) : (double)NAN, 6);
    ls_stats_write_speedup(w, st);
    ls_jw_field_int(w, "ar_timed", st->plain_timed);
    ls_jw_field_num(w, "cpu_wait", ls_stats_waited(st), 3);
}
