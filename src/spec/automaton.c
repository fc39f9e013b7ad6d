#include "spec/automaton.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

// In a text like "aaaa..." a token has as many suffixes as there are tokens before it. To bound the time per token, a
// token counts only for this number of suffix states, the longest first.
enum { COUNTED_SUFFIXES = 256 };

static size_t slot_of(const ls_automaton *a, int32_t from, int32_t token) {
    uint64_t h = ((uint64_t)(uint32_t)from << 32 | (uint32_t)token) * 0x9E3779B97F4A7C15u;
    size_t i = (h ^ h >> 29) & (size_t)(a->n_slots - 1);
    while (a->slots[i] >= 0 && (a->edges[a->slots[i]].from != from || a->edges[a->slots[i]].token != token))
        i = (i + 1) & (size_t)(a->n_slots - 1);
    return i;
}

static int32_t edge_of(const ls_automaton *a, int32_t from, int32_t token) { // -1: none
    return a->n_slots ? a->slots[slot_of(a, from, token)] : -1;
}

static int32_t new_state(ls_automaton *a, ls_automaton_state s) {
    if (a->n_states == a->cap_states) {
        a->cap_states = a->cap_states ? a->cap_states + a->cap_states / 2 : 64;
        a->states = ls_realloc(a->states, (size_t)a->cap_states * sizeof *a->states);
    }
    a->states[a->n_states] = s;
    return a->n_states++;
}

static void grow_slots(ls_automaton *a) {
    a->n_slots = a->n_slots ? a->n_slots * 2 : 128;
    a->slots = ls_realloc(a->slots, (size_t)a->n_slots * sizeof *a->slots);
    memset(a->slots, -1, (size_t)a->n_slots * sizeof *a->slots);
    for (int32_t i = 0; i < a->n_edges; i++) a->slots[slot_of(a, a->edges[i].from, a->edges[i].token)] = i;
}

static void new_edge(ls_automaton *a, int32_t from, int32_t token, int32_t to) {
    if (a->n_edges == a->cap_edges) {
        a->cap_edges = a->cap_edges ? a->cap_edges + a->cap_edges / 2 : 64;
        a->edges = ls_realloc(a->edges, (size_t)a->cap_edges * sizeof *a->edges);
    }
    if ((a->n_edges + 1) * 4 > a->n_slots * 3) grow_slots(a);
    a->slots[slot_of(a, from, token)] = a->n_edges;
    a->edges[a->n_edges] = (ls_automaton_edge){from, token, to, a->states[from].first_edge};
    a->states[from].first_edge = a->n_edges++;
}

void ls_automaton_free(ls_automaton *a) {
    free(a->states);
    free(a->edges);
    free(a->slots);
    *a = (ls_automaton){0};
}

void ls_automaton_add(ls_automaton *a, int32_t token) {
    if (!a->n_states) new_state(a, (ls_automaton_state){0, -1, -1, 0});
    const int32_t cur = new_state(a, (ls_automaton_state){a->states[a->last].length + 1, 0, -1, 0});
    int32_t p = a->last, e = -1;
    for (; p >= 0 && (e = edge_of(a, p, token)) < 0; p = a->states[p].link) new_edge(a, p, token, cur);
    if (p >= 0) {
        const int32_t q = a->edges[e].to;
        if (a->states[q].length == a->states[p].length + 1) a->states[cur].link = q;
        else { // q's shorter substrings now also occur without its longer ones: split them into a new state
            const int32_t clone = new_state(a, a->states[q]);
            a->states[clone].length = a->states[p].length + 1;
            a->states[clone].first_edge = -1;
            for (int32_t i = a->states[q].first_edge; i >= 0; i = a->edges[i].next)
                new_edge(a, clone, a->edges[i].token, a->edges[i].to);
            for (; p >= 0 && (e = edge_of(a, p, token)) >= 0 && a->edges[e].to == q; p = a->states[p].link)
                a->edges[e].to = clone;
            a->states[q].link = a->states[cur].link = clone;
        }
    }
    int32_t counted = 0;
    for (int32_t s = cur; s > 0 && counted < COUNTED_SUFFIXES; s = a->states[s].link, counted++) a->states[s].count++;
    a->last = cur;
    a->n++;
}

void ls_automaton_follow(const ls_automaton *a, ls_automaton_match *m, int32_t token) {
    if (!a->n_states) return;
    int32_t edge;
    while ((edge = edge_of(a, m->state, token)) < 0) {
        m->state = a->states[m->state].link;
        if (m->state < 0) {
            *m = (ls_automaton_match){0, 0};
            return;
        }
        m->length = a->states[m->state].length;
    }
    m->state = a->edges[edge].to;
    m->length++;
}

void ls_automaton_settle(const ls_automaton *a, ls_automaton_match *m) {
    while (m->state > 0 && m->length <= a->states[a->states[m->state].link].length) m->state = a->states[m->state].link;
}

void ls_automaton_arrays(ls_automaton *a, ls_memory_visit *v) {
    ls_memory_array(v, (void **)&a->states, (size_t)a->cap_states * sizeof *a->states);
    ls_memory_array(v, (void **)&a->edges, (size_t)a->cap_edges * sizeof *a->edges);
    ls_memory_array(v, (void **)&a->slots, (size_t)a->n_slots * sizeof *a->slots);
}
