/* gpusim: keep a simulated GPU busy; look at a scenario. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "busy.h"
#include "call.h"
#include "place.h"
#include "scenario.h"


static const char usage[] =
    "usage: gpusim busy --gpu INDEX --seconds SECONDS [--util PERCENT] [--memory-mib MIB]\n"
    "       gpusim check [FILE]     say whether a compiled scenario is whole\n"
    "       gpusim energy           energy in mJ and busy time in ns of each GPU, a line each\n"
    "       gpusim readings         names of all readings\n";

static volatile sig_atomic_t is_stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    is_stopped = 1;
}

static int parse_double(const char *text, double most, double *value)
{
    char *end;
    *value = strtod(text, &end);
    if (end != text && *end == '\0' && *value >= 0 && *value <= most)
        return 1;
    fprintf(stderr, "gpusim: '%s' is no number from 0 to %.0f\n", text, most);
    return 0;
}

static int busy(int count, char **arguments)
{
    static const struct option options[] = {
        {"gpu", required_argument, NULL, 'g'},
        {"seconds", required_argument, NULL, 's'},
        {"util", required_argument, NULL, 'u'},
        {"memory-mib", required_argument, NULL, 'm'},
        {NULL, 0, NULL, 0},
    };
    double gpu = -1, seconds = -1, percent = 100, mebibytes = 0;
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        int is_fine = option == 'g'   ? parse_double(optarg, MAX_GPUS - 1, &gpu)
                      : option == 's' ? parse_double(optarg, 1e9, &seconds)
                      : option == 'u' ? parse_double(optarg, 100, &percent)
                      : option == 'm' ? parse_double(optarg, 1e7, &mebibytes)
                                      : 0;
        if (!is_fine)
            return 2;
    }
    if (gpu < 0 || seconds < 0 || optind < count) {
        fputs(usage, stderr);
        return 2;
    }
    struct gpusim_busy *mark = gpusim_busy_open((unsigned)gpu, (unsigned)percent,
                                                (unsigned long long)(mebibytes * (1 << 20)));
    if (mark == NULL) {
        char folder[PLACE_SIZE];
        place_run_path(folder, "busy");
        fprintf(stderr, "gpusim: %s: %s\n", folder, strerror(errno));
        return 1;
    }
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    int64_t end_ns = clock_monotonic_ns() + (int64_t)(seconds * 1e9);
    while (!is_stopped && clock_monotonic_ns() < end_ns) {
        /* Said often, so that little is lost of the energy when it is killed. */
        int64_t left_ms = (end_ns - clock_monotonic_ns()) / 1000000 + 1;
        gpusim_busy_set(mark, 1);
        sleep_ms(left_ms < 50 ? left_ms : 50);
    }
    gpusim_busy_close(mark);
    return is_stopped ? 130 : 0;
}

static int check(const char *path)
{
    char problem[200], standard[PLACE_SIZE];
    place_path(standard, "GPUSIM_DIR", "/var/lib/gpusim", "scenario");
    path = path == NULL ? standard : path;
    struct scenario *scenario = scenario_read(path, problem, sizeof problem);
    if (scenario == NULL) {
        fprintf(stderr, "gpusim: %s: %s\n", path, problem);
        return 1;
    }
    printf("%s: %u GPUs\n", path, scenario->gpu_count);
    scenario_free(scenario);
    return 0;
}

static int energy(void)
{
    struct call call = {.scenario = scenario_acquire(), .now_ms = clock_realtime_ms()};
    for (; call.scenario != NULL && call.index < call.scenario->gpu_count; call.index++) {
        struct load load;
        call.gpu = &call.scenario->gpus[call.index];
        marks_read(call.index, &load, NULL, 0);
        printf("%lld %.0f\n", (long long)energy_now(&call), load.busy_ns);
    }
    scenario_release(call.scenario);
    return 0;
}

int main(int count, char **arguments)
{
    const char *command = count < 2 ? "" : arguments[1];
    if (strcmp(command, "busy") == 0)
        return busy(count - 1, arguments + 1);
    if (strcmp(command, "check") == 0 && count <= 3)
        return check(arguments[2]);
    if (strcmp(command, "energy") == 0)
        return energy();
    if (strcmp(command, "readings") == 0) {
        for (int i = 0; i < READING_COUNT; i++)
            puts(reading_name(i));
        return 0;
    }
    fputs(usage, strcmp(command, "--help") == 0 ? stdout : stderr);
    return strcmp(command, "--help") == 0 ? 0 : 2;
}
