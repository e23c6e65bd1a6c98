/* Which scenario is in force: the file is looked at in every call, and read when it has changed. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvml.h"
#include "place.h"
#include "scenario.h"

enum { LARGEST_FILE = 4 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct scenario *current;
static struct stat seen, seen_driver;

static char *read_whole(const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text = NULL;
    if (file < 0)
        return NULL;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size < LARGEST_FILE)
        text = calloc(1, (size_t)status.st_size + 1);
    for (off_t done = 0; text != NULL && done < status.st_size;) {
        ssize_t got = read(file, text + done, (size_t)(status.st_size - done));
        if (got <= 0)
            break;
        done += got;
    }
    close(file);
    return text;
}

struct scenario *scenario_read(const char *path, char *problem, size_t problem_size)
{
    char *text = read_whole(path);
    if (text == NULL) {
        snprintf(problem, problem_size, "cannot be read: %s", strerror(errno));
        return NULL;
    }
    struct scenario *scenario = scenario_parse(text, problem, problem_size);
    free(text);
    return scenario;
}

static int is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A scenario may leave it to the file `driver` which driver is installed ("550.163.01 12.4"), as a
 * real library finds the module that is loaded. No such file: no driver is loaded. */
static void take_installed_driver(struct scenario *scenario, const char *path)
{
    int major, minor;
    if (strcmp(scenario->driver, "installed") != 0)
        return;
    char *text = read_whole(path);
    if (text == NULL || sscanf(text, "%79s %d.%d", scenario->driver, &major, &minor) != 3) {
        scenario->init_error = NVML_ERROR_DRIVER_NOT_LOADED;
        free(text);
        return;
    }
    free(text);
    scenario->cuda = major * 1000 + minor * 10;
    snprintf(scenario->nvml, sizeof scenario->nvml, "%d.%.60s", major, scenario->driver);
}

static int look(const char *path, struct stat *status)
{
    memset(status, 0, sizeof *status);
    return stat(path, status) == 0;
}

static void refresh(void)
{
    char path[PLACE_SIZE], driver[PLACE_SIZE], problem[200] = "is missing";
    struct stat status, driver_status;
    struct scenario *fresh = NULL;
    place_path(path, "GPUSIM_DIR", "/var/lib/gpusim", "scenario");
    place_path(driver, "GPUSIM_DIR", "/var/lib/gpusim", "driver");
    int exists = look(path, &status);
    look(driver, &driver_status);
    if (current != NULL && is_same(&status, &seen) && is_same(&driver_status, &seen_driver))
        return;
    seen = status;
    seen_driver = driver_status;
    if (exists)
        fresh = scenario_read(path, problem, sizeof problem);
    if (fresh != NULL)
        take_installed_driver(fresh, driver);
    /* Programs that print for machines must not find this between their lines. */
    if (fresh == NULL && getenv("GPUSIM_VERBOSE") != NULL)
        fprintf(stderr, "gpusim: %s %s\n", path, problem);
    if (fresh == NULL && current == NULL) {
        char none[] = "gpusim-scenario 1\ndriver 0.0.0\nnvml 0.0.0\ncuda 1000\nend\n";
        fresh = scenario_parse(none, problem, sizeof problem);
    }
    if (fresh == NULL)
        return;
    if (current != NULL && --current->references == 0)
        scenario_free(current);
    current = fresh;
}

struct scenario *scenario_acquire(void)
{
    pthread_mutex_lock(&lock);
    refresh();
    struct scenario *scenario = current;
    if (scenario != NULL)
        scenario->references++;
    pthread_mutex_unlock(&lock);
    return scenario;
}

void scenario_release(struct scenario *scenario)
{
    pthread_mutex_lock(&lock);
    if (scenario != NULL && --scenario->references == 0)
        scenario_free(scenario);
    pthread_mutex_unlock(&lock);
}

/* Called when the library is unloaded, so that leak checkers have nothing to say. */
__attribute__((destructor)) static void forget(void)
{
    if (current != NULL && --current->references == 0)
        scenario_free(current);
    current = NULL;
}
