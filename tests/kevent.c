/* SPDX-License-Identifier: MIT */
/*
 * Event objects by the installed header and library alone, on a program of several threads: a child
 * of this one. Prints what is wrong, and nothing else. Status 77: debug registers can't be had,
 * with why. With the path of the file that it has for /sys/devices/system/cpu/online: of CPUs that
 * come later.
 */
#define _GNU_SOURCE
#include "kevent_request.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

#define THREADS 6
#define LATER 3
#define STORES 10
#define WAIT_US 200
#define TRAP_PERF_CODE 6

/* Seen by the child and by us. */
static struct shared {
	unsigned int step, ready, hits, strange;
	uint64_t data;
} * shared;

/* ---- the program ---- */

static unsigned int meet(unsigned int step)
{
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->step, __ATOMIC_SEQ_CST) < step)
		usleep(WAIT_US);
	return step;
}

static void *writer(void *data)
{
	for (unsigned int step = (unsigned int)(uintptr_t)data;; step++) {
		meet(step);
		for (unsigned int i = 0; i < STORES; i++) {
			words[0] = step;
			words[2] = step;
		}
	}
	return NULL;
}

static void start(unsigned int count, unsigned int step)
{
	pthread_t thread;

	for (unsigned int i = 0; i < count; i++)
		if (pthread_create(&thread, NULL, writer, (void *)(uintptr_t)step)) /* NOLINT */
			_exit(3);
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_code != TRAP_PERF_CODE)
		__atomic_add_fetch(&shared->strange, 1, __ATOMIC_SEQ_CST);
	/* si_perf_data, by whichever name this C library has it: behind si_addr */
	memcpy(&shared->data, (char *)&info->si_addr + sizeof(void *), sizeof(shared->data));
	__atomic_add_fetch(&shared->hits, 1, __ATOMIC_SEQ_CST);
}

/* Its first thread writes nothing, and starts LATER threads more behind the first step. */
static pid_t program(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGTRAP, &action, NULL);
	start(THREADS, 1);
	meet(1);
	start(LATER, 2);
	for (;;)
		pause();
}

static void wait_ready(unsigned int count)
{
	while (__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST) < count)
		usleep(WAIT_US);
}

static void go(unsigned int step, unsigned int ready)
{
	__atomic_store_n(&shared->ready, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&shared->step, step, __ATOMIC_SEQ_CST);
	wait_ready(ready);
}

static pid_t begin(void)
{
	memset(shared, 0, sizeof(*shared));
	pid_t pid = program();

	wait_ready(THREADS + 1);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- requests ---- */

static int modify(struct wm_kevent *object, pid_t pid, const struct wm_kevent_source *sources,
		  unsigned int count, uint32_t flags, struct wm_kevent_gap *gap)
{
	struct wm_kevent_request to = request(pid, sources, count, flags);

	return wm_kevent_modify(object, &to, gap);
}

static struct wm_kevent *arm(pid_t pid, const struct wm_kevent_source *sources, unsigned int count,
			     uint32_t flags)
{
	struct wm_kevent_request asked = request(pid, sources, count, flags);
	struct wm_kevent *object;
	int err = wm_kevent_open(&object, &asked);

	answers("open", err, 0, wm_kevent_detail(NULL));
	if (err)
		exit(1);
	err = wm_kevent_arm(object);
	if (err == -WM_E_PERF_DENIED || err == -ENOSYS || err == -WM_E_EVENT_TAKEN) {
		printf("%s: %s\n", wm_error_text(err), wm_kevent_detail(object));
		wm_kevent_close(object);
		exit(77);
	}
	answers("arm", err, 0, wm_kevent_detail(object));
	if (err)
		exit(1);
	return object;
}

static uint64_t count(struct wm_kevent *object, unsigned int index)
{
	uint64_t hits = 0;

	answers("count", wm_kevent_count(object, index, &hits), 0, wm_kevent_detail(object));
	return hits;
}

static struct wm_kevent_status status(struct wm_kevent *object)
{
	struct wm_kevent_status now = { .size = sizeof(now) };

	answers("status", wm_kevent_status_get(object, &now), 0, wm_kevent_detail(object));
	return now;
}

static struct wm_kevent_coverage coverage(struct wm_kevent *object)
{
	struct wm_kevent_coverage now = { .size = sizeof(now) };

	answers("coverage", wm_kevent_coverage(object, &now, NULL, 0), 0, wm_kevent_detail(object));
	return now;
}

/* ---- what is tried ---- */

struct drained {
	struct wm_kevent *object;
	uint64_t hits, of[2], last_ns, bad;
	pid_t pid;
	int result;
};

static int on_hit(const struct wm_kevent_hit *hit, void *data)
{
	struct drained *drained = data;
	struct wm_kevent_status now = { .size = sizeof(now) };

	drained->hits++;
	drained->of[hit->source & 1]++;
	drained->bad += hit->size != sizeof(*hit) || hit->pid != drained->pid ||
			hit->tid == drained->pid || hit->time_ns < drained->last_ns ||
			!(hit->flags & WM_KEVENT_HIT_HAS_REGISTERS) || !hit->ip ||
			hit->address != (uint64_t)(uintptr_t)&words[hit->source ? 2 : 0];
	drained->last_ns = hit->time_ns;
	if (drained->hits == 1)
		answers("a call in the callback", wm_kevent_status_get(drained->object, &now),
			-EDEADLK, "");
	return drained->result;
}

/* Rings: each hit once, in order, of threads that were there and of such that came. */
static void rings(void)
{
	struct wm_kevent_source two[] = { source(WM_KEVENT_KIND_WRITE, 0, 8),
					  source(WM_KEVENT_KIND_READ_WRITE, 2, 4) };
	pid_t pid = begin();
	struct wm_kevent *object = arm(pid, two, 2, WM_KEVENT_FLAG_RINGS);
	struct drained drained = { .object = object, .pid = pid };
	struct wm_kevent_coverage covered = coverage(object);
	uint64_t armed_ns = status(object).armed_ns;
	int ended = 0;

	equal("threads", covered.wanted, THREADS + 1);
	equal("threads armed", covered.opened, THREADS + 1);
	equal("threads missing", covered.missing, 0);
	go(1, THREADS + LATER);
	equal("hits by count", count(object, 0), THREADS * STORES);
	equal("threads that came", coverage(object).inherited, LATER);
	go(2, THREADS + LATER);
	drained.result = 7;
	/* the newest are kept for a moment */
	for (int i = 0; i < 200 && !ended; i++) {
		usleep(20000);
		ended = wm_kevent_read(object, on_hit, &drained);
	}
	equal("a callback that ends it", (uint64_t)ended, 7);
	drained.result = 0;
	wm_kevent_disarm(object);
	answers("drain", wm_kevent_read(object, on_hit, &drained), 0, wm_kevent_detail(object));
	equal("hits of one", drained.of[0], (2 * THREADS + LATER) * STORES);
	equal("hits of the other", drained.of[1], (2 * THREADS + LATER) * STORES);
	equal("hits that are not as they should be", drained.bad, 0);
	equal("the count afterwards", count(object, 1), drained.of[1]);
	equal("lost", status(object).lost, 0);
	equal("state", status(object).state, WM_KEVENT_STATE_DISARMED);
	if (armed_ns > drained.last_ns || status(object).disarmed_ns < drained.last_ns)
		wrong("hits are outside of armed");
	answers("disarmed, modified", modify(object, pid, two, 2, WM_KEVENT_FLAG_RINGS, NULL),
		-EINVAL, wm_kevent_detail(object));
	answers("disarmed, armed", wm_kevent_arm(object), -EINVAL, "");
	answers("disarmed, followed", wm_kevent_rescan(object), -EINVAL, wm_kevent_detail(object));
	wm_kevent_close(object);
	end(pid);
}

/* A turn of an event loop over the descriptor. */
static void turn(struct pollfd *ready, struct drained *drained)
{
	equal("readable", (uint64_t)poll(ready, 1, 20000), 1);
	answers("read", wm_kevent_read(drained->object, on_hit, drained), 0,
		wm_kevent_detail(drained->object));
}

/* The loop reads all hits and sees the end of the process. */
static void polled(void)
{
	struct wm_kevent_source one = source(WM_KEVENT_KIND_WRITE, 0, 8);
	const uint64_t all = (uint64_t)(2 * THREADS + LATER) * STORES;
	pid_t pid = begin();
	struct drained drained = { .pid = pid };
	struct wm_kevent *object = drained.object = arm(pid, &one, 1, WM_KEVENT_FLAG_RINGS);
	struct pollfd ready = { .fd = wm_kevent_fd(object), .events = POLLIN };

	go(1, THREADS + LATER);
	go(2, THREADS + LATER);
	while (!failures && drained.hits < all)
		turn(&ready, &drained);
	equal("hits", drained.hits, all);
	equal("has ended", (uint64_t)status(object).has_target_ended, 0);
	end(pid);
	while (!failures && !status(object).has_target_ended)
		turn(&ready, &drained);
	wm_kevent_disarm(object);
	turn(&ready, &drained);
	equal("hits after the end", drained.hits, all);
	wm_kevent_close(object);
}

/* With a cancellation pending, any cancellation point in a call would end the thread. */
static void *cancelled(void *data)
{
	struct wm_kevent_source one = source(WM_KEVENT_KIND_WRITE, 0, 8);
	struct drained drained = { .pid = *(pid_t *)data };

	pthread_cancel(pthread_self());
	drained.object = arm(drained.pid, &one, 1, WM_KEVENT_FLAG_RINGS);
	if (wm_kevent_fd(drained.object) < 0 || count(drained.object, 0) ||
	    modify(drained.object, drained.pid, &one, 1, WM_KEVENT_FLAG_RINGS, NULL) ||
	    wm_kevent_read(drained.object, on_hit, &drained))
		return NULL;
	wm_kevent_close(drained.object);
	*(pid_t *)data = 0;
	return NULL;
}

static void not_cancelled(void)
{
	pid_t pid = begin(), data = pid;
	pthread_t thread;

	equal("thread", (uint64_t)pthread_create(&thread, NULL, cancelled, &data), 0);
	pthread_join(thread, NULL);
	equal("calls that were cancelled", (uint64_t)data, 0);
	end(pid);
}

/* The machine has one CPU as it is armed, and then two, as the file says. */
static void later(const char *online)
{
	struct wm_kevent_source one = source(WM_KEVENT_KIND_WRITE, 0, 8);
	pid_t pid = begin();
	struct wm_kevent *object = arm(pid, &one, 1, WM_KEVENT_FLAG_RINGS);
	struct drained drained = { .object = object, .pid = pid };
	struct wm_kevent_coverage covered = { .size = sizeof(covered) };
	struct wm_kevent_uncovered times[2];
	struct wm_kevent_missing missing;
	FILE *file;

	answers("no process to follow", wm_kevent_rescan(object), 0, wm_kevent_detail(object));
	equal("times without", (uint64_t)wm_kevent_uncovered(object, NULL, 0), 0);
	file = fopen(online, "w");
	if (!file || fputs("0-1\n", file) < 0 || fclose(file))
		wrong("%s can't be written", online);
	equal("missing", (uint64_t)wm_kevent_coverage(object, &covered, &missing, 1), 1);
	equal("CPU that is missing", (uint64_t)missing.cpu, 1);
	answers("why it is", missing.error, -WM_E_EVENT_CAME_LATER, "");
	answers("follow", wm_kevent_rescan(object), 0, wm_kevent_detail(object));
	equal("missing still", coverage(object).missing, 0);
	answers("follow again", wm_kevent_rescan(object), 0, wm_kevent_detail(object));
	equal("times without it", (uint64_t)wm_kevent_uncovered(object, times, 2), 1);
	equal("CPU", (uint64_t)times[0].cpu, 1);
	if (times[0].first_ns < status(object).armed_ns || times[0].last_ns <= times[0].first_ns)
		wrong("without it from %llu to %llu", (unsigned long long)times[0].first_ns,
		      (unsigned long long)times[0].last_ns);
	go(1, THREADS + LATER);
	go(2, THREADS + LATER);
	wm_kevent_disarm(object);
	answers("drain", wm_kevent_read(object, on_hit, &drained), 0, wm_kevent_detail(object));
	equal("hits", drained.hits, (2 * THREADS + LATER) * STORES);
	equal("times without it, at the end", (uint64_t)wm_kevent_uncovered(object, NULL, 0), 1);
	wm_kevent_close(object);
	end(pid);
}

/* Changed in place, and what can't be changed. */
static void modified(uint32_t flags)
{
	struct wm_kevent_source one = source(WM_KEVENT_KIND_WRITE, 4, 8), bad;
	pid_t pid = begin();
	struct wm_kevent *object = arm(pid, &one, 1, 0);
	struct wm_kevent_gap gap = { .size = sizeof(gap) };
	const char *detail;

	go(1, THREADS + LATER);
	equal("another word's hits", count(object, 0), 0);
	one = source(WM_KEVENT_KIND_WRITE, 2, 4);
	answers("modify", modify(object, pid, &one, 1, flags, &gap), 0, wm_kevent_detail(object));
	equal("generation", gap.generation, 1);
	equal("stopped", gap.was_stopped, !flags);
	if (gap.first_ns < status(object).armed_ns || gap.last_ns < gap.first_ns)
		wrong("the gap is from %llu to %llu", (unsigned long long)gap.first_ns,
		      (unsigned long long)gap.last_ns);
	go(2, THREADS + LATER);
	equal("hits once modified", count(object, 0), (THREADS + LATER) * STORES);
	bad = source(WM_KEVENT_KIND_WRITE, 2, 4);
	bad.address += 2;
	answers("askew", modify(object, pid, &bad, 1, flags, &gap), -EINVAL,
		wm_kevent_detail(object));
	detail = wm_kevent_detail(object);
	if (!strstr(detail, "no multiple of its 4 bytes"))
		wrong("askew: %s", detail);
	bad.address = UINT64_C(1) << 55; /* the kernel refuses it, on the first thread */
	answers("an invalid address", modify(object, pid, &bad, 1, flags, &gap), -EINVAL,
		wm_kevent_detail(object));
	equal("generation, refused", gap.generation, 1);
	answers("two for one", modify(object, pid, &one, 2, flags, NULL), -EINVAL, "");
	answers("another process", modify(object, pid + 1, &one, 1, flags, NULL), -EINVAL, "");
	go(3, THREADS + LATER);
	equal("hits once refused", count(object, 0), 2 * (THREADS + LATER) * STORES);
	equal("generation, as reported", status(object).generation, 1);
	wm_kevent_close(object);
	end(pid);
}

/* The program itself gets the signals, and a child of ours can't disturb that. */
static void signals(void)
{
	struct wm_kevent_source one = source(WM_KEVENT_KIND_WRITE, 0, 8);
	struct wm_kevent_status now = { .size = sizeof(now) };
	pid_t pid = begin(), child;
	struct wm_kevent *object;
	int code = 0;

	one.data = UINT64_C(0xfeedc0de12340000);
	object = arm(pid, &one, 1, WM_KEVENT_FLAG_SIGNAL);
	child = fork();
	if (!child) {
		code = wm_kevent_status_get(object, &now) == -ECHILD &&
		       wm_kevent_disarm(object) == -ECHILD;
		wm_kevent_close(object);
		_exit(code);
	}
	waitpid(child, &code, 0);
	equal("a forked child gets the error", (uint64_t)code, 1 << 8);
	go(1, THREADS + LATER);
	equal("signals", shared->hits, THREADS * STORES);
	equal("signals that are not as they should be", shared->strange, 0);
	equal("their data", shared->data >> 16, one.data >> 16);
	equal("their generation", WM_KEVENT_GENERATION(shared->data), 0);
	equal("signals, by count", count(object, 0), shared->hits);
	wm_kevent_close(object);
	end(pid);
}

/*
 * Four registers: a further request is refused with their holders' names, and leaves nothing
 * behind.
 */
static void taken(void)
{
	struct wm_kevent_source four[] = { source(WM_KEVENT_KIND_WRITE, 0, 8),
					   source(WM_KEVENT_KIND_WRITE, 1, 8),
					   source(WM_KEVENT_KIND_WRITE, 2, 8),
					   source(WM_KEVENT_KIND_WRITE, 3, 8) };
	pid_t pid = begin();
	struct wm_kevent *object = arm(pid, four, 4, 0), *fifth;
	struct wm_kevent_request asked = request(pid, four, 1, 0);
	char own[32];

	answers("a fifth", wm_kevent_open(&fifth, &asked), 0, wm_kevent_detail(NULL));
	answers("a fifth", wm_kevent_arm(fifth), -WM_E_EVENT_TAKEN, wm_kevent_detail(fifth));
	snprintf(own, sizeof(own), "%d", (int)getpid());
	if (!strstr(wm_kevent_detail(fifth), own))
		wrong("a fifth: the holders are not named: %s", wm_kevent_detail(fifth));
	equal("a fifth: state", status(fifth).state, WM_KEVENT_STATE_PREPARING);
	wm_kevent_disarm(object);
	answers("a fifth, later", wm_kevent_arm(fifth), 0, wm_kevent_detail(fifth));
	wm_kevent_close(object);
	go(1, THREADS + LATER);
	equal("a fifth: hits", count(fifth, 0), THREADS * STORES);
	end(pid);
	equal("a program that is gone",
	      (uint64_t)-wm_kevent_coverage(
		      fifth,
		      &(struct wm_kevent_coverage){ .size = sizeof(struct wm_kevent_coverage) },
		      NULL, 0),
	      WM_E_GONE);
	wm_kevent_close(fifth);
}

int main(int argc, char *argv[])
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	if (argc > 1) {
		later(argv[1]);
		return failures != 0;
	}
	rings();
	polled();
	not_cancelled();
	modified(WM_KEVENT_FLAG_NO_STOP);
	modified(0);
	signals();
	taken();
	return failures != 0;
}
