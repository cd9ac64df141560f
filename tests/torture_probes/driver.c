/* SPDX-License-Identifier: MIT */
/*
 * Tortures victim.c for so many seconds: attaches to it, arms and disarms probes on every function
 * of libc, of libz and of its own, with returns and without, reads what was recorded, compares the
 * code with its files, detaches, is killed in the middle of it, and attaches again. shared.h
 * describes the books.
 *
 *	driver SECONDS VICTIM PLUGIN
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

#include "shared.h"
#include "tests/torture/drive.h"
#include "text.h"

#define ROUND_S 2.0
#define CLEAN_MS 2000	      /* for the agent to take up what a tool left */
#define CLEAN_KILLED_MS 13000 /* a tool killed on its way in: the agent waits ten seconds for it */
#define SPECS_MAX 8

#define OWN "func:point_*/ret,arg1,arg2/", "usdt:torture:point"
#define OWN_ENTRIES "func:point_*/arg1,arg2/", "usdt:torture:point"

static const struct way {
	const char *name;
	const char *specs[SPECS_MAX];
	int gated; /* armed and disarmed while all threads are parked: the books are exact */
	int jumps, follow, is_killed;
	enum wm_policy policy;
} ways[] = {
	{ "its own, parked", { OWN }, .gated = 1 },
	{ "libz and its own, racing", { "func:*@libz.so.1", OWN }, .jumps = 1 },
	{ "libc, racing", { "func:*@libc.so.6", OWN_ENTRIES }, .policy = WM_POLICY_CYCLIC },
	{ "libz, returns, parked", { "func:*@libz.so.1/ret/", OWN }, .gated = 1 },
	{ "libc, returns, racing",
	  { "func:*@libc.so.6/ret/", OWN },
	  .jumps = 1,
	  .policy = WM_POLICY_CYCLIC },
	{ "killed", { "func:*@libz.so.1/ret/", "func:*@libc.so.6", OWN }, .is_killed = 1 },
	{ "libc and libz, parked, discarding",
	  { "func:*@libz.so.1", "func:*@libc.so.6", OWN },
	  .gated = 1 },
	{ "all, following",
	  { "func:*@libz.so.1", "func:*@libc.so.6", "func:plugin_*", "func:throw_*/ret/", OWN },
	  .jumps = 1,
	  .follow = 1 },
	{ "loaded later and left",
	  { "func:plugin_*/ret/", "func:throw_*/ret/", "func:leave_far/ret/",
	    "func:backtrace_at/ret/", OWN },
	  .jumps = 1 },
};

#define WAYS (sizeof(ways) / sizeof(*ways))

struct totals {
	uint64_t rounds, cycles, sites, emitted, recorded, discarded, strays, read, killed;
};

static struct torture *shared;
static struct totals total;
static struct wm_session *polled; /* while it is attached */

static int fail(struct wm_session *session, const char *what, int err)
{
	fprintf(stderr, "torture: %s: %s: %s: %s\n", drive_way, what, wm_error_text(err),
		wm_session_detail(session));
	drive_failed = 1;
	return -1;
}

/* The session arms what is loaded meanwhile: it must be polled. */
static void wait_ms(int ms)
{
	double end = drive_now_s() + ms / 1e3;

	do {
		if (polled)
			wm_session_wait(polled, 1);
		else
			usleep(1000);
	} while (drive_now_s() < end);
}

static void pause_victim(void)
{
	const char *before = drive_phase;

	drive_enter("waiting for the victim to park");
	__atomic_store_n(&shared->pause, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->parked, __ATOMIC_SEQ_CST) != PARTIES &&
	       drive_victim_is_alive())
		wait_ms(1);
	drive_enter(before);
}

static void resume_victim(void)
{
	__atomic_store_n(&shared->pause, 0, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->parked, __ATOMIC_SEQ_CST) && drive_victim_is_alive())
		wait_ms(1);
}

/* A point's number and its check agree, and so do the halves of what it returned. */
static int is_damaged(const struct wm_event *event)
{
	uint64_t value;

	if (!strstr(event->name, ":point"))
		return 0;
	if (!event->field_count)
		return 1;
	value = event->fields[0].value.u;
	if (event->kind == 'e')
		return (uint32_t)value != (uint32_t)(value >> 32) * CHECK_FACTOR;
	return event->field_count < 2 || event->fields[1].value.u != value * CHECK_FACTOR;
}

struct books {
	uint64_t emitted;    /* by the victim, at the start */
	uint64_t strays_max; /* of that so many may be neither recorded nor discarded */
	uint64_t read, points;
};

static int on_event(const struct wm_event *event, void *data)
{
	struct books *books = data;

	books->read++;
	if (strstr(event->name, ":point"))
		books->points++;
	if (!is_damaged(event))
		return 0;
	fprintf(stderr, "torture: %s: a damaged event: %s, kind %c, %u fields, %#llx %#llx\n",
		drive_way, event->name, event->kind, event->field_count,
		event->field_count > 0 ? (unsigned long long)event->fields[0].value.u : 0,
		event->field_count > 1 ? (unsigned long long)event->fields[1].value.u : 0);
	drive_failed = 1;
	return 1;
}

static uint64_t emitted_now(const struct way *way)
{
	uint64_t entries = __atomic_load_n(&shared->entries, __ATOMIC_SEQ_CST);
	uint64_t returns = __atomic_load_n(&shared->returns, __ATOMIC_SEQ_CST);
	uint64_t sites = __atomic_load_n(&shared->sites, __ATOMIC_SEQ_CST);
	int wants_returns = 0;

	for (int i = 0; i < SPECS_MAX && way->specs[i]; i++)
		wants_returns |= !strncmp(way->specs[i], "func:point_*/ret", 16);
	return entries + sites + (wants_returns ? returns : 0);
}

/* Read until nothing more comes. */
static int read_all(struct wm_session *session, struct books *books)
{
	uint64_t before;
	int err;

	do {
		before = books->read;
		err = wm_session_read(session, on_event, books);
		if (err < 0)
			return fail(session, "read", err);
	} while (books->read != before && !err);
	return err;
}

/* While nothing is armed and all are parked, or at least nothing is armed. */
static void books_check(const struct books *books, struct wm_session *session,
			const struct way *way)
{
	struct wm_session_status status = { .size = sizeof(status) };
	uint64_t emitted = emitted_now(way) - books->emitted;
	int err = wm_session_status_get(session, &status);

	if (way->follow) /* children's events are in the session's figures, but not in `emitted` */
		return;
	if (err || books->points > emitted ||
	    (way->gated && books->points + status.discarded < emitted)) {
		fprintf(stderr,
			"torture: %s: %llu points emitted, %llu recorded, %llu events discarded of all\n",
			way->name, (unsigned long long)emitted, (unsigned long long)books->points,
			(unsigned long long)status.discarded);
		drive_failed = 1;
	}
	if (way->policy != WM_POLICY_CYCLIC && books->read != status.recorded) {
		fprintf(stderr, "torture: %s: recorded %llu, but %llu were read\n", way->name,
			(unsigned long long)status.recorded, (unsigned long long)books->read);
		drive_failed = 1;
	}
}

/* Within CLEAN_MS, with the victim parked; CLEAN_KILLED_MS where a tool was killed. */
static void text_check(const struct way *way)
{
	double end = drive_now_s() + (way->is_killed ? CLEAN_KILLED_MS : CLEAN_MS) / 1e3;

	while (text_differs(drive_victim, 0) && drive_now_s() < end)
		usleep(20000);
	if (text_differs(drive_victim, 1)) {
		fprintf(stderr, "torture: %s: code was left changed\n", drive_way);
		drive_show_threads();
		drive_failed = 1;
	}
}

/* Arm all, let it run a moment, disarm all, look at what is left. */
static int cycle(struct wm_session *session, const struct way *way, struct books *books,
		 unsigned int turn)
{
	struct wm_session_status status = { .size = sizeof(status) };
	int err;

	drive_enter("arming");
	err = wm_session_start(session);
	if (err)
		return fail(session, "start", err);
	wm_session_status_get(session, &status);
	total.sites = status.sites > total.sites ? status.sites : total.sites;
	total.cycles++;
	if (way->gated)
		resume_victim();
	wait_ms(turn % 4 == 3 ? 100 : 5);
	drive_enter("reading");
	/* a flight recorder is read when it has stopped */
	err = way->policy == WM_POLICY_CYCLIC ? 0 : wm_session_read(session, on_event, books);
	if (err)
		return fail(session, "read", err);
	if (way->gated)
		pause_victim();
	drive_enter("disarming");
	err = wm_session_stop(session);
	if (err)
		return fail(session, "stop", err);
	if (read_all(session, books))
		return -1;
	books_check(books, session, way);
	return 0;
}

static int specs_add(struct wm_session *session, const struct way *way)
{
	int err = 0;

	for (int i = 0; i < SPECS_MAX && way->specs[i] && !err; i++)
		err = wm_session_add(session, way->specs[i]);
	return err;
}

static void books_close(struct books *books, struct wm_session *session, const struct way *way)
{
	struct wm_session_status status = { .size = sizeof(status) };

	wm_session_status_get(session, &status);
	total.rounds++;
	total.read += books->read;
	total.recorded += status.recorded;
	total.discarded += status.discarded;
	if (way->gated)
		total.emitted += emitted_now(way) - books->emitted;
}

static int round_run(struct wm_session *session, const struct way *way)
{
	double start = drive_now_s();
	struct books books = { 0 };
	int err;

	drive_enter("attaching");
	err = specs_add(session, way);
	if (!err)
		err = wm_session_attach(session, drive_victim);
	if (err)
		return fail(session, "attach", err);
	__atomic_store_n(&shared->jumps_allowed, (uint32_t)way->jumps, __ATOMIC_SEQ_CST);
	if (way->gated)
		pause_victim();
	books.emitted = emitted_now(way);
	for (unsigned int turn = 0;
	     drive_now_s() - start < ROUND_S && !drive_failed && drive_victim_is_alive(); turn++)
		if (cycle(session, way, &books, turn))
			break;
	books_close(&books, session, way);
	if (way->gated)
		resume_victim();
	return drive_failed;
}

static struct wm_session *session_open(const struct way *way)
{
	struct wm_session_options options = { .size = sizeof(options),
					      .buffer_bytes = 16 << 20,
					      .policy = way->policy,
					      .follow = way->follow ? WM_FOLLOW_CHILDREN
								    : WM_FOLLOW_NONE };
	struct wm_session *session = NULL;
	int err = wm_session_open(&session, &options);

	if (err) {
		fprintf(stderr, "torture: open: %s\n", wm_error_text(err));
		drive_failed = 1;
	}
	return err ? NULL : session;
}

static void arm_and_wait(const struct way *way, int entered)
{
	struct wm_session *session = session_open(way);

	if (!session || specs_add(session, way) || wm_session_attach(session, drive_victim) ||
	    write(entered, "", 1) != 1 || wm_session_start(session))
		_exit(1);
	for (;;)
		wm_session_wait(session, 10);
}

/*
 * A tool that dies while it arms, or with all armed. Not while it loads the agent: what that leaves
 * behind the end of a text is no code of the program's (target/process/inject_test.c has tools die
 * there).
 */
static void tool_killed(const struct way *way)
{
	int ends[2], status;
	char byte;
	pid_t tool;

	if (pipe(ends))
		return;
	tool = fork();
	if (!tool) {
		close(ends[0]);
		arm_and_wait(way, ends[1]);
	}
	close(ends[1]);
	drive_enter("letting a tool run into its death");
	if (read(ends[0], &byte, 1) == 1)
		usleep((unsigned int)(total.killed % 7) * 100000);
	close(ends[0]);
	kill(tool, SIGKILL);
	if (waitpid(tool, &status, 0) == tool && WIFEXITED(status)) {
		fprintf(stderr, "torture: the tool that is to be killed failed first\n");
		drive_failed = 1;
	}
	total.killed++;
	usleep(100000);
}

/* One session from attaching to detaching; then the code is whole. */
static void session_run(const struct way *way)
{
	struct wm_session *session;

	drive_way = way->name;
	if (way->is_killed) {
		tool_killed(way);
	} else {
		session = session_open(way);
		if (!session)
			return;
		polled = session;
		round_run(session, way);
		polled = NULL;
		drive_enter("detaching");
		wm_session_close(session);
	}
	if (!drive_victim_is_alive())
		return;
	pause_victim();
	drive_enter("comparing the code");
	text_check(way);
	resume_victim();
}

/* It must end by itself, and well. */
static void victim_end(void)
{
	__atomic_store_n(&shared->pause, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&shared->stop, 1, __ATOMIC_SEQ_CST);
	drive_end();
}

static void show(void)
{
	printf("%llu sessions, %llu tools killed, %llu arms and disarms of all, of %llu places at most;"
	       " recorded %llu, discarded %llu, read %llu; points in parked rounds %llu\n",
	       (unsigned long long)total.rounds, (unsigned long long)total.killed,
	       (unsigned long long)total.cycles, (unsigned long long)total.sites,
	       (unsigned long long)total.recorded, (unsigned long long)total.discarded,
	       (unsigned long long)total.read, (unsigned long long)total.emitted);
	printf("meanwhile: %llu signals, %llu jumps, %llu forks, %llu spawns, %llu loads, %llu threads\n",
	       (unsigned long long)shared->signals, (unsigned long long)shared->jumps,
	       (unsigned long long)shared->forks, (unsigned long long)shared->spawns,
	       (unsigned long long)shared->loads, (unsigned long long)shared->threads);
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
	show();
	return drive_failed;
}
