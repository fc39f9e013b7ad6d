#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#include <atomic>
#include <climits>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/plan.h"
#include "tests/gpu/emulated_stream.h"

namespace emulated {

__thread Thread *current;
__thread dim3 block_index, block_size, grid_size;

namespace {

// COLOUR: without it all stacks would share a few lines of the caches.
enum { STACK = 64 << 10, COLOUR = 704, WARP = 32 };

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

struct Barrier {
    int arrived = 0;
    unsigned generation = 0;
};

struct Fiber : Thread {
    Context context;
    std::unique_ptr<char[]> stack{new char[STACK + COLOUR]};
    bool done = false, waited = false; // for the kernel ahead
    unsigned reads = 0;                // shuffles so far
    const Barrier *waits_for = nullptr;
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
struct Warp : Barrier {
    uint32_t shuffled[2][WARP];
    Operand operand[WARP];
};

// A launch, and in which order it runs.
struct Order {
    const Launch *launch;
    bool backwards, copies_late;
};

// What runs blocks, one after another: a worker has its own fibers and shared memory.
struct Worker {
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Warp> warps;
    Barrier block, ahead; // at a barrier; for the kernel ahead
    std::vector<uint32_t> shared;
    Context scheduler;
    Order order{};
    dim3 index;
    bool held = false; // the kernel ahead has not ended
    int alive = 0, blocks = 0;

    void prepare(const Order &o);
    void begin_block(unsigned i);
    // The next lane of the warp that can go on, as the scheduler would find it: without it, half as many switches.
    // NULL: there is none, or it has not begun, which the scheduler sees to.
    Fiber *next_lane(const Fiber &f);
    // Goes on until all threads have ended, or, where the block is held, wait for the kernel ahead.
    void run_block();
};
thread_local Worker *worker;

Fiber &self() {
    return *static_cast<Fiber *>(current);
}

void enter() {
    self().context.entered(worker->scheduler);
    worker->order.launch->body();
    if (worker->order.launch->early && !self().waited) wrong("a thread ends without waiting for the kernel ahead");
    self().done = true;
    worker->alive--;
    self().context.leave_for(worker->scheduler);
    wrong("a finished thread runs");
}

template <class F> void meet(Barrier &m, int expected, F &&once) {
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
    Fiber *next = worker->next_lane(f);
    if (next) current = next;
    f.context.leave_for(next ? next->context : worker->scheduler);
    f.waits_for = nullptr;
}

void Worker::prepare(const Order &o) {
    const Launch &l = *o.launch;
    order = o;
    while (fibers.size() < (size_t)l.threads) fibers.push_back(std::make_unique<Fiber>());
    warps.resize((size_t)l.threads / WARP);
    shared.resize(l.shared / 4 + 4);
    held = false;
    blocks = 0;
}

void Worker::begin_block(unsigned i) {
    const dim3 grid = order.launch->grid;
    index = dim3(i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y);
    if (blocks++ % 8 == 0) std::fill(shared.begin(), shared.end(), 0x7FC00000); // NaN; else what the block before left
    block = ahead = Barrier();
    for (Warp &w : warps) static_cast<Barrier &>(w) = Barrier();
    alive = order.launch->threads;
    for (int t = 0; t < alive; t++) {
        Fiber &f = *fibers[(size_t)t];
        f.index = dim3((unsigned)t, 0, 0);
        f.warp = t / WARP;
        f.lane = t % WARP;
        f.done = f.waited = false;
        f.reads = 0;
        f.waits_for = nullptr;
        f.copies.clear();
        f.commits = 0;
        f.context.begin(f.stack.get(), enter);
    }
}

Fiber *Worker::next_lane(const Fiber &f) {
    for (int lane = f.lane, k = 1; k < WARP; k++) {
        lane = (lane + (order.backwards ? WARP - 1 : 1)) % WARP;
        Fiber &g = *fibers[(size_t)(f.warp * WARP + lane)];
        if (g.done) continue;
        if (!g.waits_for) return nullptr;
        if (g.waits_for->generation != g.generation) return &g;
    }
    return nullptr;
}

void Worker::run_block() {
    const int n = order.launch->threads;
    worker = this;
    block_size = dim3((unsigned)n);
    grid_size = order.launch->grid;
    block_index = index;
    while (alive && ahead.arrived < alive) {
        bool moved = false;
        for (int w = 0; w < n / WARP; w++) // a warp goes as far as it can before the next one moves
            for (bool again = true; again;) {
                again = false;
                for (int i = 0; i < WARP; i++) {
                    const int at = w * WARP + i;
                    Fiber &f = *fibers[(size_t)(order.backwards ? n - 1 - at : at)];
                    if (f.done || (f.waits_for && f.waits_for->generation == f.generation)) continue;
                    current = &f;
                    scheduler.leave_for(f.context);
                    again = moved = true;
                }
            }
        if (!moved && alive && ahead.arrived < alive)
            wrong("threads wait for each other: some lanes of a warp or threads of a block do not arrive");
    }
}

float bf16(uint32_t pair, int high) {
    return lsg_bf16_value(high ? pair >> 16 : pair & 0xFFFF);
}

// PTX, "Matrix Fragments for mma.m16n8k16": lane = 4 * row + column pair. Sums of an output row go side by side, each
// in the order of its inputs.
void multiply(Warp &w) {
    typedef float Four __attribute__((vector_size(16)));
    float a[16][16], b[16][8];
    for (int lane = 0; lane < WARP; lane++) {
        const Operand &o = w.operand[lane];
        const int r = lane / 4, c = lane % 4 * 2;
        for (int i = 0; i < 4; i++)
            for (int h = 0; h < 2; h++) a[r + i % 2 * 8][c + h + i / 2 * 8] = bf16(o.a[i], h);
        for (int i = 0; i < 2; i++)
            for (int h = 0; h < 2; h++) b[c + h + i * 8][r] = bf16(o.b[i], h);
    }
    for (int half = 0; half < 2; half++) { // of the columns
        Four in[16];
        for (int k = 0; k < 16; k++) memcpy(&in[k], &b[k][half * 4], sizeof *in);
        for (int r = 0; r < 16; r++) {
            const Operand *o = w.operand + r % 8 * 4 + half * 2; // the two lanes that hold these sums
            float *left = o[0].d + r / 8 * 2, *right = o[1].d + r / 8 * 2;
            Four sum = {left[0], left[1], right[0], right[1]};
            for (int k = 0; k < 16; k++) sum += a[r][k] * in[k];
            left[0] = sum[0], left[1] = sum[1], right[0] = sum[2], right[1] = sum[3];
        }
    }
}

} // namespace

void *shared_memory() {
    return worker->shared.data();
}

void wait_before() {
    self().waited = true;
    if (worker->held) meet(worker->ahead, INT_MAX, [] {}); // until Held::finish
}

void block_barrier() {
    if (worker->alive != worker->order.launch->threads) wrong("a barrier after some threads of the block have ended");
    meet(worker->block, worker->alive, [] {});
}

void warp_barrier() {
    meet(worker->warps[(size_t)current->warp], WARP, [] {});
}

// What each lane of the warp says.
static const uint32_t *exchange(uint32_t bits) {
    Warp &w = worker->warps[(size_t)current->warp];
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
    if (worker->order.copies_late) self().copies.push_back({to, from, self().commits});
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
    Warp &w = worker->warps[(size_t)current->warp];
    w.operand[current->lane] = {d, {a[0], a[1], a[2], a[3]}, {b0, b1}};
    meet(w, WARP, [&w] { multiply(w); });
}

namespace {

// A kernel whose first and last block have run up to where they wait for the kernel ahead.
struct Held {
    Launch launch;
    Order order;
    Worker *edge;       // two
    unsigned edges = 0; // that have begun

    explicit Held(const Launch &l) : launch(l) {
        // one kernel may be held beside the one that it waits for; new stacks for each would cost page faults
        static Worker kept[2][2];
        static unsigned launches;
        edge = kept[++launches % 2];
        order = {&launch, launches % 2 == 1, launches % 4 == 1 || launches % 4 == 2};
    }
    unsigned n_blocks() const { return launch.grid.x * launch.grid.y * launch.grid.z; }
    void begin() {
        for (const unsigned n = std::min(2u, n_blocks()); edges < n; edges++) {
            edge[edges].prepare(order);
            edge[edges].held = true;
            edge[edges].begin_block(edges ? n_blocks() - 1 : 0);
            edge[edges].run_block();
        }
    }
    void finish() {
        for (unsigned i = 0; i < edges; i++) {
            edge[i].held = false;
            edge[i].ahead.arrived = 0;
            edge[i].ahead.generation++;
            edge[i].run_block();
        }
        const unsigned end = n_blocks() - (edges > 1);
        std::atomic<unsigned> next{edges > 0};
#pragma omp parallel if (end >= 64)
        {
            static thread_local Worker own;
            own.prepare(order);
            for (unsigned i; (i = next++) < end;) {
                own.begin_block(i);
                own.run_block();
            }
        }
    }
};

std::mutex device; // one grid at a time
std::unique_ptr<Held> newest;
void *stream_of_newest;

void finish_newest() {
    if (const std::unique_ptr<Held> held = std::move(newest)) held->finish();
}

void submit(void *stream, const Launch &l) {
    std::lock_guard<std::mutex> lock(device);
    if (l.threads < 1 || l.threads > 1024 || l.threads % WARP) wrong("a block has 32 to 1024 threads, whole warps");
    if (l.shared > LSG_LARGE_BLOCK_SHARED) wrong("a block takes more shared memory than an A100 gives it");
    if (!l.grid.x || !l.grid.y || !l.grid.z || l.grid.y > 65535 || l.grid.z > 65535) wrong("an impossible grid");
    auto held = std::make_unique<Held>(l);
    if (newest && l.early && stream == stream_of_newest) held->begin();
    finish_newest();
    newest = std::move(held);
    stream_of_newest = stream;
}

} // namespace

void finish() {
    std::lock_guard<std::mutex> lock(device);
    finish_newest();
}

int launch(void *stream, dim3 grid, int threads, size_t bytes, bool early, std::function<void()> body) {
    Stream *s = static_cast<Stream *>(stream);
    Launch l{grid, threads, bytes, early, std::move(body)};
    if (s && s->capturing) s->recorded.push_back([stream, l] { submit(stream, l); });
    else submit(stream, l);
    return 0;
}

} // namespace emulated
