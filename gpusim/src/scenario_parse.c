/* The compiled scenario: lines of words, written by gpuferry/simulation/compiled.py. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

#define NAME(name) #name,
static const char *const reading_names[] = {READINGS(NAME)};
static const char *const text_names[] = {TEXTS(NAME)};
#undef NAME

struct parser {
    struct scenario *scenario;
    struct gpu *gpu;            /* whose section this is; NULL before the first */
    size_t pool_used, pool_size;
    char *rest;                 /* of the line */
    int ended;
};

static int by_name(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

int reading_by_name(const char *name)
{
    return by_name(reading_names, READING_COUNT, name);
}

int text_by_name(const char *name)
{
    return by_name(text_names, TEXT_COUNT, name);
}

const char *reading_name(enum reading reading)
{
    return reading_names[reading];
}

static char *word(struct parser *parser)
{
    char *start = parser->rest + strspn(parser->rest, " ");
    if (*start == '\0')
        return NULL;
    char *end = start + strcspn(start, " ");
    parser->rest = *end == '\0' ? end : end + 1;
    *end = '\0';
    return start;
}

static int number(struct parser *parser, int64_t *value)
{
    const char *text = word(parser);
    char *end;
    if (text == NULL)
        return 0;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' && end != text;
}

static int small(struct parser *parser, int *value, int64_t least, int64_t most)
{
    int64_t wide;
    if (!number(parser, &wide) || wide < least || wide > most)
        return 0;
    *value = (int)wide;
    return 1;
}

static int text_into(const char *text, char *target, size_t size)
{
    if (text == NULL || *text == '\0' || strlen(text) >= size)
        return 0;
    memcpy(target, text, strlen(text) + 1);
    return 1;
}

static int parse_text(struct parser *parser)
{
    const char *name = word(parser);
    int index = name == NULL ? -1 : text_by_name(name);
    return index >= 0 && text_into(parser->rest, parser->gpu->text[index], TEXT_SIZE);
}

static struct series *named_series(struct parser *parser)
{
    const char *name = word(parser);
    int index = name == NULL ? -1 : reading_by_name(name);
    return index < 0 ? NULL : &parser->gpu->reading[index];
}

static int parse_reading(struct parser *parser)
{
    struct series *series = named_series(parser);
    if (series == NULL || !number(parser, &series->value))
        return 0;
    series->is_set = 1;
    return 1;
}

static int parse_absent(struct parser *parser)
{
    struct series *series = named_series(parser);
    if (series == NULL)
        return 0;
    series->is_absent = 1;
    return 1;
}

/* series NAME hold|loop step|linear SINCE_MS TIME_MS VALUE … */
static int parse_series(struct parser *parser)
{
    struct series *series = named_series(parser);
    const char *end = word(parser), *shape = word(parser);
    int64_t last = -1;
    struct point point;
    if (series == NULL || end == NULL || shape == NULL || !number(parser, &series->since_ms))
        return 0;
    series->loop = strcmp(end, "loop") == 0;
    series->linear = strcmp(shape, "linear") == 0;
    series->points = parser->scenario->pool + parser->pool_used;
    while (*(parser->rest + strspn(parser->rest, " ")) != '\0') {
        if (!number(parser, &point.time_ms) || !number(parser, &point.value))
            return 0;
        if (point.time_ms <= last || parser->pool_used >= parser->pool_size)
            return 0;
        last = point.time_ms;
        parser->scenario->pool[parser->pool_used++] = point;
        series->count++;
    }
    series->is_set = series->count > 0;
    return series->is_set;
}

/* process PID MEMORY_BYTES C|G live|keep */
static int parse_process(struct parser *parser)
{
    struct gpu *gpu = parser->gpu;
    int64_t pid, memory;
    if (gpu->process_count == MAX_PROCESSES || !number(parser, &pid) || !number(parser, &memory))
        return 0;
    const char *type = word(parser), *keep = word(parser);
    if (type == NULL || keep == NULL || pid <= 0 || memory < 0)
        return 0;
    gpu->processes[gpu->process_count++] = (struct process){
        .pid = (unsigned)pid,
        .memory_bytes = (uint64_t)memory,
        .type = *type,
        .keep = strcmp(keep, "keep") == 0,
    };
    return 1;
}

/* event SEQUENCE TIME_MS XID */
static int parse_event(struct parser *parser)
{
    struct gpu *gpu = parser->gpu;
    struct event event;
    int xid;
    if (gpu->event_count == MAX_EVENTS || !number(parser, &event.sequence) ||
        !number(parser, &event.time_ms) || !small(parser, &xid, 0, 100000))
        return 0;
    event.xid = (unsigned)xid;
    gpu->events[gpu->event_count++] = event;
    return 1;
}

/* mig NAME SLOT ID SLICES MOST MULTIPROCESSORS MEMORY_MIB SIZE START … */
static int parse_mig(struct parser *parser)
{
    struct gpu *gpu = parser->gpu;
    struct mig_profile *profile = &gpu->mig_profiles[gpu->mig_profile_count];
    int numbers[7], start;
    if (gpu->mig_profile_count == MAX_MIG_PROFILES ||
        !text_into(word(parser), profile->name, sizeof profile->name))
        return 0;
    for (unsigned i = 0; i < 7; i++)
        if (!small(parser, &numbers[i], 0, 1 << 24))
            return 0;
    profile->slot = (unsigned)numbers[0];
    profile->id = (unsigned)numbers[1];
    profile->slices = (unsigned)numbers[2];
    profile->most = (unsigned)numbers[3];
    profile->multiprocessors = (unsigned)numbers[4];
    profile->memory_mib = numbers[5];
    profile->size = (unsigned)numbers[6];
    while (profile->start_count < MAX_STARTS && small(parser, &start, 0, 64))
        profile->starts[profile->start_count++] = (unsigned)start;
    gpu->mig_profile_count++;
    return profile->start_count > 0;
}

/* function NAME return CODE | delay MS | hang 0; in a GPU's section only for that GPU */
static int parse_function(struct parser *parser)
{
    struct scenario *scenario = parser->scenario;
    struct fault *fault = &scenario->faults[scenario->fault_count];
    if (scenario->fault_count == MAX_FAULTS ||
        !text_into(word(parser), fault->function, FUNCTION_SIZE))
        return 0;
    const char *action = word(parser);
    if (action == NULL || !small(parser, &fault->value, 0, 86400000))
        return 0;
    if (strcmp(action, "return") == 0)
        fault->action = ACTION_RETURN;
    else if (strcmp(action, "delay") == 0)
        fault->action = ACTION_DELAY;
    else if (strcmp(action, "hang") == 0)
        fault->action = ACTION_HANG;
    else
        return 0;
    fault->gpu = parser->gpu == NULL ? EVERY_GPU : (int)(parser->gpu - scenario->gpus);
    scenario->fault_count++;
    return 1;
}

static int parse_gpu(struct parser *parser)
{
    int index;
    if (!small(parser, &index, 0, MAX_GPUS - 1) || index != (int)parser->scenario->gpu_count)
        return 0;
    parser->gpu = &parser->scenario->gpus[parser->scenario->gpu_count++];
    return 1;
}

static int parse_line(struct parser *parser)
{
    struct scenario *scenario = parser->scenario;
    const char *keyword = word(parser);
    int stride;
    if (strcmp(keyword, "gpu") == 0)
        return parse_gpu(parser);
    if (strcmp(keyword, "function") == 0)
        return parse_function(parser);
    if (strcmp(keyword, "end") == 0)
        return parser->ended = 1;
    if (parser->gpu == NULL) {
        if (strcmp(keyword, "driver") == 0)
            return text_into(word(parser), scenario->driver, TEXT_SIZE);
        if (strcmp(keyword, "nvml") == 0)
            return text_into(word(parser), scenario->nvml, TEXT_SIZE);
        if (strcmp(keyword, "cuda") == 0)
            return small(parser, &scenario->cuda, 1000, 1000000);
        if (strcmp(keyword, "init-error") == 0)
            return small(parser, &scenario->init_error, 0, 999);
        if (strcmp(keyword, "process-stride") == 0 && small(parser, &stride, 24, 32)) {
            scenario->process_stride = (unsigned)stride;
            return stride == 24 || stride == 32;
        }
        return 0;
    }
    if (strcmp(keyword, "text") == 0)
        return parse_text(parser);
    if (strcmp(keyword, "reading") == 0)
        return parse_reading(parser);
    if (strcmp(keyword, "absent") == 0)
        return parse_absent(parser);
    if (strcmp(keyword, "series") == 0)
        return parse_series(parser);
    if (strcmp(keyword, "process") == 0)
        return parse_process(parser);
    if (strcmp(keyword, "event") == 0)
        return parse_event(parser);
    if (strcmp(keyword, "mig") == 0)
        return parse_mig(parser);
    return strcmp(keyword, "error") == 0 && small(parser, &parser->gpu->error, 0, 999);
}

__attribute__((format(printf, 3, 4))) static struct scenario *
refuse(struct scenario *scenario, char *problem, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, 160, format, arguments);
    va_end(arguments);
    scenario_free(scenario);
    return NULL;
}

static size_t count_words(const char *text)
{
    size_t words = 0;
    for (; *text != '\0'; text++)
        words += *text == ' ' || *text == '\n';
    return words;
}

struct scenario *scenario_parse(char *text, char *problem, size_t problem_size)
{
    struct parser parser = {.pool_size = count_words(text) / 2 + 1};
    char local[160], *line = text;
    if (problem_size < sizeof local)
        problem = local;
    parser.scenario = calloc(1, sizeof *parser.scenario);
    if (parser.scenario == NULL)
        return refuse(NULL, problem, "out of memory");
    parser.scenario->pool = calloc(parser.pool_size, sizeof *parser.scenario->pool);
    parser.scenario->process_stride = 24;
    parser.scenario->references = 1;
    if (parser.scenario->pool == NULL)
        return refuse(parser.scenario, problem, "out of memory");
    if (strncmp(text, "gpusim-scenario 1\n", 18) != 0)
        return refuse(parser.scenario, problem, "the first line is not 'gpusim-scenario 1'");
    for (unsigned at = 1; line != NULL && *line != '\0' && !parser.ended; at++) {
        char *end = strchr(line, '\n');
        if (end == NULL)
            break;
        *end = '\0';
        parser.rest = line;
        if (at > 1 && (*line == '\0' || *line == ' ' || !parse_line(&parser)))
            return refuse(parser.scenario, problem, "line %u is not understood", at);
        line = end + 1;
    }
    if (!parser.ended)
        return refuse(parser.scenario, problem, "the last line is not 'end'");
    return parser.scenario;
}

void scenario_free(struct scenario *scenario)
{
    if (scenario != NULL)
        free(scenario->pool);
    free(scenario);
}
