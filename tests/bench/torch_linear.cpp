// The bare cost of the default model's linear layers in libtorch, f32: the yardstick for our decoder's plain step.
// Prints one JSON line: milliseconds of all layers, by rows; median of REPEATS.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

int main(int argc, char **argv) {
    const int repeats = argc > 1 ? atoi(argv[1]) : 15;
    at::InferenceMode guard;
    const int64_t embd = 576, kv = 192, ff = 1536, vocab = 49152, layers = 30;
    std::vector<at::Tensor> weights; // SmolLM2-135M: q k v o gate up down in each layer, then the output head
    for (int64_t l = 0; l < layers; l++)
        for (auto [out, in] : {std::pair{embd, embd}, {kv, embd}, {kv, embd}, {embd, embd}, {ff, embd}, {ff, embd}, {embd, ff}})
            weights.push_back(at::randn({out, in}));
    weights.push_back(at::randn({vocab, embd}));
    std::printf("{\"threads\":%d,\"ms\":{", at::get_num_threads());
    const char *comma = "";
    for (int64_t rows : {1, 2, 4, 8, 16, 32, 64}) {
        at::Tensor narrow = at::randn({rows, embd}), wide = at::randn({rows, ff});
        std::vector<double> times;
        for (int r = 0; r < repeats + 2; r++) {
            auto start = std::chrono::steady_clock::now();
            for (auto &w : weights) at::linear(w.size(1) == ff ? wide : narrow, w);
            double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
            if (r >= 2) times.push_back(ms);
        }
        std::sort(times.begin(), times.end());
        std::printf("%s\"%lld\":%.3f", comma, (long long)rows, times[times.size() / 2]);
        comma = ",";
    }
    std::printf("}}\n");
    return 0;
}
