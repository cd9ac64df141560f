/* SPDX-License-Identifier: MIT */
/*
 * Tortures victim.c for so many seconds: attaches to it, arms and disarms its thousand markers at
 * once as fast as that goes, in both ways of patching, reads what was recorded, detaches, and
 * attaches again. Holds the books to the event; shared.h says how.
 *
 *	driver SECONDS VICTIM PLUGIN
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>
#include <waymark/session.h>

#include "drive.h"
#include "shared.h"

#define ROUND_S 1.5

struct way {
	const char *name;
	int strict, gated, jumps, follow;
	enum wm_policy policy;
};

static const struct way ways[] = {
	{ "normal, parked", .gated = 1 },
	{ "strict, parked", .strict = 1, .gated = 1 },
	{ "normal, racing", .jumps = 1 },
	{ "strict, racing", .strict = 1, .jumps = 1 },
	{ "normal, parked, jumps, cyclic", .gated = 1, .jumps = 1, .policy = WM_POLICY_CYCLIC },
	{ "normal, racing, block", .policy = WM_POLICY_BLOCK },
	{ "normal, racing, following", .jumps = 1, .follow = 1 },
};

#define WAYS (sizeof(ways) / sizeof(*ways))

struct totals {
	uint64_t rounds, cycles, toggles, emitted, recorded, discarded, strays, doubtful, read,
		voids;
	double seconds;
};

static struct torture *shared;
static struct totals totals[2]; /* [strict] */

static void sleep_ms(unsigned int ms)
{
	usleep(ms * 1000);
}

static int fail(struct wm_session *session, const char *what, int err)
{
	fprintf(stderr, "torture: %s: %s: %s\n", what, wm_error_text(err),
		wm_session_detail(session));
	drive_failed = 1;
	return -1;
}

static void pause_victim(void)
{
	drive_enter("waiting for the victim to park");
	__atomic_store_n(&shared->pause, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->parked, __ATOMIC_SEQ_CST) != PARTIES &&
	       drive_victim_is_alive())
		usleep(100);
}

static void resume_victim(void)
{
	__atomic_store_n(&shared->pause, 0, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->parked, __ATOMIC_SEQ_CST) && drive_victim_is_alive())
		usleep(100);
}

/* What an event says of itself must agree: number_is, count, check. */
static int on_event(const struct wm_event *event, void *data)
{
	uint64_t *read = data;

	(*read)++;
	if (strncmp(event->name, "torture:", 8) || event->kind != 'm' || event->field_count != 3 ||
	    event->fields[2].value.u != (uint64_t)event->fields[0].value.i * CHECK_FACTOR) {
		fprintf(stderr, "torture: a damaged event: %s, %u fields\n", event->name,
			event->field_count);
		drive_failed = 1;
		return 1;
	}
	if (!strncmp(event->name, "torture:site_", 13) &&
	    atoi(event->name + 13) != event->fields[0].value.i) {
		fprintf(stderr, "torture: %s says that it is %lld\n", event->name,
			(long long)event->fields[0].value.i);
		drive_failed = 1;
	}
	return 0;
}

struct books {
	uint64_t emitted, doubtful; /* at the start */
	uint64_t strays_max, read;
	int is_void; /* a thread seems to be in a hit for ever: its last page can't be read */
};

static void books_open(struct books *books)
{
	*books = (struct books){ .emitted = __atomic_load_n(&shared->emitted, __ATOMIC_SEQ_CST),
				 .doubtful = __atomic_load_n(&shared->doubtful, __ATOMIC_SEQ_CST) };
}

/* While nothing is armed: emitted = recorded + discarded, strays and doubtful hits aside. */
static void books_check(const struct books *books, struct wm_session *session,
			const struct way *way)
{
	struct wm_session_status status = { .size = sizeof(status) };
	uint64_t emitted = __atomic_load_n(&shared->emitted, __ATOMIC_SEQ_CST) - books->emitted;
	uint64_t doubtful = __atomic_load_n(&shared->doubtful, __ATOMIC_SEQ_CST) - books->doubtful;
	uint64_t least = emitted - doubtful - books->strays_max, taken;
	int err = wm_session_status_get(session, &status);

	if (emitted < doubtful + books->strays_max)
		least = 0;
	taken = status.recorded + status.discarded;
	if (err || taken > emitted || taken < least) {
		fprintf(stderr,
			"torture: %s: emitted %llu, recorded %llu, discarded %llu: %lld amiss"
			" (doubtful %llu, strays at most %llu)\n",
			way->name, (unsigned long long)emitted, (unsigned long long)status.recorded,
			(unsigned long long)status.discarded, (long long)(emitted - taken),
			(unsigned long long)doubtful, (unsigned long long)books->strays_max);
		drive_failed = 1;
	}
	if (books->read != status.recorded) {
		fprintf(stderr, "torture: %s: recorded %llu, but %llu were read\n", way->name,
			(unsigned long long)status.recorded, (unsigned long long)books->read);
		drive_failed = 1;
	}
}

static void books_close(const struct books *books, struct wm_session *session,
			const struct way *way, double seconds)
{
	struct wm_session_status status = { .size = sizeof(status) };
	struct totals *total = &totals[way->strict];
	uint64_t emitted = __atomic_load_n(&shared->emitted, __ATOMIC_SEQ_CST) - books->emitted;

	wm_session_status_get(session, &status);
	total->seconds += seconds;
	total->rounds++;
	total->read += books->read;
	if (books->is_void) {
		total->voids++;
		return;
	}
	/* the children's events are in the session's figures, but not in `emitted` */
	if (way->follow)
		return;
	total->emitted += emitted;
	total->recorded += status.recorded;
	total->discarded += status.discarded;
	if (emitted >= status.recorded + status.discarded)
		total->strays += emitted - status.recorded - status.discarded;
	total->doubtful += __atomic_load_n(&shared->doubtful, __ATOMIC_SEQ_CST) - books->doubtful;
}

/* Read until nothing more comes. */
static int read_all(struct wm_session *session, struct books *books)
{
	uint64_t before;
	int err;

	do {
		before = books->read;
		err = wm_session_read(session, on_event, &books->read);
		if (err < 0)
			return fail(session, "read", err);
	} while (books->read != before && !err);
	return err;
}

/* Arm all, let it run a moment, disarm all. */
static int cycle(struct wm_session *session, const struct way *way, struct books *books,
		 unsigned int turn)
{
	struct wm_session_status status = { .size = sizeof(status) };
	uint64_t sites;
	int err;

	drive_enter("arming");
	wm_session_status_get(session, &status);
	sites = status.sites;
	err = wm_session_start(session);
	if (err)
		return fail(session, "start", err);
	wm_session_status_get(session, &status);
	totals[way->strict].toggles += 2 * (status.sites - sites);
	totals[way->strict].cycles++;
	sleep_ms(turn % 8 == 7 ? 20 : 1);
	drive_enter("reading");
	err = wm_session_read(session, on_event, &books->read);
	if (err)
		return fail(session, "read", err);
	if (way->gated)
		pause_victim();
	drive_enter("disarming");
	err = wm_session_stop(session);
	if (!way->gated)
		books->strays_max += HITS_AT_ONCE;
	if (!err && read_all(session, books))
		return -1;
	if (!err && !way->follow)
		books_check(books, session, way);
	if (way->gated)
		resume_victim();
	if (err == -ETIMEDOUT && way->jumps && !way->gated) {
		/*
		 * disarmed before the jumper's next hit: for all that the agent knows, it is in the
		 * last
		 */
		books->is_void = 1;
		return 1;
	}
	return err ? fail(session, "stop", err) : 0;
}

static int round_run(struct wm_session *session, const struct way *way)
{
	double start = drive_now_s();
	struct books books;
	int err;

	drive_enter("attaching");
	err = wm_session_add(session, "marker:torture:*");
	if (!err)
		err = wm_session_attach(session, drive_victim);
	if (err)
		return fail(session, "attach", err);
	__atomic_store_n(&shared->jumps_allowed, (uint32_t)way->jumps, __ATOMIC_SEQ_CST);
	books_open(&books);
	for (unsigned int turn = 0;
	     drive_now_s() - start < ROUND_S && !drive_failed && drive_victim_is_alive(); turn++)
		if (cycle(session, way, &books, turn))
			break;
	books_close(&books, session, way, drive_now_s() - start);
	return drive_failed;
}

/* One session from attaching to detaching. */
static void session_run(const struct way *way)
{
	struct wm_session_options options = { .size = sizeof(options),
					      .buffer_bytes = 1 << 20,
					      .policy = way->policy,
					      .block_ns = 1000000,
					      .strict = way->strict,
					      .follow = way->follow ? WM_FOLLOW_CHILDREN
								    : WM_FOLLOW_NONE };
	struct wm_session *session;
	int err = wm_session_open(&session, &options);

	if (err) {
		fprintf(stderr, "torture: open: %s\n", wm_error_text(err));
		drive_failed = 1;
		return;
	}
	drive_way = way->name;
	round_run(session, way);
	drive_enter("detaching");
	wm_session_close(session);
	drive_victim_is_alive();
}

/* It must end by itself, and well. */
static void victim_end(void)
{
	__atomic_store_n(&shared->stop, 1, __ATOMIC_SEQ_CST);
	drive_end();
}

static void show(const char *name, const struct totals *total)
{
	printf("%s: %llu sessions, %llu arms and disarms of all, %.0f toggles a second;"
	       " emitted %llu = recorded %llu + discarded %llu + %llu strays (%llu doubtful); %llu read;"
	       " %llu sessions void\n",
	       name, (unsigned long long)total->rounds, (unsigned long long)total->cycles,
	       (double)total->toggles / total->seconds, (unsigned long long)total->emitted,
	       (unsigned long long)total->recorded, (unsigned long long)total->discarded,
	       (unsigned long long)total->strays, (unsigned long long)total->doubtful,
	       (unsigned long long)total->read, (unsigned long long)total->voids);
}

int main(int argc, char **argv)
{
	double end = drive_now_s() + (argc == 4 ? atof(argv[1]) : 0);
	const char *only = getenv("WAYMARK_TORTURE_WAY"); /* one of ways[] */

	if (argc != 4)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	shared = drive_start(argv + 2, sizeof(*shared), offsetof(struct torture, ready));
	if (!shared)
		return 2;
	for (unsigned int turn = 0; !drive_failed && drive_victim && drive_now_s() < end; turn++)
		session_run(&ways[only ? strtoul(only, NULL, 10) % WAYS : turn % WAYS]);
	victim_end();
	for (int strict = 0; strict < 2; strict++)
		if (totals[strict].rounds)
			show(strict ? "strict" : "normal", &totals[strict]);
	printf("meanwhile: %llu signals, %llu jumps, %llu forks, %llu loads, %llu threads\n",
	       (unsigned long long)shared->signals, (unsigned long long)shared->jumps,
	       (unsigned long long)shared->forks, (unsigned long long)shared->loads,
	       (unsigned long long)shared->threads);
	return drive_failed;
}
