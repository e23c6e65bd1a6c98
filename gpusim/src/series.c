#include "series.h"

static int64_t period(const struct series *series)
{
    return series->points[series->count - 1].time_ms;
}

static double between(const struct point *a, const struct point *b, int64_t time_ms)
{
    double part = (double)(time_ms - a->time_ms) / (double)(b->time_ms - a->time_ms);
    return (double)a->value + part * (double)(b->value - a->value);
}

static double value(const struct series *series, int64_t time_ms)
{
    size_t next = 0;
    while (next < series->count && series->points[next].time_ms <= time_ms)
        next++;
    if (next == 0)
        return (double)series->points[0].value;
    if (next == series->count || !series->linear)
        return (double)series->points[next - 1].value;
    return between(&series->points[next - 1], &series->points[next], time_ms);
}

int64_t series_at(const struct series *series, int64_t now_ms)
{
    int64_t time_ms = now_ms - series->since_ms;
    if (series->count == 0)
        return series->value;
    if (time_ms < 0)
        time_ms = 0;
    if (series->loop && period(series) > 0)
        time_ms %= period(series);
    double exact = value(series, time_ms);
    return (int64_t)(exact < 0 ? exact - 0.5 : exact + 0.5);
}

/* From 0 to `until_ms`, not looping. */
static double once(const struct series *series, int64_t until_ms)
{
    double sum = 0;
    int64_t at = 0;
    for (size_t i = 0; i <= series->count && at < until_ms; i++) {
        int64_t to = i < series->count ? series->points[i].time_ms : until_ms;
        if (to > until_ms)
            to = until_ms;
        if (to <= at)
            continue;
        double first = value(series, at);
        int is_linear = series->linear && i > 0 && i < series->count;
        double last = is_linear ? between(&series->points[i - 1], &series->points[i], to) : first;
        sum += (first + last) / 2 * (double)(to - at);
        at = to;
    }
    return sum;
}

static double from_start(const struct series *series, int64_t until_ms)
{
    if (until_ms <= 0)
        return 0;
    if (!series->loop || period(series) == 0)
        return once(series, until_ms);
    double whole = (double)(until_ms / period(series));
    return whole * once(series, period(series)) + once(series, until_ms % period(series));
}

double series_integral(const struct series *series, int64_t from_ms, int64_t to_ms)
{
    if (to_ms <= from_ms)
        return 0;
    if (series->count == 0)
        return (double)series->value * (double)(to_ms - from_ms);
    double sum = from_start(series, to_ms - series->since_ms);
    return sum - from_start(series, from_ms - series->since_ms);
}
