/* SPDX-License-Identifier: MIT */
#include "target/process/ticks.h"

#include "abi/page.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define NS_PER_S 1000000000u
#define MEASURE_NS                                                                                 \
	2000000u /* every start waits so long; what runs for BETWEEN_NS_MIN knows better */
#define BETWEEN_NS_MIN 20000000u
/*
 * The recorder wakes with the other processes, and takes a point within this time. So an event that
 * is longer before that point was before the machine slept.
 */
#define AWAKE_NS 100000000u

uint64_t ticks_clock_ns(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t ticks_monotonic_ns(void)
{
	return ticks_clock_ns(CLOCK_MONOTONIC);
}

void ticks_now(uint32_t clock, struct ticks_point *point)
{
	uint64_t best = UINT64_MAX;

	/* the narrowest of a few brackets: an interrupt in between would part the clocks */
	for (int i = 0; i < 5; i++) {
		uint64_t before = __rdtsc();
		struct ticks_point at = {
			.monotonic_ns = ticks_clock_ns(CLOCK_MONOTONIC),
			.monotonic_raw_ns = ticks_clock_ns(CLOCK_MONOTONIC_RAW),
			.realtime_ns = ticks_clock_ns(CLOCK_REALTIME),
		};
		uint64_t width = __rdtsc() - before;

		if (width >= best)
			continue;
		best = width;
		at.ticks = clock == STORE_CLOCK_TSC ? before + width / 2 : at.monotonic_ns;
		*point = at;
	}
}

/* The kernel's own figure, from the user page of a perf event that counts nothing; 0: unknown. */
static uint64_t hz_of_perf(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	long page_bytes = sysconf(_SC_PAGESIZE);
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	const struct perf_event_mmap_page *page;
	uint64_t hz = 0;

	if (fd < 0)
		return 0;
	page = mmap(NULL, (size_t)page_bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (page != MAP_FAILED) {
		/* perf_event.h: ns = ticks * time_mult >> time_shift */
		if (page->cap_user_time && page->time_mult && page->time_shift < 64)
			hz = (uint64_t)(((unsigned __int128)NS_PER_S << page->time_shift) /
					page->time_mult);
		munmap((void *)page, (size_t)page_bytes);
	}
	close(fd);
	return hz;
}

static uint64_t hz_measured(void)
{
	struct ticks_point from, to;
	unsigned __int128 ticks;
	uint64_t ns;

	ticks_now(STORE_CLOCK_TSC, &from);
	nanosleep(&(struct timespec){ .tv_nsec = MEASURE_NS }, NULL);
	ticks_now(STORE_CLOCK_TSC, &to);
	ticks = to.ticks - from.ticks;
	ns = to.monotonic_ns - from.monotonic_ns;
	return ns ? (uint64_t)(ticks * NS_PER_S / ns) : 0;
}

uint64_t ticks_hz(uint32_t clock)
{
	/* a machine has one: forked processes of this one need not look again */
	static uint64_t known;
	uint64_t hz;

	if (clock != STORE_CLOCK_TSC)
		return NS_PER_S;
	hz = __atomic_load_n(&known, __ATOMIC_RELAXED);
	if (hz)
		return hz;
	hz = hz_of_perf();
	if (!hz)
		hz = hz_measured();
	if (!hz)
		hz = NS_PER_S;
	__atomic_store_n(&known, hz, __ATOMIC_RELAXED);
	return hz;
}

uint64_t ticks_hz_between(const struct ticks_point *from, const struct ticks_point *to)
{
	uint64_t ns = to->monotonic_ns - from->monotonic_ns;

	if (to->monotonic_ns < from->monotonic_ns || ns < BETWEEN_NS_MIN ||
	    to->ticks <= from->ticks)
		return 0;
	return (uint64_t)((unsigned __int128)(to->ticks - from->ticks) * NS_PER_S / ns);
}

/* ---- a track ---- */

static double rate_between(const struct ticks_point *from, const struct ticks_point *to)
{
	return (double)(int64_t)(to->ticks - from->ticks) /
	       (double)(to->monotonic_ns - from->monotonic_ns);
}

static double rate_usual(void)
{
	return (double)ticks_hz(STORE_CLOCK_TSC) / NS_PER_S;
}

/*
 * Whether the TSC went on without CLOCK_MONOTONIC, or began again, between the last two points: the
 * machine was suspended. adjtimex(2) changes a rate by 1 in 2,000 at most.
 */
static int has_jumped(const struct ticks_track *track)
{
	double part = rate_between(&track->before, &track->last) / rate_usual();

	return !(part > 0.995 && part < 1.005);
}

/*
 * A stretch is long enough for its rate to be good: a point is some 50 ns off. Until then the last
 * point is replaced.
 */
void ticks_track_add(struct ticks_track *track, const struct ticks_point *point)
{
	if (!track->last.ticks) {
		track->before = *point;
	} else if (track->last.monotonic_ns - track->before.monotonic_ns >= BETWEEN_NS_MIN) {
		if (!has_jumped(track))
			track->rate = rate_between(&track->before, &track->last);
		track->before = track->last;
	}
	track->last = *point;
}

uint64_t ticks_track_ticks(const struct ticks_track *track, uint64_t monotonic_ns)
{
	const struct ticks_point *before = &track->before, *last = &track->last, *from = before;
	double rate = track->rate != 0 ? track->rate : rate_usual();
	int is_within = monotonic_ns >= before->monotonic_ns && monotonic_ns <= last->monotonic_ns;

	if (last->monotonic_ns > before->monotonic_ns) {
		if (!has_jumped(track))
			rate = is_within || track->rate == 0 ? rate_between(before, last) : rate;
		else if (monotonic_ns + AWAKE_NS > last->monotonic_ns)
			from = last;
	}
	return from->ticks +
	       (uint64_t)(int64_t)((double)(int64_t)(monotonic_ns - from->monotonic_ns) * rate);
}

uint64_t ticks_track_at(struct ticks_track *track, uint64_t monotonic_ns)
{
	struct ticks_point now;

	if (monotonic_ns > track->last.monotonic_ns || !track->last.ticks) {
		ticks_now(STORE_CLOCK_TSC, &now);
		ticks_track_add(track, &now);
	}
	return ticks_track_ticks(track, monotonic_ns);
}
