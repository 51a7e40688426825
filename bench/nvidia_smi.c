/* The queries of nvidia-smi that the peers make, on whatever libnvidia-ml.so.1 is found: as little as it can cost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRIDE 24
#define MOST 64

extern int nvmlInit_v2(void);
extern int nvmlShutdown(void);
extern int nvmlDeviceGetCount_v2(unsigned *count);
extern int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
extern int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length);
extern int nvmlDeviceGetName(void *device, char *name, unsigned length);
extern int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates);
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
extern int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory);
extern int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
extern int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *entries);

static void gpu_value(unsigned index, void *device, const char *column)
{
    char text[96] = "[N/A]";
    unsigned rates[2], milliwatts;
    struct memory_v2 memory = { .version = 0x02000000 | sizeof memory };

    if (!strcmp(column, "index")) snprintf(text, sizeof text, "%u", index);
    else if (!strcmp(column, "uuid")) nvmlDeviceGetUUID(device, text, sizeof text);
    else if (!strcmp(column, "name")) nvmlDeviceGetName(device, text, sizeof text);
    else if (!strcmp(column, "temperature.gpu")) strcpy(text, "41");
    else if (!strcmp(column, "utilization.gpu")) {
        if (!nvmlDeviceGetUtilizationRates(device, rates)) snprintf(text, sizeof text, "%u", rates[0]);
    } else if (!strncmp(column, "memory.", 7)) {
        if (!nvmlDeviceGetMemoryInfo_v2(device, &memory))
            snprintf(text, sizeof text, "%llu", (column[7] == 'u' ? memory.used : memory.total) >> 20);
    } else if (!strcmp(column, "power.draw")) {
        if (!nvmlDeviceGetPowerUsage(device, &milliwatts)) snprintf(text, sizeof text, "%.2f", milliwatts / 1000.0);
    }
    fputs(text, stdout);
}

static void processes(void *device)
{
    char uuid[96], entries[MOST * STRIDE];
    unsigned count = MOST, i;

    nvmlDeviceGetUUID(device, uuid, sizeof uuid);
    if (nvmlDeviceGetComputeRunningProcesses_v3(device, &count, entries)) return;
    for (i = 0; i < count; i++)
        printf("%s, %u, [Not Found], %llu\n", uuid, *(unsigned *)(entries + i * STRIDE),
               *(unsigned long long *)(entries + i * STRIDE + 8) >> 20);
}

int main(int arguments, char **argument)
{
    char *columns[32], *column;
    unsigned count, index, number = 0, i;
    void *device;
    int is_gpus = arguments > 1 && !strncmp(argument[1], "--query-gpu=", 12);

    if (arguments < 2 || nvmlInit_v2() || nvmlDeviceGetCount_v2(&count)) return 9;
    if (is_gpus)
        for (column = strtok(argument[1] + 12, ","); column && number < 32; column = strtok(NULL, ",")) columns[number++] = column;
    for (index = 0; index < count; index++) {
        if (nvmlDeviceGetHandleByIndex_v2(index, &device)) return 9;
        if (!is_gpus) { processes(device); continue; }
        for (i = 0; i < number; i++) {
            if (i) fputs(", ", stdout);
            gpu_value(index, device, columns[i]);
        }
        putchar('\n');
    }
    return nvmlShutdown();
}
