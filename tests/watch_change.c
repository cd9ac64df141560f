/* SPDX-License-Identifier: MIT */
/*
 * A session's watch changed while the session runs, by the library alone: watch_change MODE [DIR].
 * Prints what is wrong, and nothing else.
 */
#define _GNU_SOURCE
#include "failures.h"
#include "watch_change_bed.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define CHANGES 60
#define TRIES 10 /* on a machine where threads may get no processor for seconds */

/*
 * Another variable, length, kind, condition, each in turn. From then on exactly that is reported,
 * and all of it.
 */
static void steps(void)
{
	struct program program;
	struct wm_session *session;

	begin(&program, writers);
	session = open_on("watch:alpha", NULL, &program, 1, NULL);
	go(&program);
	take(session, EACH);
	check("before", "watch:alpha", 1, EACH);
	equal("the first change", change(session, "watch:alpha", "watch:beta"), 1);
	go(&program);
	take(session, EACH);
	check("another variable", "watch:beta", EACH + 1, EACH);
	change(session, "watch:beta", "watch:gamma_short:rw");
	go(&program);
	take(session, EACH);
	check("another length and kind", "watch:gamma_short", 2 * EACH + 1, EACH);
	change(session, "watch:gamma_short:rw", "watch:gamma_short/if=value==75/");
	go(&program);
	take(session, 1);
	check("another condition", "watch:gamma_short", 75, 1);
	change(session, "watch:gamma_short/if=value==75/", "watch:store_next:x");
	go(&program);
	take(session, EACH);
	equal("code", hit_count, EACH);
	for (size_t i = 0; i < hit_count; i++)
		if (strcmp(hits[i].name, "watch:store_next") || hits[i].has_value)
			wrong("code: %s", hits[i].name);
	equal("the fifth change", change(session, "watch:store_next:x", "watch:both.one"), 5);
	go(&program);
	take(session, EACH);
	check("a member", "watch:both.one", 5 * EACH + 1, EACH);
	wm_session_close(session);
	end(&program);
}

/* A child has what its parent's watch became. */
static void children(void)
{
	static const char *const names[] = { "watch:alpha", "watch:beta", "watch:gamma_short" };
	struct wm_session *session;
	struct program program;

	begin(&program, forker);
	session = open_on(names[0], NULL, &program, 1, NULL);
	for (int i = 0; i < 3; i++) {
		if (i)
			change(session, names[i - 1], names[i]);
		__atomic_add_fetch(&program.shared->step, 1, __ATOMIC_SEQ_CST);
		take(session, STORES);
		equal(names[i], hit_count, STORES);
		for (size_t j = 0; j < hit_count; j++)
			if (strcmp(hits[j].name, names[i]) || hits[j].value != j + 1 ||
			    hits[j].pid == (uint32_t)program.pid)
				wrong("a child: %s %llu in %u", hits[j].name,
				      (unsigned long long)hits[j].value, hits[j].pid);
	}
	wm_session_close(session);
	end(&program);
}

static int on_event_modify(const struct wm_event *event, void *data)
{
	(void)event;
	return wm_session_modify(data, "watch:alpha", "watch:beta", NULL);
}

/* Bad input by name; and after each, the watch is as it was. */
static void refused(void)
{
	static const struct {
		const char *to;
		int error;
	} bad[] = {
		{ "watch:no_such", -WM_E_WATCH_VARIABLE },
		{ "watch:both", -WM_E_WATCH_CHANGE },
		{ "watch:stderr/8@libc.so.6", -WM_E_WATCH_CHANGE },
		{ "watch:alpha/thread=1/", -WM_E_WATCH_NO_TID },
		{ "watch:alpha", -WM_E_SPEC_TWICE },
		{ "watch:alpha/nonsense/", -WM_E_SPEC },
		{ "watch:", -WM_E_WATCH_SYNTAX },
		{ "marker:a:b", -WM_E_SPEC },
		{ "nonsense", -WM_E_SPEC },
		{ "watch:0x10/8", -WM_E_WATCH_UNMAPPED },
		{ "watch:alpha/if=value==red/", -WM_E_WATCH_OPTION },
	};
	struct wm_kevent_gap gap = { .size = 4 };
	struct wm_session *session;
	struct program program;

	begin(&program, writers);
	answers(NULL, "no session", wm_session_modify(NULL, "watch:a", "watch:b", NULL), -EINVAL);
	session = open_on("watch:alpha", "watch:beta", &program, 1, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		answers(session, bad[i].to,
			wm_session_modify(session, "watch:alpha", bad[i].to, NULL), bad[i].error);
		if (!strstr(wm_session_detail(session), bad[i].to))
			wrong("%s: the detail is %s", bad[i].to, wm_session_detail(session));
	}
	answers(session, "no such watch",
		wm_session_modify(session, "watch:gamma_short", "watch:both.one", NULL), -ENOENT);
	answers(session, "nothing", wm_session_modify(session, NULL, NULL, NULL), -EINVAL);
	answers(session, "a gap without a size",
		wm_session_modify(session, "watch:alpha", "watch:beta", &gap), -EINVAL);
	go(&program);
	usleep(20000);
	answers(session, "in a callback", wm_session_read(session, on_event_modify, session),
		-EDEADLK);
	take(session, 2 * EACH - 1);
	equal("hits once refused", hit_count, 2 * EACH - 1);
	wm_session_stop(session);
	answers(session, "once stopped",
		wm_session_modify(session, "watch:alpha", "watch:beta", NULL), -EINVAL);
	wm_session_close(session);
	end(&program);
}

/* The kernel's own calls, to be refused at will: the library's ioctl(2) is this one. */
static int modifies, modify_fails_at, modify_error;

int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	if (request == PERF_EVENT_IOC_MODIFY_ATTRIBUTES && ++modifies == modify_fails_at) {
		errno = modify_error;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, argument);
}

/* Two programs: all or none, whether one of them has no such place or its kernel refuses. */
static void together(void)
{
	struct program two[2];
	struct wm_session *session;
	char alone[64];
	int all;

	begin(&two[0], writers_alone);
	begin(&two[1], writers);
	session = open_on("watch:alpha", NULL, two, 2, NULL);
	snprintf(alone, sizeof(alone), "watch:%p/8", two[0].shared->alone);
	answers(session, alone, wm_session_modify(session, "watch:alpha", alone, NULL),
		-WM_E_WATCH_UNMAPPED);
	equal("events that were touched", (uint64_t)modifies, 0);
	change(session, "watch:alpha", "watch:beta");
	change(session, "watch:beta", "watch:alpha");
	all = modifies / 2;
	if (all < 2 * THREADS)
		wrong("%d events were changed", all);
	/* in the first, at its end, in the second, at the very end */
	for (int i = 1; i <= all; i += i < 3 ? 1 : (all - 1) / 4) {
		modifies = 0;
		modify_fails_at = i;
		modify_error = ENOSPC;
		answers(session, "refused by the kernel",
			wm_session_modify(session, "watch:alpha", "watch:beta", NULL), -ENOSPC);
		modify_fails_at = 0;
		go(&two[0]);
		go(&two[1]);
		take(session, 2 * EACH);
		equal("hits in both once refused", hit_count, 2 * EACH);
		for (size_t j = 0; j < hit_count; j++)
			if (strcmp(hits[j].name, "watch:alpha") || hits[j].old + 1 != hits[j].value)
				wrong("refused at %d: %s %llu -> %llu", i, hits[j].name,
				      (unsigned long long)hits[j].old,
				      (unsigned long long)hits[j].value);
	}
	change(session, "watch:alpha", "watch:beta");
	go(&two[0]);
	go(&two[1]);
	take(session, 2 * EACH);
	equal("hits in both", hit_count, 2 * EACH);
	for (size_t j = 0; j < hit_count; j++)
		if (strcmp(hits[j].name, "watch:beta"))
			wrong("changed: %s", hits[j].name);
	wm_session_close(session);
	end(&two[0]);
	end(&two[1]);
}

/* Nobody can be stopped from then on, as where a debugger has them. */
static int is_unstoppable;

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	long words[3];

	va_start(arguments, request);
	for (int i = 0; i < 3; i++)
		words[i] = va_arg(arguments, long);
	va_end(arguments);
	if (is_unstoppable && request == PTRACE_SEIZE) {
		errno = EPERM;
		return -1;
	}
	return syscall(SYS_ptrace, request, words[0], words[1], words[2]);
}

/* On a program whose threads store without a pause, and whose hits are yet to be read. */
static struct wm_session *open_running(struct program *program, const char *spec,
				       const char *beside)
{
	struct wm_session *session;

	begin(program, writers);
	session = open_on(spec, beside, program, 1, NULL);
	hit_count = 0;
	run_on(program);
	return session;
}

/*
 * While they run on, hits may be lost, and that is said; none is made up, and behind it all is
 * well.
 */
static void unstopped(void)
{
	static const char *const names[] = { "watch:alpha", "watch:beta" };
	struct wm_kevent_gap gap = { .size = sizeof(gap) };
	struct wm_session *session;
	struct program program;

	session = open_running(&program, names[0], NULL);
	is_unstoppable = 1;
	for (int i = 0; i < 10; i++) {
		usleep(2000);
		answers(session, "unstopped",
			wm_session_modify(session, names[i & 1], names[!(i & 1)], &gap), 0);
		equal("unstopped: stopped", gap.was_stopped, 0);
		read_on(session);
	}
	__atomic_store_n(&program.shared->running, 0, __ATOMIC_SEQ_CST);
	wait_ready(&program); /* a thread reports its hits before it continues */
	read_on(session);
	for (size_t i = 0; i < hit_count; i++)
		if (hits[i].how & 4)
			wrong("unstopped: %s is not known", hits[i].name);
	go(&program);
	take(session, EACH);
	equal("behind it", hit_count, EACH);
	wm_session_close(session);
	end(&program);
}

static int by_value(const void *one, const void *other)
{
	const struct hit *a = one, *b = other;

	if (a->value != b->value)
		return a->value < b->value ? -1 : 1;
	return strcmp(a->name, b->name);
}

/*
 * 1: changed while they stood still. 0: some thread got no processor for seconds, so they ran on,
 * and that was said.
 */
static int change_still(struct wm_session *session, const char *from, const char *to)
{
	struct wm_kevent_gap gap = { .size = sizeof(gap) };

	answers(session, to, wm_session_modify(session, from, to, &gap), 0);
	return gap.was_stopped;
}

/* Whether they stood still for all changes: else hits may be lost, as in unstopped(). */
static int try_to_change(const char *const names[2], const char *beside)
{
	struct wm_session_status status = { .size = sizeof(status) };
	struct wm_session *session;
	struct program program;
	int stood_still = 1;

	session = open_running(&program, names[0], beside);
	for (int i = 0; i < CHANGES && stood_still; i++) {
		usleep(1000);
		wait_stored(&program);
		stood_still = change_still(session, names[i & 1], names[!(i & 1)]);
		read_on(session);
	}
	wait_stored(&program);
	__atomic_store_n(&program.shared->running, 0, __ATOMIC_SEQ_CST);
	wait_ready(&program);
	wm_session_stop(session);
	read_on(session);
	wm_session_status_get(session, &status);
	equal("discarded", status.discarded, 0);
	wm_session_close(session);
	end(&program);
	return stood_still;
}

/*
 * Threads store without a pause, and a watch is changed again and again, each time while the
 * threads are stopped. hits[] has what hit it, by value.
 */
static void run_and_change(const char *const names[2], const char *beside)
{
	int tries = 0;

	while (!try_to_change(names, beside))
		if (++tries == TRIES) {
			wrong("%s: they were not stopped", names[0]);
			break;
		}
	qsort(hits, hit_count, sizeof(*hits), by_value);
}

/*
 * alpha and then beta are stored in turn. The threads are stopped for a change, so no store is
 * lost: alpha's last is followed by beta's same or next, and beta's last by alpha's next, or by the
 * one after it, where alpha's had been stored.
 */
static void race(void)
{
	static const char *const names[] = { "watch:alpha", "watch:beta" };
	unsigned int switches = 0;

	run_and_change(names, NULL);
	for (size_t i = 1; i < hit_count; i++) {
		const struct hit *a = &hits[i - 1], *b = &hits[i];
		int is_switch = strcmp(a->name, b->name) != 0;
		uint64_t by = b->value - a->value;

		switches += (unsigned int)is_switch;
		if (!is_switch			 ? by == 1
		    : !strcmp(a->name, names[0]) ? by <= 1
						 : by == 1 || by == 2)
			continue;
		wrong("%s %llu, then %s %llu", a->name, (unsigned long long)a->value, b->name,
		      (unsigned long long)b->value);
	}
	equal("switches that were seen", switches, CHANGES);
}

/*
 * The same word under another condition, which always holds, and another watch beside it: each
 * store of both once, none twice.
 */
static void race_of_two(const char *word, const char *beside)
{
	char always[64];
	const char *const names[] = { word, always };
	uint64_t last_of[2] = { 0, 0 };

	snprintf(always, sizeof(always), "%s/if=value>0/", word);
	run_and_change(names, beside);
	for (size_t i = 0; i < hit_count; i++) {
		int which = strcmp(hits[i].name, names[0]) != 0;

		if (hits[i].value != last_of[which] + 1)
			wrong("%s %llu, then %llu", hits[i].name,
			      (unsigned long long)last_of[which],
			      (unsigned long long)hits[i].value);
		last_of[which] = hits[i].value;
	}
	equal("the other's", last_of[1], last_of[0]);
}

/* Into a folder: every hit is reported. */
static void trace(const char *dir)
{
	struct wm_session *session;
	struct program program;

	begin(&program, writers);
	session = open_on("watch:alpha", NULL, &program, 1, dir);
	go(&program);
	change(session, "watch:alpha", "watch:beta/if=changed/");
	go(&program);
	answers(session, "stop", wm_session_stop(session), 0);
	wm_session_close(session);
	end(&program);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(mode, "steps"))
		steps();
	else if (!strcmp(mode, "children"))
		children();
	else if (!strcmp(mode, "unstopped"))
		unstopped();
	else if (!strcmp(mode, "refused"))
		refused();
	else if (!strcmp(mode, "together"))
		together();
	else if (!strcmp(mode, "race"))
		race();
	else if (!strcmp(mode, "race_of_two"))
		race_of_two("watch:alpha", "watch:gamma_short");
	else if (!strcmp(mode, "race_of_pair"))
		race_of_two("watch:both.two", "watch:both.one");
	else if (!strcmp(mode, "trace") && argc > 2)
		trace(argv[2]);
	else
		return 2;
	return failures != 0;
}
