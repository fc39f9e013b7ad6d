#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/gpu/emulated_stream.h"

namespace emulated {

__thread Thread *current;
__thread dim3 block_index, block_size, grid_size;

namespace {

enum { STACK = 64 << 10, WARP = 32 };

[[noreturn]] void wrong(const char *what) {
    fprintf(stderr, "emulated device: %s\n", what);
    abort();
}

// Threads of a block switch without the kernel's help, by ucontext where there is no shorter way. ASan is told of it:
// its own way with ucontext forgets the whole stack at each switch.
#if defined(__x86_64__)
extern "C" void emulated_switch(void **save, void *to);
asm(".text\n.globl emulated_switch\n.hidden emulated_switch\n.type emulated_switch,@function\nemulated_switch:\n"
    "pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
    "movq %rsp, (%rdi); movq %rsi, %rsp\n"
    "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp\n"
    "ret\n.size emulated_switch, .-emulated_switch\n");
struct Context {
    void *sp = nullptr;
#ifdef __SANITIZE_ADDRESS__
    void *fake = nullptr; // ASan's stack, while another one runs; kept for the next run: a new one costs a mapping
    const void *bottom = nullptr;
    size_t size = 0;
    void leaves(const Context &to) {
        __sanitizer_start_switch_fiber(&fake, to.bottom, to.size);
    }
    void is_back() {
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
    }
    void entered(Context &from) {
        __sanitizer_finish_switch_fiber(fake, &from.bottom, &from.size);
    }
    void fresh(char *stack) {
        __asan_unpoison_memory_region(stack, STACK);
        bottom = stack;
        size = STACK;
    }
#else
    void leaves(const Context &) {}
    void is_back() {}
    void entered(Context &) {}
    void fresh(char *) {}
#endif
    void begin(char *stack, void (*entry)()) {
        fresh(stack);
        void **top = (void **)(stack + STACK);
        *--top = nullptr; // so that the stack is aligned as after a call
        *--top = (void *)entry;
        for (int i = 0; i < 6; i++) *--top = nullptr;
        sp = top;
    }
    void leave_for(Context &to) {
        leaves(to);
        emulated_switch(&sp, to.sp);
        is_back();
    }
};
#else
struct Context {
    ucontext_t c{};
    void entered(Context &) {}
    void begin(char *stack, void (*entry)()) {
        getcontext(&c);
        c.uc_stack.ss_sp = stack;
        c.uc_stack.ss_size = STACK;
        c.uc_link = nullptr;
        makecontext(&c, entry, 0);
    }
    void leave_for(Context &to) { swapcontext(&c, &to.c); }
};
#endif

struct Meeting {
    int arrived = 0;
    unsigned generation = 0;
};

struct Fiber : Thread {
    Context context;
    std::unique_ptr<char[]> stack{new char[STACK]};
    bool done = false;
    unsigned reads = 0; // shuffles so far
    const Meeting *waits_for = nullptr;
    unsigned generation = 0;
    struct Copy {
        void *to;
        const void *from;
        unsigned commit;
    };
    std::vector<Copy> copies; // under way
    unsigned commits = 0;
};

struct Operand {
    float *d;
    uint32_t a[4], b[2];
};
struct Warp : Meeting {
    uint32_t shuffled[2][WARP];
    Operand operand[WARP];
};

// What runs blocks, one after another: a worker has its own fibers and shared memory.
struct Worker {
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Warp> warps;
    Meeting block;
    std::vector<uint32_t> shared;
    Context scheduler;
    const Launch *launch = nullptr;
    int alive = 0, blocks = 0;

    void prepare(const Launch &l);
    void run_block(bool backwards);
};
thread_local Worker worker;
bool copies_late;

Fiber &self() {
    return *static_cast<Fiber *>(current);
}

void enter() {
    self().context.entered(worker.scheduler);
    worker.launch->body();
    self().done = true;
    worker.alive--;
    self().context.leave_for(worker.scheduler);
    wrong("a finished thread runs");
}

template <class F> void meet(Meeting &m, int expected, F &&once) {
    const unsigned generation = m.generation;
    if (++m.arrived == expected) {
        once();
        m.arrived = 0;
        m.generation++;
        return;
    }
    Fiber &f = self();
    f.waits_for = &m;
    f.generation = generation;
    f.context.leave_for(worker.scheduler);
    f.waits_for = nullptr;
}

void Worker::prepare(const Launch &l) {
    launch = &l;
    while (fibers.size() < (size_t)l.threads) fibers.push_back(std::make_unique<Fiber>());
    warps.resize((size_t)l.threads / WARP);
    shared.resize(l.shared / 4 + 4);
    block_size = dim3((unsigned)l.threads);
    grid_size = l.grid;
    blocks = 0;
}

void Worker::run_block(bool backwards) {
    const int n = launch->threads;
    if (blocks++ % 8 == 0) std::fill(shared.begin(), shared.end(), 0x7FC00000); // NaN; else what the block before left
    block = Meeting();
    for (Warp &w : warps) static_cast<Meeting &>(w) = Meeting();
    alive = n;
    for (int i = 0; i < n; i++) {
        Fiber &f = *fibers[(size_t)i];
        f.index = dim3((unsigned)i, 0, 0);
        f.warp = i / WARP;
        f.lane = i % WARP;
        f.done = false;
        f.reads = 0;
        f.waits_for = nullptr;
        f.copies.clear();
        f.commits = 0;
        f.context.begin(f.stack.get(), enter);
    }
    while (alive) {
        bool moved = false;
        for (int w = 0; w < n / WARP; w++) // a warp goes as far as it can before the next one moves
            for (bool again = true; again;) {
                again = false;
                for (int i = 0; i < WARP; i++) {
                    const int at = w * WARP + i;
                    Fiber &f = *fibers[(size_t)(backwards ? n - 1 - at : at)];
                    if (f.done || (f.waits_for && f.waits_for->generation == f.generation)) continue;
                    current = &f;
                    scheduler.leave_for(f.context);
                    again = moved = true;
                }
            }
        if (!moved) wrong("threads wait for each other: some lanes of a warp or threads of a block do not arrive");
    }
}

float bf16(uint32_t pair, int high) {
    return lsg_bf16_value(high ? pair >> 16 : pair & 0xFFFF);
}

// PTX, "Matrix Fragments for mma.m16n8k16": lane = 4 * row + column pair.
void multiply(Warp &w) {
    float a[16][16], b[16][8];
    for (int lane = 0; lane < WARP; lane++) {
        const Operand &o = w.operand[lane];
        const int r = lane / 4, c = lane % 4 * 2;
        for (int i = 0; i < 4; i++)
            for (int h = 0; h < 2; h++) a[r + i % 2 * 8][c + h + i / 2 * 8] = bf16(o.a[i], h);
        for (int i = 0; i < 2; i++)
            for (int h = 0; h < 2; h++) b[c + h + i * 8][r] = bf16(o.b[i], h);
    }
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < 4; i++) {
            const int r = lane / 4 + i / 2 * 8, n = lane % 4 * 2 + i % 2;
            float sum = w.operand[lane].d[i];
            for (int k = 0; k < 16; k++) sum += a[r][k] * b[k][n];
            w.operand[lane].d[i] = sum;
        }
}

} // namespace

void *shared_memory() {
    return worker.shared.data();
}

void block_barrier() {
    if (worker.alive != worker.launch->threads) wrong("a barrier after some threads of the block have ended");
    meet(worker.block, worker.alive, [] {});
}

void warp_barrier() {
    meet(worker.warps[(size_t)current->warp], WARP, [] {});
}

// What each lane of the warp says.
static const uint32_t *exchange(uint32_t bits) {
    Warp &w = worker.warps[(size_t)current->warp];
    uint32_t *place = w.shuffled[self().reads++ % 2]; // the next exchange writes elsewhere while slow lanes still read
    place[current->lane] = bits;
    meet(w, WARP, [] {});
    return place;
}

uint32_t shuffle(uint32_t bits, int from) {
    return exchange(bits)[from];
}

uint32_t ballot(bool yes) {
    const uint32_t *said = exchange(yes);
    uint32_t out = 0;
    for (int i = 0; i < WARP; i++) out |= said[i] << i;
    return out;
}

void copy_later(void *to, const void *from) {
    if (copies_late) self().copies.push_back({to, from, self().commits});
    else memcpy(to, from, 16);
}

void copies_commit() {
    self().commits++;
}

void copies_wait(unsigned newest) {
    std::vector<Fiber::Copy> &copies = self().copies;
    size_t left = 0;
    for (const Fiber::Copy &c : copies)
        if (self().commits - c.commit > newest) memcpy(c.to, c.from, 16);
        else copies[left++] = c;
    copies.resize(left);
}

void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    Warp &w = worker.warps[(size_t)current->warp];
    w.operand[current->lane] = {d, {a[0], a[1], a[2], a[3]}, {b0, b1}};
    meet(w, WARP, [&w] { multiply(w); });
}

void run_grid(const Launch &l) {
    static std::mutex device; // one grid at a time
    static bool backwards;
    std::lock_guard<std::mutex> lock(device);
    if (l.threads < 1 || l.threads > 1024 || l.threads % WARP) wrong("a block has 32 to 1024 threads, whole warps");
    if (l.shared > 227 << 10) wrong("a block has at most 227 KiB of shared memory");
    if (!l.grid.x || !l.grid.y || !l.grid.z || l.grid.y > 65535 || l.grid.z > 65535) wrong("an impossible grid");
    backwards = !backwards;
    if (backwards) copies_late = !copies_late;
    const unsigned n = l.grid.x * l.grid.y * l.grid.z;
    std::atomic<unsigned> next{0};
#pragma omp parallel if (n >= 64)
    {
        worker.prepare(l);
        for (unsigned i; (i = next++) < n;) {
            block_index = dim3(i % l.grid.x, i / l.grid.x % l.grid.y, i / l.grid.x / l.grid.y);
            worker.run_block(backwards);
        }
    }
}

int launch(void *stream, dim3 grid, int threads, size_t bytes, std::function<void()> body) {
    Stream *s = static_cast<Stream *>(stream);
    Launch l{grid, threads, bytes, std::move(body)};
    if (s && s->capturing) s->recorded.push_back([l] { run_grid(l); });
    else run_grid(l);
    return 0;
}

} // namespace emulated
