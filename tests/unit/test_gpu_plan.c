// How a step is cut for a GPU: what fits, what fills the device, which banks meet. No GPU takes part.
#include "gpu/plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ALL                                                                                                            \
    {                                                                                                                  \
        .heads = { 0, 0 }                                                                                              \
    }

// Shapes as their authors publish them (config.json).
static const struct {
    const char *name;
    lsg_shape shape;
    int32_t context;
} models[] = {
    {"SmolLM2 135M", {30, 576, 1536, 9, 3, 64, 64, 49152, {0, 0}, ALL, 0, 0, 0, 0, 0}, 8192},
    {"Qwen2.5 0.5B", {24, 896, 4864, 14, 2, 64, 64, 151936, {0, 0}, ALL, 0, 0, 0, 0, 0}, 32768},
    {"TinyLlama 1.1B", {22, 2048, 5632, 32, 4, 64, 64, 32000, {0, 0}, ALL, 0, 0, 0, 0, 0}, 2048},
    {"Llama 3.2 1B", {16, 2048, 8192, 32, 8, 64, 64, 128256, {0, 0}, ALL, 0, 0, 0, 0, 0}, 131072},
    {"Vicuna 7B", {32, 4096, 11008, 32, 32, 128, 128, 32000, {0, 0}, ALL, 0, 0, 0, 0, 0}, 4096},
    {"Mistral 7B", {32, 4096, 14336, 32, 8, 128, 128, 32768, {0, 0}, ALL, 0, 0, 0, 0, 0}, 32768},
    {"Llama 3.1 8B", {32, 4096, 14336, 32, 8, 128, 128, 128256, {0, 0}, ALL, 0, 0, 0, 0, 0}, 131072},
    {"Gemma 2 9B", {42, 3584, 14336, 16, 8, 256, 256, 256000, {0, 0}, ALL, 0, 0, 0, 0, 0}, 8192},
    {"Qwen2.5 14B", {48, 5120, 13824, 40, 8, 128, 128, 152064, {0, 0}, ALL, 0, 0, 0, 0, 0}, 32768},
    {"Llama 3.1 70B", {80, 8192, 28672, 64, 8, 128, 128, 128256, {0, 0}, ALL, 0, 0, 0, 0, 0}, 131072},
    {"Qwen1.5 MoE A2.7B", {24, 2048, 1408, 16, 16, 128, 128, 151936, {0, 0}, ALL, 0, 60, 4, 1408, 5632}, 8192},
    {"Qwen3 30B A3B", {48, 2048, 768, 32, 4, 128, 128, 151936, {0, 0}, ALL, 0, 128, 8, 768, 0}, 40960},
    {"gpt-oss 20B", {24, 2880, 2880, 64, 8, 64, 64, 201088, {0, 0}, ALL, 0, 32, 4, 2880, 0}, 131072},
};
enum { LLAMA_8B = 6, QWEN_SHARED = 10, QWEN_30B = 11 };

static void blocks_have_what_any_device_gives_them(void **state) {
    (void)state;
    for (int f = 0; f < LSG_N_FORMATS; f++)
        for (int32_t eights = 1; eights <= lsg_tile_of(f).eights; eights++) {
            const lsg_matmul_plan p = lsg_matmul_plan_of(f, eights);
            assert_in_range(p.shared, 1,
                            eights <= lsg_cut_of(f, 4096, 4096, (lsg_gpu){84, 100}).most_eights
                                ? LSG_BLOCK_SHARED
                                : LSG_LARGE_BLOCK_SHARED);
            assert_true(p.slots >= 3 && p.slot % 16 == 0 && p.stride % 16 == 0);
            assert_true(p.slots * p.slot >= 6000); // bytes under way that hide the way to memory
        }
    for (int32_t hd = 16; hd <= 512; hd += 16) {
        assert_in_range(lsg_attention_shared(1, hd, 1), 1, LSG_BLOCK_SHARED);
        assert_in_range(lsg_attention_shared(lsg_attention_tiles(hd), hd, 0), 1, LSG_BLOCK_SHARED);
    }
}

static void a_multiprocessor_takes_an_even_share_of_blocks(void **state) {
    (void)state;
    const lsg_gpu hopper = {132, 228}, small = {84, 100};
    for (int f = 0; f < LSG_N_FORMATS; f++)
        for (int32_t eights = 1; eights <= lsg_tile_of(f).eights; eights++)
            for (int64_t blocks = 1; blocks <= 600; blocks += 13) {
                const lsg_cut large = lsg_cut_of(f, 4096, 4096, hopper), other = lsg_cut_of(f, 4096, 4096, small);
                const int32_t needs = lsg_matmul_plan_of(f, eights).shared,
                              asks = lsg_matmul_shared(f, eights, blocks, &large), fit = (228 << 10) / (asks + 1024),
                              share = lsg_is_plain(f) ? 1 : (int32_t)((blocks + 131) / 132);
                assert_in_range(asks, needs, LSG_LARGE_BLOCK_SHARED);
                assert_in_range(fit, 1, share);
                assert_true(asks == needs || fit == share); // and no less, unless the block needs so much
                assert_int_equal(lsg_matmul_shared(f, eights, blocks, &other), needs);
            }
}

// Lanes `from` .. `from + n - 1` read `bytes` each: no two of them different words of one bank.
static void check_banks(int32_t from, int32_t n, int32_t bytes, int32_t (*address)(int32_t lane, int32_t stride),
                        int32_t stride) {
    int32_t word_of[32];
    memset(word_of, 0xFF, sizeof word_of);
    for (int32_t lane = from; lane < from + n; lane++)
        for (int32_t b = 0; b < bytes; b += 4) {
            const int32_t word = (address(lane, stride) + b) / 4;
            assert_true(word_of[word % 32] == -1 || word_of[word % 32] == word);
            word_of[word % 32] = word;
        }
}
static int32_t input_16(int32_t lane, int32_t stride) {
    return lane / 4 * stride + lane % 4 * 16;
}
static int32_t input_8(int32_t lane, int32_t stride) {
    return lane / 4 * stride + lane % 4 * 8;
}
static int32_t weight_4(int32_t lane, int32_t stride) {
    return lane / 4 * stride + lane % 4 * 4;
}

static void what_lanes_read_at_once_is_in_different_banks(void **state) {
    (void)state;
    for (int f = 0; f < LSG_N_FORMATS; f++) {
        const int32_t stride = lsg_matmul_plan_of(f, 1).stride;
        if (f == LSG_Q8S)
            for (int32_t half = 0; half < 2; half++) check_banks(16 * half, 16, 8, input_8, stride);
        else
            for (int32_t quarter = 0; quarter < 4; quarter++) check_banks(8 * quarter, 8, 16, input_16, stride);
    }
    check_banks(0, 32, 4, weight_4, LSG_SCORES * (int32_t)sizeof(float));
}

// An input of large tiles: the row's halves change places in every other row.
static int32_t large_input(int32_t lane, int32_t group) {
    const int32_t row = lane / 4;
    return row * LSG_LARGE_GROUPS * LSG_GROUP * 2 + ((group * 64) ^ (row % 2 * 64)) + lane % 4 * 16;
}

static void large_tiles_fit_and_are_taken_where_they_fill_the_device(void **state) {
    (void)state;
    for (const lsg_card *card = lsg_cards; card->name; card++)
        for (int f = 0; f < LSG_N_FORMATS; f++) {
            const bool small = card->gpu.shared_kib * 1024 < LSG_LARGE_BLOCK_SHARED;
            const lsg_cut cut = {.gpu = card->gpu};
            const int32_t stages = lsg_large_stages((lsg_format)f, card->gpu),
                          shared = lsg_large_shared((lsg_format)f, 1, &cut);
            assert_true(shared >= lsg_large_plan_of(f, stages).shared);
            assert_in_range(stages, 2, 3);
            assert_in_range(shared, 1, small ? LSG_BLOCK_SHARED : LSG_LARGE_BLOCK_SHARED);
        }
    for (int32_t quarter = 0; quarter < 4; quarter++)
        for (int32_t group = 0; group < LSG_LARGE_GROUPS; group++) check_banks(8 * quarter, 8, 16, large_input, group);
    const lsg_gpu h100 = lsg_card_of("H100")->gpu;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int k = 0; k < LSG_MATRICES; k++) {
            lsg_shape s = models[i].shape;
            int32_t n_out, n_in;
            s.gpu = h100;
            lsg_matrix_shape(&s, (lsg_which)k, &n_out, &n_in);
            if (!n_out) continue;
            for (int f = 0; f < LSG_N_FORMATS; f++) {
                const lsg_format format = (lsg_format)f;
                lsg_cut cut = lsg_matrix_cut(&s, (lsg_which)k, format);
                assert_false(lsg_matmul_is_large(format, 256, n_out, &cut)); // off, unless somebody asks for it
                cut.large = LSG_LARGE_FILLING;
                const bool few = format == LSG_BF16 && (k == LSG_GATE_UP || k == LSG_HEAD);
                for (int32_t rows = 1; rows < LSG_LARGE_ROWS && i == LLAMA_8B;
                     rows += rows < 32 ? 31 : 32) // 1, 32, 64 ..
                    assert_int_equal(lsg_matmul_is_large(format, rows, n_out, &cut), few && rows > 32 && rows <= 64);
                if (i == LLAMA_8B) assert_true(lsg_matmul_is_large(format, 256, n_out, &cut));
                if (i == 0 && k == LSG_QKV) assert_false(lsg_matmul_is_large(format, 256, n_out, &cut)); // few blocks
                cut.large = LSG_LARGE_ALWAYS;
                assert_true(lsg_matmul_is_large(format, LSG_LARGE_ROWS, n_out, &cut));
            }
        }
}

// Attention's large blocks read values of eight slots at once, and keys as other matmuls inputs.
static int32_t value_of_lane(int32_t lane, int32_t stride) {
    return lane * stride;
}

static void large_blocks_of_attention_fit_and_are_taken_where_they_fill_the_device(void **state) {
    (void)state;
    const lsg_gpu h100 = lsg_card_of("H100")->gpu, a100 = lsg_card_of("A100")->gpu, rtx = lsg_card_of("RTX 4090")->gpu;
    check_banks(0, 8, 16, value_of_lane, LSG_VALUE_STRIDE);
    for (int32_t hd = 16; hd <= 256; hd += 16) {
        const lsg_attention_plan p = lsg_attention_plan_of(hd);
        for (int32_t half = 0; half < 2; half++) check_banks(16 * half, 16, 8, input_8, p.key);
        assert_true(p.key >= hd * 2 && p.stage >= LSG_KEYS * p.key && p.stage >= LSG_CHUNK * LSG_VALUE_STRIDE);
        assert_int_equal(p.stage % 16, 0);
        const bool fits = hd <= 192;
        assert_int_equal(p.shared <= LSG_LARGE_BLOCK_SHARED, fits);
        assert_int_equal(lsg_attention_large_chunks(LSG_LARGE_ALWAYS, a100, hd, 8, 256, 32) > 0, fits);
        assert_int_equal(lsg_attention_large_chunks(LSG_LARGE_ALWAYS, rtx, hd, 8, 256, 32), 0);
    }
    // an 8B model and 64 rows: two blocks for the queries of each key, 512 in all
    assert_int_equal(lsg_attention_large_chunks(LSG_LARGE_OFF, h100, 128, 8, 256, 32), 0);
    assert_int_equal(lsg_attention_large_chunks(LSG_LARGE_FILLING, h100, 128, 8, 256, 32), 4);
    assert_int_equal(lsg_attention_large_chunks(LSG_LARGE_FILLING, h100, 128, 8, 256, 9), 2);
    assert_int_equal(lsg_attention_large_chunks(LSG_LARGE_FILLING, h100, 128, 8, 256, 8), 0);  // 128 blocks
    assert_int_equal(lsg_attention_large_chunks(LSG_LARGE_FILLING, h100, 128, 8, 64, 200), 0); // half of the warps
    assert_int_equal(lsg_attention_large_chunks(LSG_LARGE_ALWAYS, h100, 128, 8, 17, 1), 1);
    assert_int_equal(lsg_attention_large_chunks(LSG_LARGE_ALWAYS, h100, 128, 8, 16, 1), 0);
}

// What a cut must not cost, on paper, for 32 rows: partial sums stay small beside the weights, and large matrices keep
// most multiprocessors busy.
static void cuts_cost_little_beside_their_weights(void **state) {
    (void)state;
    enum { ROWS = 32 };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (const lsg_card *card = lsg_cards; card->name; card++)
            for (int n = 0; n < LSG_MATRICES * LSG_N_FORMATS; n++) {
                const lsg_format format = (lsg_format)(n % LSG_N_FORMATS);
                int32_t n_out, n_in;
                lsg_matrix_shape(&models[i].shape, (lsg_which)(n / LSG_N_FORMATS), &n_out, &n_in);
                if (!n_out) continue; // of mixtures
                const lsg_cut c = lsg_cut_of(format, n_out, n_in, card->gpu);
                const int32_t blocks = (n_out + LSG_BLOCK_OUT - 1) / LSG_BLOCK_OUT * c.chunks,
                              busy = blocks < card->gpu.multiprocessors ? blocks : card->gpu.multiprocessors;
                const double weights = (double)lsg_matrix_size(format, n_out, n_in),
                             sums = c.chunks > 1 ? 8.0 * c.chunks * n_out * ROWS : 0;
                assert_in_range(c.chunks, 1, LSG_MATMUL_CHUNKS);
                assert_true(c.chunks * c.chunk_groups >= n_in / LSG_GROUP &&
                            (c.chunks - 1) * c.chunk_groups < n_in / LSG_GROUP);
                assert_true(c.beside >= 1 && (c.beside == 1 || c.beside * blocks <= card->gpu.multiprocessors));
                if (n_in < 4096 || n_out < 2048) continue; // all of it is little
                assert_true(sums < weights);
                if (format == LSG_BF16) assert_true(sums * 5 < weights);
                assert_true(busy * 100 >= card->gpu.multiprocessors * 45);
            }
}

// Cuts that took no more than a tenth longer than the fastest on an H200, over 1 to 64 rows together.
static void cuts_of_an_8b_model_are_those_that_were_measured(void **state) {
    (void)state;
    static const int32_t chunks[][LSG_HEAD + 1] = {[LSG_BF16] = {2, 4, 1, 4, 1}, [LSG_Q4] = {4, 8, 1, 7, 1}};
    for (int f = LSG_BF16; f <= LSG_Q4; f += LSG_Q4 - LSG_BF16)
        for (int i = 0; i <= LSG_HEAD; i++) {
            lsg_shape s = models[LLAMA_8B].shape;
            s.gpu = lsg_card_of("H200")->gpu;
            assert_int_equal(lsg_matrix_cut(&s, (lsg_which)i, (lsg_format)f).chunks, chunks[f][i]);
        }
}

static void a_kv_cache_has_room_for_all_that_it_will_run(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int32_t context = 64; context <= models[i].context; context *= 2) {
            lsg_shape s = models[i].shape;
            s.gpu = lsg_card_of("H100")->gpu;
            const lsg_room r = lsg_room_of(&s, context);
            const size_t chunks = (size_t)lsg_bucket_chunks(context) + LSG_TAIL_CHUNKS;
            assert_true(r.parts >= chunks); // one row at the largest context
            assert_true(chunks * LSG_CHUNK >= (size_t)context + 256);
            for (lsg_which k = 0; k < LSG_MATRICES; k++) {
                int32_t n_out, n_in;
                lsg_matrix_shape(&s, k, &n_out, &n_in);
                if (!n_out || k == LSG_HEAD) continue;
                const bool of_experts = k == LSG_EXPERT_GATE_UP || k == LSG_EXPERT_DOWN;
                const size_t inputs = 256 * (of_experts ? (size_t)s.n_experts_used : 1);
                for (lsg_format f = 0; f < LSG_N_FORMATS; f++)
                    assert_true(r.y >= inputs * (size_t)n_out * (size_t)lsg_cut_of(f, n_out, n_in, s.gpu).chunks);
                assert_true((k == LSG_EXPERT_GATE_UP                        ? r.pair_x
                             : k == LSG_EXPERT_DOWN || k == LSG_SHARED_DOWN ? r.pair_act
                                                                            : r.xn) >= inputs * (size_t)n_in);
            }
            const uint64_t bytes = lsg_kv_cache_bytes(&s, context), logits = 4 * (uint64_t)r.logits;
            assert_in_range(bytes, logits, logits + ((uint64_t)700 << 20));
        }
    const lsg_shape llama = models[LLAMA_8B].shape;
    assert_int_equal(lsg_page_values(&llama), (size_t)32 * 2 * 8 * 1024 * 128);
}

static void buckets_hold_what_they_are_for(void **state) {
    (void)state;
    for (int32_t n = 1; n <= 256; n++)
        for (int32_t most = 3; most <= 8; most += 5) { // eights that a block has room for
            const int32_t rows = lsg_bucket_rows(n),
                          eights = lsg_matmul_eights(rows, &(lsg_cut){.beside = 1, .most_eights = most});
            assert_in_range(rows, n, 256);
            assert_in_range(eights, 1, most);
            if (most == 8) assert_true(rows == 1 || (rows % 8 == 0 && rows % (8 * eights) == 0)); // none is half empty
            for (int32_t beside = 1; beside < 50; beside++) { // so many blocks share the rows, or a block takes most
                const int32_t few = lsg_matmul_eights(rows, &(lsg_cut){.beside = beside, .most_eights = most}),
                              blocks = (rows + 8 * few - 1) / (8 * few);
                assert_in_range(few, 1, eights);
                assert_true(few == eights || blocks <= beside);
                assert_true(few == 1 || 8 * (few - 1) * (beside > blocks ? beside : blocks) < rows);
            }
        }
    for (int32_t length = 0; length < 200000; length += 97) {
        const int32_t chunks = lsg_bucket_chunks(length);
        assert_true(chunks >= length / LSG_CHUNK && (chunks & (chunks - 1)) == 0);
        assert_true(chunks == 0 || chunks < 2 * (length / LSG_CHUNK));
    }
}

static double total(const lsg_cost *c, int n, double *bytes) {
    double us = 0;
    *bytes = 0;
    for (int i = 0; i < n; i++) {
        us += c[i].us;
        *bytes += c[i].bytes;
    }
    return us;
}

static void costs_are_those_of_the_bytes(void **state) {
    (void)state;
    lsg_format formats[80][LSG_MATRICES];
    for (int f = 0; f < LSG_N_FORMATS; f++) {
        for (int i = 0; i < 80; i++)
            for (int k = 0; k < LSG_MATRICES; k++) formats[i][k] = k <= LSG_HEAD ? (lsg_format)f : LSG_NO_FORMAT;
        for (const lsg_card *card = lsg_cards; card->name; card++) {
            lsg_cost one[LSG_KERNELS], tree[LSG_KERNELS], later[LSG_KERNELS];
            const lsg_shape *s = &models[LLAMA_8B].shape; // 8B
            double bytes, more, same, matrices = 0;
            for (lsg_which k = 0; k <= LSG_HEAD; k++) {
                int32_t n_out, n_in;
                lsg_matrix_shape(s, k, &n_out, &n_in);
                matrices += (k == LSG_HEAD ? 1.0 : s->n_layers) * (double)lsg_matrix_size((lsg_format)f, n_out, n_in);
            }
            const int n = lsg_step_costs(card, s, formats, 1, 512, one);
            const double us = total(one, n, &bytes);
            assert_in_range(n, 10, LSG_KERNELS);
            assert_true(bytes > 0.999 * matrices &&
                        bytes < 1.03 * matrices);       // weights once, keys and values of 512 tokens
            assert_true(us * card->gb_s * 1e3 > bytes); // not faster than its memory
            const double of_tree = total(tree, lsg_step_costs(card, s, formats, 64, 512, tree), &same);
            assert_true(of_tree > us && same < 1.01 * bytes); // a tree reads the same weights
            for (int i = 0; i < n; i++)                       // 64 rows have 64 times the sums, and read more again
                if (!strncmp(tree[i].kernel, "matmul", 6))
                    assert_true(tree[i].sums == 64 * one[i].sums && one[i].sums > 0 && tree[i].again > one[i].again);
            assert_true(total(later, lsg_step_costs(card, s, formats, 1, 8192, later), &more) > us);
            assert_true(more - bytes > 0.99 * (8192 - 512) * 2 * 2 * 32 * 8 * 128);
        }
    }
}

// Of a mixture: the bytes of the experts that so many rows wake at random, each read once.
static void costs_of_a_mixture_are_those_of_the_experts_that_wake(void **state) {
    (void)state;
    static const int32_t rows[] = {1, 8, 64};
    for (int i = QWEN_SHARED; i <= QWEN_30B; i++) {
        const lsg_shape *m = &models[i].shape;
        lsg_format formats[80][LSG_MATRICES];
        double of_one = 0, expert = 0, before = 0;
        int32_t n_out, n_in;
        for (int layer = 0; layer < m->n_layers; layer++)
            for (lsg_which k = 0; k < LSG_MATRICES; k++) {
                lsg_matrix_shape(m, k, &n_out, &n_in);
                formats[layer][k] = k == LSG_GATE_UP || k == LSG_DOWN || !n_out ? LSG_NO_FORMAT : LSG_Q4;
            }
        for (lsg_which k = LSG_EXPERT_GATE_UP; k <= LSG_EXPERT_DOWN; k++) {
            lsg_matrix_shape(m, k, &n_out, &n_in);
            expert += (double)m->n_layers * n_out * n_in * 20 / 32; // 4 bits, a scale and a minimum of 16 for 32
        }
        for (const lsg_card *card = lsg_cards; card->name; card++) {
            before = 0;
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                lsg_cost costs[LSG_KERNELS];
                const int n = lsg_step_costs(card, m, formats, rows[r], 512, costs);
                double bytes, of_experts = 0, awake = m->n_experts, all = 1;
                const double us = total(costs, n, &bytes);
                for (int k = 0; k < rows[r]; k++) all *= 1 - (double)m->n_experts_used / m->n_experts;
                awake *= 1 - all;
                assert_in_range(n, 10, LSG_KERNELS);
                for (int k = 0; k < n; k++) {
                    if (!strncmp(costs[k].kernel, "experts' ", 9)) of_experts += costs[k].bytes;
                    if (!strcmp(costs[k].kernel, "attention")) bytes -= costs[k].bytes; // grows with the rows
                    assert_true(costs[k].us > 0 && costs[k].blocks > 0);
                }
                assert_true(of_experts > 0.999 * awake * expert && of_experts < 1.001 * awake * expert);
                assert_true(us > before && us * card->gb_s * 1e3 > bytes);
                if (!r) of_one = bytes - of_experts;
                assert_true(fabs(bytes - of_experts - of_one) < 1); // what all rows share
                before = us;
            }
        }
    }
}

// Ranks have parts of every expert and all of them the same chunks; together they have all outputs.
static void ranks_share_every_matrix_of_a_mixture(void **state) {
    (void)state;
    lsg_shape all = models[QWEN_SHARED].shape;
    all.gpu = lsg_card_of("H100")->gpu;
    const ls_sizes sizes = {all.n_heads, all.n_kv_heads,  all.n_ff,       all.n_embd,
                            all.n_vocab, all.n_ff_expert, all.n_ff_shared};
    for (int n = 2; n <= 4; n++)
        for (lsg_which k = 0; k < LSG_MATRICES; k++) {
            int32_t n_out, n_in, sum = 0, whole;
            for (int rank = 0; rank < n; rank++) {
                lsg_shape s = all;
                s.own = ls_shard_of(&sizes, rank, n);
                lsg_matrix_shape(&s, k, &n_out, &n_in);
                assert_true(n_out > 0);
                assert_int_equal(lsg_matrix_cut(&s, k, LSG_Q4).chunks, lsg_matrix_cut(&all, k, LSG_Q4).chunks);
                assert_true(lsg_kv_cache_bytes(&s, 4096) < lsg_kv_cache_bytes(&all, 4096));
                sum += n_out;
            }
            lsg_matrix_shape(&all, k, &whole, &n_in);
            assert_int_equal(sum, whole);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_what_any_device_gives_them),
        cmocka_unit_test(a_multiprocessor_takes_an_even_share_of_blocks),
        cmocka_unit_test(what_lanes_read_at_once_is_in_different_banks),
        cmocka_unit_test(large_tiles_fit_and_are_taken_where_they_fill_the_device),
        cmocka_unit_test(large_blocks_of_attention_fit_and_are_taken_where_they_fill_the_device),
        cmocka_unit_test(cuts_cost_little_beside_their_weights),
        cmocka_unit_test(cuts_of_an_8b_model_are_those_that_were_measured),
        cmocka_unit_test(a_kv_cache_has_room_for_all_that_it_will_run),
        cmocka_unit_test(buckets_hold_what_they_are_for),
        cmocka_unit_test(costs_are_those_of_the_bytes),
        cmocka_unit_test(costs_of_a_mixture_are_those_of_the_experts_that_wake),
        cmocka_unit_test(ranks_share_every_matrix_of_a_mixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
