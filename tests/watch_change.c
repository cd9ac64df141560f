/* SPDX-License-Identifier: MIT */
/*
 * A session's watch changed while the session runs, by the library alone: watch_change MODE [DIR]. The programs that are watched are children of
 * this one. Prints what is wrong, and nothing else.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/session.h>

#define THREADS 4
#define STORES 5
#define WAIT_US 200
#define CHANGES 60
#define ALONE ((void *)0x100000000000) /* where nothing is by itself */
#define HITS_MAX 2000000

volatile uint64_t alpha, beta;
volatile uint32_t gamma_short;
typedef uint64_t pair_t __attribute__((vector_size(16)));
volatile union {
	pair_t pair;
	struct {
		uint64_t one, two;
	};
} both;

/* Seen by the child and by us. */
struct shared {
	unsigned int step, ready, running;
	void *alone; /* a page that only this child has */
};

struct program {
	pid_t pid;
	struct shared *shared;
};

static int failures;

static void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void wrong(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	failures++;
}

static void equal(const char *what, uint64_t got, uint64_t wanted)
{
	if (got != wanted)
		wrong("%s: %llu, expected %llu", what, (unsigned long long)got,
		      (unsigned long long)wanted);
}

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

static void writers(void)
{
	pthread_t thread;

	for (unsigned int i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, writer, (void *)(uintptr_t)1);
	for (;;)
		pause();
}

static void writers_alone(void)
{
	own->alone = mmap(ALONE, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	writers();
}

/* At each step a child does it. */
static void forker(void)
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

static void wait_ready(const struct program *program)
{
	while (__atomic_load_n(&program->shared->ready, __ATOMIC_SEQ_CST) < THREADS)
		usleep(WAIT_US);
}

static void begin(struct program *program, void (*run)(void))
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

/* Each thread makes STORES stores to each variable. */
static void go(const struct program *program)
{
	__atomic_store_n(&program->shared->ready, 0, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&program->shared->step, 1, __ATOMIC_SEQ_CST);
	wait_ready(program);
}

static void end(const struct program *program)
{
	int status;

	if (waitpid(program->pid, &status, WNOHANG))
		wrong("the program has ended, with status %#x", status);
	kill(program->pid, SIGKILL);
	waitpid(program->pid, NULL, 0);
}

/* ---- what was read ---- */

struct hit {
	char name[32];
	uint32_t pid;
	uint64_t old, value, how;
	int has_value;
};

static struct hit *hits;
static size_t hit_count;

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

static void answers(struct wm_session *session, const char *what, int got, int wanted)
{
	if (got != wanted)
		wrong("%s: %s (%s), expected %s", what, wm_error_text(got),
		      wm_session_detail(session), wm_error_text(wanted));
}

/* Until there are so many, or a second is over: then all that there is. */
static void take(struct wm_session *session, size_t wanted)
{
	hit_count = 0;
	for (int i = 0; i < 100 && hit_count < wanted; i++) {
		wm_session_poll(session, 10);
		answers(session, "read", wm_session_read(session, on_event, NULL), 0);
	}
	usleep(5000);
	answers(session, "read", wm_session_read(session, on_event, NULL), 0);
}

/* All of one name; by value in turn, each with the one before as what it was. */
static void check(const char *what, const char *name, uint64_t first, size_t count)
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

static struct wm_session *open_on(const char *spec, const char *beside,
				  const struct program *programs, int count, const char *dir)
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
		exit(err == -WM_E_PERF_PARANOID || err == -WM_E_PERF_FILTERED ||
				     err == -WM_E_EVENT_TAKEN
			     ? 77
			     : 1);
	}
	return session;
}

#define EACH ((size_t)THREADS * STORES)

static uint64_t change(struct wm_session *session, const char *from, const char *to)
{
	struct wm_event_gap gap = { .size = sizeof(gap) };

	answers(session, to, wm_session_modify(session, from, to, &gap), 0);
	equal("stopped", gap.was_stopped, 1);
	if (!gap.first_ns || gap.last_ns < gap.first_ns)
		wrong("%s: the gap is none", to);
	return gap.generation;
}

/* ---- what is tried ---- */

/* Another variable, length, kind, condition, each in turn; each is what is told from then on, and all of it. */
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
		{ "watch:both", -WM_E_WATCH_PIECES },
		{ "watch:stderr/8@libc.so.6", -WM_E_WATCH_TOGETHER },
		{ "watch:alpha/thread=1/", -WM_E_WATCH_NO_TID },
		{ "watch:alpha", -WM_E_SPEC_TWICE },
		{ "watch:alpha/nonsense/", -WM_E_WATCH_OPTION },
		{ "watch:", -WM_E_WATCH_SYNTAX },
		{ "marker:a:b", -WM_E_SPEC_KIND },
		{ "nonsense", -WM_E_SPEC },
		{ "watch:0x10/8", -WM_E_WATCH_UNMAPPED },
		{ "watch:alpha/if=value==red/", -WM_E_WATCH_TEST },
	};
	struct wm_event_gap gap = { .size = 4 };
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
		-EBUSY);
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

/* While they run on, hits may be lost, and that is said; none is made up, and behind it all is well. */
static void unstopped(void)
{
	static const char *const names[] = { "watch:alpha", "watch:beta" };
	struct wm_event_gap gap = { .size = sizeof(gap) };
	struct wm_session *session;
	struct program program;

	begin(&program, writers);
	session = open_on(names[0], NULL, &program, 1, NULL);
	is_unstoppable = 1;
	hit_count = 0;
	program.shared->running = 1;
	__atomic_add_fetch(&program.shared->step, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 10; i++) {
		usleep(2000);
		answers(session, "unstopped",
			wm_session_modify(session, names[i & 1], names[!(i & 1)], &gap), 0);
		equal("unstopped: stopped", gap.was_stopped, 0);
		answers(session, "read", wm_session_read(session, on_event, NULL), 0);
	}
	__atomic_store_n(&program.shared->running, 0, __ATOMIC_SEQ_CST);
	wait_ready(&program);
	usleep(20000);
	answers(session, "read", wm_session_read(session, on_event, NULL), 0);
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

/* Threads store without a pause, and a watch is changed again and again; what it was hit by is in hits[], by value. */
static void run_and_change(const char *const names[2], const char *beside)
{
	struct wm_session_status status = { .size = sizeof(status) };
	struct wm_session *session;
	struct program program;

	begin(&program, writers);
	session = open_on(names[0], beside, &program, 1, NULL);
	hit_count = 0;
	program.shared->running = 1;
	__atomic_add_fetch(&program.shared->step, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < CHANGES; i++) {
		usleep(1000);
		change(session, names[i & 1], names[!(i & 1)]);
		answers(session, "read", wm_session_read(session, on_event, NULL), 0);
	}
	__atomic_store_n(&program.shared->running, 0, __ATOMIC_SEQ_CST);
	usleep(50000);
	wm_session_stop(session);
	answers(session, "read", wm_session_read(session, on_event, NULL), 0);
	wm_session_status(session, &status);
	equal("discarded", status.discarded, 0);
	wm_session_close(session);
	end(&program);
	qsort(hits, hit_count, sizeof(*hits), by_value);
}

/*
 * alpha, and then beta, is stored in turn. They stand still for a change, so no store is lost: behind alpha's last comes beta's same or next,
 * behind beta's last alpha's next, or the one after, where alpha's had been stored.
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

/* The same word under another condition, which always holds, and another watch beside it: each store of both once, none twice. */
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

/* Into a folder: all told by others. */
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
	hits = malloc(HITS_MAX * sizeof(*hits));
	if (!hits)
		return 1;
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
