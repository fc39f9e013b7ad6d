#include "cli/machine.h"
#include "base/system.h"
#include "engine/device.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double load_now(void) {
    double load[1];
    return getloadavg(load, 1) == 1 ? load[0] : NAN;
}

ls_code ls_machine_limits(ls_manifest *m, int32_t threads, ls_err *err) {
    lst_limits_t limits;
    const uint64_t weights = isfinite(m->weight_mb) ? (uint64_t)(m->weight_mb * 1e6) : 0;
    const ls_code code = ls_limits_measure(&limits, threads, weights, err);
    if (code) return code;
    m->threads = limits.threads;
    m->read_gb_per_s = fmax(m->read_gb_per_s, limits.read_gb_per_s); // fmax ignores a NAN
    m->f32_gmac_per_s = fmax(m->f32_gmac_per_s, limits.f32_gmac_per_s);
    if (limits.int8_gmac_per_s > 0) m->int8_gmac_per_s = fmax(m->int8_gmac_per_s, limits.int8_gmac_per_s);
    if (limits.bf16_gmac_per_s > 0) m->bf16_gmac_per_s = fmax(m->bf16_gmac_per_s, limits.bf16_gmac_per_s);
    return LS_OK;
}

ls_cpu_wait ls_machine_begin(ls_manifest *m) {
    *m = (ls_manifest){0};
#define TEXT(field, words)
#define NUMBER(field, words, unit) m->field = NAN;
#include "report/manifest.def"
    const time_t now = time(NULL);
    struct tm day;
    cpu_set_t set;
    snprintf(m->version, sizeof m->version, "logitspec %s", LS_VERSION);
    snprintf(m->commit, sizeof m->commit, "%s", LS_COMMIT);
    strftime(m->date, sizeof m->date, "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &day));
    ls_processor_name(m->processor, sizeof m->processor);
    if (!ls_sysfile_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", m->governor, sizeof m->governor))
        snprintf(m->governor, sizeof m->governor, "not reported by the system");
    if (!sched_getaffinity(0, sizeof set, &set)) m->processors = CPU_COUNT(&set);
    m->memory_gb = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE) / 1e9;
    m->load_before = load_now();
    ls_cpu_wait waits = {0};
    ls_cpu_wait_share(&waits, 0);
    return waits;
}

void ls_machine_model(ls_manifest *m, const ls_model *model, bool limits) {
    const ls_engine *e = model->engine;
    snprintf(m->model, sizeof m->model, "%s", model->name);
    snprintf(m->sha256, sizeof m->sha256, "%s", model->sha256);
    snprintf(m->dtype, sizeof m->dtype, "%s", e->dtype);
    snprintf(m->device, sizeof m->device, "%s", e->device);
    snprintf(m->kernel, sizeof m->kernel, "%s", e->kernel);
    snprintf(m->library, sizeof m->library, "%s", e->version);
    m->threads = e->threads;
    if (!e->weight_bytes || strcmp(e->device, "cpu")) return;
    m->kv_kb = (double)e->kv_bytes / 1e3;
    m->weight_mb = (double)e->weight_bytes / 1e6;
    m->row_mmac = (double)e->row_macs / 1e6;
    if (!limits) return;
    ls_gauge_show(NULL, "measuring the machine", -1);
    ls_machine_limits(m, e->threads, NULL);
}

void ls_machine_end(ls_manifest *m, ls_cpu_wait *w) {
    m->load_after = load_now();
    m->waited = ls_cpu_wait_share(w, 0);
    // measures again: another program may have slowed the first measurement
    if (isfinite(m->read_gb_per_s)) ls_machine_limits(m, (int32_t)m->threads, NULL);
}
