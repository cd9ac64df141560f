/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "watch_change_bed.h"

#include "failures.h"

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

#define WAIT_US 200
#define ALONE ((void *)0x100000000000) /* where nothing is by itself */

volatile uint64_t alpha, beta;
volatile uint32_t gamma_short;
typedef uint64_t pair_t __attribute__((vector_size(16)));
volatile union {
	pair_t pair;
	struct {
		uint64_t one, two;
	};
} both;

/* ---- the program ---- */

static struct shared *own;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static uint64_t last;

__attribute__((noinline)) void store_next(void)
{
	pthread_mutex_lock(&turn);
	last++;
	alpha = last;
	beta = last;
	gamma_short = (uint32_t)last;
	both.pair = (pair_t){ last, last }; /* by one instruction */
	__atomic_add_fetch(&own->stores, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&turn);
}

static void *writer(void *data)
{
	for (unsigned int step = (unsigned int)(uintptr_t)data;; step++) {
		__atomic_add_fetch(&own->ready, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&own->step, __ATOMIC_SEQ_CST) < step)
			usleep(WAIT_US);
		for (unsigned int i = 0; i < STORES; i++)
			store_next();
		while (__atomic_load_n(&own->running, __ATOMIC_SEQ_CST))
			store_next();
	}
	return NULL;
}

void writers(void)
{
	pthread_t thread;

	for (unsigned int i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, writer, (void *)(uintptr_t)1);
	for (;;)
		pause();
}

void writers_alone(void)
{
	own->alone = mmap(ALONE, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	writers();
}

void forker(void)
{
	for (unsigned int step = 1;; step++) {
		__atomic_store_n(&own->ready, THREADS, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&own->step, __ATOMIC_SEQ_CST) < step)
			usleep(WAIT_US);
		if (fork()) {
			wait(NULL);
			continue;
		}
		for (unsigned int i = 0; i < STORES; i++)
			store_next();
		_exit(0);
	}
}

void wait_ready(const struct program *program)
{
	while (__atomic_load_n(&program->shared->ready, __ATOMIC_SEQ_CST) < THREADS)
		usleep(WAIT_US);
}

void begin(struct program *program, void (*run)(void))
{
	own = program->shared = mmap(NULL, sizeof(*own), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	program->pid = fork();
	if (!program->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run();
	}
	wait_ready(program);
}

void go(const struct program *program)
{
	__atomic_store_n(&program->shared->ready, 0, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&program->shared->step, 1, __ATOMIC_SEQ_CST);
	wait_ready(program);
}

void run_on(const struct program *program)
{
	__atomic_store_n(&program->shared->ready, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&program->shared->running, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&program->shared->step, 1, __ATOMIC_SEQ_CST);
}

void wait_stored(const struct program *program)
{
	uint64_t begun = __atomic_load_n(&program->shared->stores, __ATOMIC_SEQ_CST);

	/* the first to end may have begun before */
	while (__atomic_load_n(&program->shared->stores, __ATOMIC_SEQ_CST) < begun + 2)
		usleep(WAIT_US);
}

void end(const struct program *program)
{
	int status;

	if (waitpid(program->pid, &status, WNOHANG))
		wrong("the program has ended, with status %#x", status);
	kill(program->pid, SIGKILL);
	waitpid(program->pid, NULL, 0);
}

/* ---- what was read ---- */

struct hit hits[HITS_MAX];
size_t hit_count;

static int on_event(const struct wm_event *event, void *data)
{
	struct hit *hit = &hits[hit_count];

	(void)data;
	if (hit_count == HITS_MAX)
		return 1;
	*hit = (struct hit){ .pid = event->pid };
	snprintf(hit->name, sizeof(hit->name), "%s", event->name);
	for (uint32_t i = 0; i < event->field_count; i++) {
		const struct wm_event_field *field = &event->fields[i];

		if (!strcmp(field->name, "old"))
			hit->old = field->value.u;
		else if (!strcmp(field->name, "how"))
			hit->how = field->value.u;
		else if (!strcmp(field->name, "new")) {
			hit->value = field->value.u;
			hit->has_value = 1;
		}
	}
	hit_count++;
	return 0;
}

void answers(struct wm_session *session, const char *what, int got, int wanted)
{
	if (got != wanted)
		wrong("%s: %s (%s), expected %s", what, wm_error_text(got),
		      wm_session_detail(session), wm_error_text(wanted));
}

void read_on(struct wm_session *session)
{
	answers(session, "read", wm_session_read(session, on_event, NULL), 0);
}

void take(struct wm_session *session, size_t wanted)
{
	hit_count = 0;
	for (int i = 0; i < 100 && hit_count < wanted; i++) {
		wm_session_wait(session, 10);
		read_on(session);
	}
	usleep(5000);
	read_on(session);
}

void check(const char *what, const char *name, uint64_t first, size_t count)
{
	if (hit_count != count)
		wrong("%s: %zu hits, expected %zu", what, hit_count, count);
	for (uint64_t value = first; count && value < first + count; value++) {
		size_t i = 0;

		while (i < hit_count && hits[i].value != value)
			i++;
		if (i == hit_count) {
			wrong("%s: %llu was not seen", what, (unsigned long long)value);
			return;
		}
		if (strcmp(hits[i].name, name) || hits[i].old != value - 1 || hits[i].how != 1) {
			wrong("%s: %s %llu -> %llu, how %llu", what, hits[i].name,
			      (unsigned long long)hits[i].old, (unsigned long long)hits[i].value,
			      (unsigned long long)hits[i].how);
			return;
		}
	}
}

/* ---- sessions ---- */

struct wm_session *open_on(const char *spec, const char *beside, const struct program *programs,
			   int count, const char *dir)
{
	struct wm_session *session;
	int err = wm_session_open(&session, NULL);

	if (!err)
		err = wm_session_add(session, spec);
	if (!err && beside)
		err = wm_session_add(session, beside);
	if (!err && dir)
		err = wm_session_output(session, dir);
	for (int i = 0; i < count && !err; i++)
		err = wm_session_attach(session, programs[i].pid);
	if (!err)
		err = wm_session_start(session);
	if (err) {
		printf("%s: %s\n", wm_error_text(err), wm_session_detail(session));
		exit(err == -WM_E_PERF_DENIED || err == -WM_E_EVENT_TAKEN ? 77 : 1);
	}
	return session;
}

uint64_t change(struct wm_session *session, const char *from, const char *to)
{
	struct wm_kevent_gap gap = { .size = sizeof(gap) };

	answers(session, to, wm_session_modify(session, from, to, &gap), 0);
	equal("stopped", gap.was_stopped, 1);
	if (!gap.first_ns || gap.last_ns < gap.first_ns)
		wrong("%s: the gap is none", to);
	return gap.generation;
}
