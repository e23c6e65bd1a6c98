/* The arithmetic of marks. */
#include "mark.h"

#include <math.h>

/* Time constant of temperatures: seconds to minutes on real cards; short, so that tests see it. */
static const double heat_constant_ns = 5e9;
static const int64_t window_ns = 1000000000;

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void keep_heat(struct mark *mark, int64_t now_ns)
{
    mark->heat_ppm = (int64_t)(mark_heat(mark, now_ns) * 10000);
    mark->heat_time_ns = now_ns;
}

void mark_begin(struct mark *mark, int64_t now_ns)
{
    if (mark->busy_since_ns != 0)
        return;
    keep_heat(mark, now_ns);
    mark->busy_since_ns = now_ns;
}

void mark_end(struct mark *mark, int64_t now_ns)
{
    int64_t since = mark->busy_since_ns;
    if (since == 0)
        return;
    keep_heat(mark, now_ns);
    mark->busy_since_ns = 0;
    mark->busy_total_ns += now_ns - since;
    int64_t from = later(since, now_ns - (int64_t)(MARK_SLICES - 1) * MARK_SLICE_NS);
    while (from < now_ns) {
        int64_t number = from / MARK_SLICE_NS;
        int64_t to = earlier(now_ns, (number + 1) * MARK_SLICE_NS);
        if (mark->slices[number % MARK_SLICES].number != number) {
            mark->slices[number % MARK_SLICES].number = number;
            mark->slices[number % MARK_SLICES].busy_ns = 0;
        }
        mark->slices[number % MARK_SLICES].busy_ns += to - from;
        from = to;
    }
}

double mark_percent(const struct mark *mark, int64_t now_ns)
{
    int64_t start = now_ns - window_ns;
    double busy = 0;
    if (mark->busy_since_ns != 0)
        busy = (double)(now_ns - later(mark->busy_since_ns, start));
    for (unsigned i = 0; i < MARK_SLICES; i++) {
        int64_t from = mark->slices[i].number * MARK_SLICE_NS, to = from + MARK_SLICE_NS;
        if (to <= start || from > now_ns)
            continue;
        /* Of the slice that the window cuts, a proportional part. */
        double inside = (double)(to - later(from, start)) / MARK_SLICE_NS;
        busy += inside * (double)mark->slices[i].busy_ns;
    }
    double share = busy / (double)window_ns;
    return (double)mark->percent * (share > 1 ? 1 : share);
}

double mark_heat(const struct mark *mark, int64_t now_ns)
{
    double target = mark->busy_since_ns != 0 ? (double)mark->percent : 0;
    double before = (double)mark->heat_ppm / 10000;
    double elapsed = (double)(now_ns - mark->heat_time_ns);
    return elapsed <= 0 ? before : target + (before - target) * exp(-elapsed / heat_constant_ns);
}
