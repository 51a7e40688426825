/* A libnvidia-ml.so.1 that answers from a control file, read anew at every call (see FakeNvml in __init__.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_GPUS 16
#define MAX_PROCESSES 512
#define MAX_RULES 64
#define MAX_SAMPLES 128
#define NOT_AVAILABLE 0xFFFFFFFFFFFFFFFFULL

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15,
       ARGUMENT_VERSION_MISMATCH = 25 };

struct process { unsigned pid; unsigned long long used; };
struct list { int count; struct process items[MAX_PROCESSES]; };
struct rule { int gpu; char call[64]; int code; };            /* gpu -1: for all */
struct gpu {
    char uuid[96], name[96];
    int utilization, utilization_again, mig, recovery, power, samples;  /* those from utilization_again on, -1: not set */
    unsigned sample[MAX_SAMPLES];
    unsigned long long sample_time_us;                          /* 0: new at every call */
    unsigned long long total, reserved, used, used_v1;
    struct list compute, graphics, mps;
};
static struct {
    char driver[80], prints[200];
    int gpus, rules, hangs, stride, growing;
    struct gpu gpu[MAX_GPUS];
    struct rule rule[MAX_RULES], hang[MAX_RULES];
} control;

static int initialized, utilization_calls[MAX_GPUS], fetches;
static unsigned long long sample_clock_us = 1000000;

static void add_process(struct list *list, const char *line)
{
    struct process *item = &list->items[list->count];
    char used[32];
    if (list->count < MAX_PROCESSES && sscanf(line, "%u %31s", &item->pid, used) == 2) {
        item->used = strcmp(used, "na") ? strtoull(used, NULL, 10) : NOT_AVAILABLE;
        list->count++;
    }
}

static void add_rule(struct rule *rules, int *count, int gpu, const char *line)
{
    if (*count < MAX_RULES && sscanf(line, "%63s %d", rules[*count].call, &rules[*count].code) >= 1)
        rules[(*count)++].gpu = gpu;
}

static void copy(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from); }

static void read_gpu_line(struct gpu *gpu, const char *key, const char *value)
{
    if (!strcmp(key, "uuid")) copy(gpu->uuid, sizeof gpu->uuid, value);
    else if (!strcmp(key, "name")) copy(gpu->name, sizeof gpu->name, value);
    else if (!strcmp(key, "utilization")) gpu->utilization = atoi(value);
    else if (!strcmp(key, "utilization_again")) gpu->utilization_again = atoi(value);
    else if (!strcmp(key, "mig")) gpu->mig = atoi(value);
    else if (!strcmp(key, "recovery")) gpu->recovery = atoi(value);
    else if (!strcmp(key, "power")) gpu->power = atoi(value);
    else if (!strcmp(key, "total")) gpu->total = strtoull(value, NULL, 10);
    else if (!strcmp(key, "reserved")) gpu->reserved = strtoull(value, NULL, 10);
    else if (!strcmp(key, "used")) gpu->used = strtoull(value, NULL, 10);
    else if (!strcmp(key, "used_v1")) gpu->used_v1 = strtoull(value, NULL, 10);
    else if (!strcmp(key, "sample") && gpu->samples < MAX_SAMPLES) gpu->sample[gpu->samples++] = (unsigned)atoi(value);
    else if (!strcmp(key, "sample_time_us")) gpu->sample_time_us = strtoull(value, NULL, 10);
    else if (!strcmp(key, "compute")) add_process(&gpu->compute, value);
    else if (!strcmp(key, "graphics")) add_process(&gpu->graphics, value);
    else if (!strcmp(key, "mps")) add_process(&gpu->mps, value);
}

static void read_line(char *line)
{
    char *value = strchr(line, ' ');
    if (value == NULL) return;
    *value++ = '\0';
    if (!strcmp(line, "gpu") && control.gpus < MAX_GPUS) {
        struct gpu *gpu = &control.gpu[control.gpus++];
        gpu->mig = gpu->recovery = gpu->utilization_again = gpu->power = -1;
    }
    else if (!strcmp(line, "driver")) copy(control.driver, sizeof control.driver, value);
    else if (!strcmp(line, "prints")) copy(control.prints, sizeof control.prints, value);
    else if (!strcmp(line, "stride")) control.stride = atoi(value);
    else if (!strcmp(line, "growing")) control.growing = atoi(value);
    else if (!strcmp(line, "rc")) add_rule(control.rule, &control.rules, control.gpus - 1, value);
    else if (!strcmp(line, "hang")) add_rule(control.hang, &control.hangs, control.gpus - 1, value);
    else if (control.gpus > 0) read_gpu_line(&control.gpu[control.gpus - 1], line, value);
}

/* The file is only ever replaced as a whole: what is the same file says the same. */
static int is_read_already(const char *path)
{
    static struct stat before;
    struct stat now;
    if (path == NULL || stat(path, &now) != 0) return 0;
    if (now.st_ino == before.st_ino && now.st_size == before.st_size && now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == before.st_mtim.tv_nsec) return 1;
    before = now;
    return 0;
}

static void read_control(void)
{
    char line[512];
    const char *path = getenv("FAKE_NVML_CONTROL");
    FILE *file;
    if (is_read_already(path)) return;
    file = path ? fopen(path, "r") : NULL;
    memset(&control, 0, sizeof control);
    control.stride = 24;
    if (file == NULL) return;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        read_line(line);
    }
    fclose(file);
}

static struct rule *find(struct rule *rules, int count, const char *call, int gpu)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(rules[i].call, call) && (rules[i].gpu == -1 || rules[i].gpu == gpu)) return &rules[i];
    return NULL;
}

/* The code that the call has to return at once; hangs for as long as the control file says so, signals or not. */
static int enter(const char *call, int gpu)
{
    struct rule *rule;
    read_control();
    while (find(control.hang, control.hangs, call, gpu)) {
        usleep(20000);
        read_control();
    }
    rule = find(control.rule, control.rules, call, gpu);
    if (rule) return rule->code;
    if (!initialized && strcmp(call, "nvmlInitWithFlags")) return UNINITIALIZED;
    return gpu >= control.gpus ? GPU_IS_LOST : OK;
}

static int index_of(void *device) { return (int)(long)device - 1; }
static struct gpu *of(void *device) { return &control.gpu[index_of(device)]; }

#define ENTER(gpu) do { int code_ = enter(__func__, gpu); if (code_ != OK) return code_; } while (0)

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    ENTER(-1);
    if (control.prints[0]) { puts(control.prints); fflush(stdout); }
    initialized++;
    return OK;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { ENTER(-1); initialized--; return OK; }
const char *nvmlErrorString(int code) { static char text[32]; snprintf(text, sizeof text, "code %d", code); return text; }

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{ ENTER(-1); copy(version, length, control.driver); return OK; }

int nvmlDeviceGetCount_v2(unsigned *count) { ENTER(-1); *count = (unsigned)control.gpus; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    ENTER((int)index);
    *device = (void *)(long)(index + 1);
    return OK;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length)
{ ENTER(index_of(device)); copy(uuid, length, of(device)->uuid); return OK; }

int nvmlDeviceGetName(void *device, char *name, unsigned length)
{ ENTER(index_of(device)); copy(name, length, of(device)->name); return OK; }

int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates)
{
    struct gpu *gpu;
    int call;
    ENTER(index_of(device));
    gpu = of(device);
    call = utilization_calls[index_of(device)]++;
    rates[0] = (unsigned)(call % 2 && gpu->utilization_again >= 0 ? gpu->utilization_again : gpu->utilization);
    rates[1] = 0;
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory)
{
    ENTER(index_of(device));
    memory[0] = of(device)->total;
    memory[1] = of(device)->total - of(device)->used_v1;
    memory[2] = of(device)->used_v1;
    return OK;
}

struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory)
{
    struct gpu *gpu;
    ENTER(index_of(device));
    if (memory->version != 0x02000028) return ARGUMENT_VERSION_MISMATCH;
    gpu = of(device);
    memory->total = gpu->total;
    memory->reserved = gpu->reserved;
    memory->used = gpu->used;
    memory->free = gpu->total - gpu->used - gpu->reserved;
    return OK;
}

/* Entries of 24 bytes, or of 32 as drivers 535.43 to 535.86 wrote them. `growing N`: the first N fetches find more. */
static int fill(struct list *list, unsigned *count, char *entries)
{
    if (entries && fetches++ < control.growing) { *count += 1; return INSUFFICIENT_SIZE; }
    if (*count < (unsigned)list->count) { *count = (unsigned)list->count; return INSUFFICIENT_SIZE; }
    for (int i = 0; i < list->count && entries; i++) {
        char *entry = entries + (size_t)i * (size_t)control.stride;
        unsigned none[2] = {0xFFFFFFFFu, 0xFFFFFFFFu};
        if ((size_t)(i + 1) * (size_t)control.stride > *count * 24UL) break;
        memset(entry, 0, (size_t)control.stride);
        memcpy(entry, &list->items[i].pid, 4);
        memcpy(entry + 8, &list->items[i].used, 8);
        memcpy(entry + 16, none, 8);
    }
    *count = (unsigned)list->count;
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *entries)
{ ENTER(index_of(device)); return fill(&of(device)->compute, count, entries); }

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, void *entries)
{ ENTER(index_of(device)); return fill(&of(device)->graphics, count, entries); }

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, unsigned *count, void *entries)
{ ENTER(index_of(device)); return fill(&of(device)->mps, count, entries); }

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    ENTER(index_of(device));
    if (of(device)->mig < 0) return NOT_SUPPORTED;
    *current = *pending = (unsigned)of(device)->mig;
    return OK;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    ENTER(index_of(device));
    if (of(device)->power < 0) return NOT_SUPPORTED;
    *milliwatts = (unsigned)of(device)->power;
    return OK;
}

struct field { unsigned id, scope; long long timestamp, latency; unsigned type; int code; unsigned long long value; };

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields)
{
    ENTER(index_of(device));
    for (int i = 0; i < count; i++) {
        int known = fields[i].id == 230 && of(device)->recovery >= 0;   /* NVML_FI_DEV_GET_GPU_RECOVERY_ACTION */
        fields[i].code = known ? OK : NOT_SUPPORTED;
        fields[i].type = 1;
        fields[i].value = known ? (unsigned long long)of(device)->recovery : 0;
    }
    return OK;
}

struct sample { unsigned long long time_us, value; };

/* Without `sample_time_us` each `sample` line is new at every call, as if measured since the last one. */
int nvmlDeviceGetSamples(void *device, int kind, unsigned long long seen, unsigned *type, unsigned *count,
                         struct sample *samples)
{
    struct gpu *gpu;
    (void)kind;
    ENTER(index_of(device));
    gpu = of(device);
    if (gpu->samples == 0 || (gpu->sample_time_us && gpu->sample_time_us <= seen)) return NOT_FOUND;
    *type = 1;
    for (int i = 0; samples && i < gpu->samples && i < (int)*count; i++) {
        samples[i].time_us = gpu->sample_time_us ? gpu->sample_time_us : ++sample_clock_us;
        samples[i].value = gpu->sample[i];
    }
    if (!samples || *count > (unsigned)gpu->samples) *count = (unsigned)gpu->samples;
    return OK;
}
