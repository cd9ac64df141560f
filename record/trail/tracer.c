/* SPDX-License-Identifier: MIT */
#include "record/trail/tracer.h"

#include "record/trail/launch_gate.h"
#include "record/trail/soft/soft_launch.h"
#include "record/trail/soft/soft_leave.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define OWNER_END_S 10 /* after the end of the owner */
#define RUN_MS 3       /* between looks at requests */
#define LET_GO_MS 2000
#define START_MS 30000 /* to be seized; it is not long, but on a machine that does other things */
#define STOP_MS 10000  /* to be let go of */
#define TAKE_MS 100
#define LEAST_LIKELY (-1000) /* OOM_SCORE_ADJ_MIN */
#define STEP 50
#define NS 1000000000u
#define KEPT_NS NS /* of the CPU time, to let the program go in */

enum { STARTED, OVER, FETCHED };

/* Requests to the process, a byte each; the socket's end: let the program go. */
enum { ORDER_GO = 'g', ORDER_FETCH = 'f', ORDER_DISCARD = 'd' };
enum asked { ASKED_NOTHING, ASKED_FETCH, ASKED_END, ASKED_DISCARD };

/* What the process says of itself. */
struct tracer_note {
	int32_t what;
	int32_t error;
	int32_t left; /* threads */
	struct tracing_result result;
	char detail[TRACING_DETAIL_BYTES];
};

_Static_assert(sizeof(struct tracer_note) <= WIRE_NOTE_MAX, "it is sent as one");

/*
 * ---- it must not be killed while it traces: the trail ends with it. So it raises its limits as
 * far as it may, and ends in time where it has nearly used up CPU time, whose end is SIGKILL.
 */

static void raise_limits(void)
{
	static const int limits[] = { RLIMIT_AS,     RLIMIT_DATA,    RLIMIT_STACK, RLIMIT_CPU,
				      RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_FSIZE, RLIMIT_RTTIME };
	struct rlimit limit;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (getrlimit((__rlimit_resource_t)limits[i], &limit))
			continue;
		limit.rlim_cur = limit.rlim_max;
		setrlimit((__rlimit_resource_t)limits[i], &limit);
	}
	/* more than that is a privilege */
	setrlimit(RLIMIT_CPU, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY });
}

/* At the end of RLIMIT_RTTIME is SIGKILL too. */
static void give_up_real_time(void)
{
	const struct sched_param none = { 0 };
	int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	struct rlimit limit;

	if ((policy == SCHED_FIFO || policy == SCHED_RR) && !getrlimit(RLIMIT_RTTIME, &limit) &&
	    limit.rlim_max != RLIM_INFINITY)
		sched_setscheduler(0, SCHED_OTHER, &none);
}

/*
 * A process without privilege may lower its score only to the value that a privileged one last set,
 * and can't ask what that is: so try from the lowest up.
 */
static void be_the_last(void)
{
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC), done = 0;
	char text[16];
	int now;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%d", &now) != 1)
		now = LEAST_LIKELY;
	for (int score = LEAST_LIKELY; score < now && !done; score += STEP) {
		int bytes = snprintf(text, sizeof(text), "%d", score);

		done = pwrite(fd, text, (size_t)bytes, 0) == bytes;
	}
	if (fd >= 0)
		close(fd);
}

/*
 * For this process: raise soft limits to the hard ones, leave real-time scheduling, whose time is
 * limited, and be the last that the kernel kills when memory runs out. Changes that are not
 * permitted are left out.
 */
static void endure(void)
{
	raise_limits();
	give_up_real_time();
	be_the_last();
}

/* Whether it has nearly had the CPU time that it may have. */
static int endure_is_spent(void)
{
	uint64_t used_ns, all_ns, kept_ns;
	struct timespec used;
	struct rlimit limit;

	if (getrlimit(RLIMIT_CPU, &limit) || limit.rlim_max == RLIM_INFINITY ||
	    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) || limit.rlim_max > UINT64_MAX / NS)
		return 0;
	used_ns = (uint64_t)used.tv_sec * NS + (uint64_t)used.tv_nsec;
	all_ns = limit.rlim_max * NS;
	kept_ns = all_ns / 2 < KEPT_NS ? all_ns / 2 : KEPT_NS;
	return used_ns > all_ns - kept_ns;
}

/* ---- in that process ---- */

/* Where 0 to 2 will not be; -1 stays -1. */
static int above_standard(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/*
 * Nothing of the recorder's is kept: no terminal, no lock on the folder, no pipe that others wait
 * on.
 */
static void keep_only(int first, int second)
{
	int low = second < 0 || first < second ? first : second;
	int high = first > second ? first : second;
	int null = open("/dev/null", O_RDWR);

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (low > 3)
		close_range(3, (unsigned int)low - 1, 0);
	if (high > low + 1)
		close_range((unsigned int)low + 1, (unsigned int)high - 1, 0);
	close_range((unsigned int)high + 1, ~0u, 0);
}

/* The owner has ended: time to let the program go, whatever this process is busy with. */
static void on_owner_end(int number)
{
	(void)number;
	alarm(OWNER_END_S);
}

/*
 * The kernel signals the end of the thread that made us. Where that was not the owner's first, the
 * owner may live: then follow() alone looks.
 */
static void owner_watch(pid_t owner, int by_first)
{
	const struct sigaction action = { .sa_handler = on_owner_end, .sa_flags = SA_RESTART };
	sigset_t open;

	sigemptyset(&open);
	sigaddset(&open, SIGALRM);
	sigaddset(&open, SIGUSR2);
	signal(SIGALRM, SIG_DFL);
	sigaction(SIGUSR2, &action, NULL);
	sigprocmask(SIG_UNBLOCK, &open, NULL);
	if (by_first)
		prctl(PR_SET_PDEATHSIG, SIGUSR2);
	/* before that call; 0: it is in another namespace */
	if (getppid() && getppid() != owner)
		alarm(OWNER_END_S);
}

/* From here on only threads are waited for that would end with us. */
static void owner_watch_end(void)
{
	signal(SIGUSR2, SIG_IGN);
	alarm(0);
}

/*
 * A pidfd of the process that started this one: the socket's other end alone does not show its end,
 * as a child that it forked has that end too. -1 if it is in another namespace.
 */
static int owner_open(pid_t owner)
{
	return getppid() ? (int)syscall(SYS_pidfd_open, owner, 0) : -1;
}

/* If the recorder is gone, it wants no more records: that counts as a request to let go. */
static enum asked asked(const struct wire_in *in)
{
	char byte;
	ssize_t got = recv(in->fd, &byte, 1, MSG_DONTWAIT);

	if (got == 1 && byte == ORDER_FETCH)
		return ASKED_FETCH;
	if (got >= 0)
		return got && byte == ORDER_DISCARD ? ASKED_DISCARD : ASKED_END;
	if ((errno != EAGAIN && errno != EINTR) || wire_in_is_deserted(in, 0))
		return ASKED_DISCARD;
	return ASKED_NOTHING;
}

/* Told to let it run; 0: never. */
static int await_go(const struct wire_in *in)
{
	char byte;

	return !wire_in_is_deserted(in, POLLIN) && recv(in->fd, &byte, 1, 0) == 1 &&
	       byte == ORDER_GO;
}

static void report(struct wire_in *in, const struct tracer_note *note)
{
	wire_in_note(in, note, sizeof(*note));
}

/* Report by its name a requested module that no process had. */
static void tell_missing(struct tracer_note *note, const struct only *only)
{
	size_t used = strlen(note->detail);
	char names[160];

	if (!only)
		return;
	only_missing(only, names, sizeof(names));
	if (names[0])
		snprintf(note->detail + used, sizeof(note->detail) - used,
			 "%sonly=: the program never had a module of the name %s", used ? "; " : "",
			 names);
}

static int fetch(const struct tracing_calls *calls, struct tracing *tracing, struct wire_in *in)
{
	const struct tracer_note note = { .what = FETCHED };
	int err = calls->fetch ? calls->fetch(tracing) : 0;

	if (!err)
		report(in, &note);
	return err;
}

static void follow(const struct tracing_calls *calls, struct tracing *tracing, struct wire_in *in,
		   const struct only *only)
{
	struct tracer_note note = { .what = OVER };
	enum asked what = ASKED_NOTHING;
	int more = await_go(in), err;

	while (more > 0) {
		more = calls->run(tracing, RUN_MS);
		if (wire_in_flush(in))
			break;
		what = asked(in);
		if (what == ASKED_END || what == ASKED_DISCARD)
			break;
		err = what == ASKED_FETCH && more > 0 ? fetch(calls, tracing, in) : 0;
		more = err < 0 ? err : more;
		if (more > 0 && endure_is_spent())
			more = -WM_E_TRAIL_SPENT;
	}
	if (what == ASKED_DISCARD)
		wire_in_unwanted(in);
	note.left = calls->let_go(tracing, LET_GO_MS);
	note.error = more < 0 ? more : 0;
	calls->result(tracing, &note.result, note.detail);
	tell_missing(&note, only);
	report(in, &note);
	close(in->fd);
	/* no process waits for us any more; but threads that we have not let go end with us */
	owner_watch_end();
	while (note.left)
		note.left = calls->let_go(tracing, LET_GO_MS);
}

/* Who would see an engine's copies run instead of the program is refused. */
static int attach(struct tracing **tracing, struct trail_sink *sink, const struct tracing_how *how,
		  pid_t pid, pid_t thread, char *detail)
{
	int err = 0;

	if (how->origin != ORIGIN_SOFT) /* which takes away what it finds there */
		err = soft_leave_check(pid, (struct detail){ detail, TRACING_DETAIL_BYTES });
	return err ? err
		   : tracing_calls_of(how->origin)->attach(tracing, sink, how, pid, thread, detail);
}

static void serve(int fd, const struct tracing_how *how, pid_t pid, int gate, pid_t thread,
		  pid_t owner, int by_first)
{
	const struct tracing_calls *calls = tracing_calls_of(how->origin);
	struct tracer_note note = { .what = STARTED };
	struct tracing *tracing = NULL;
	struct trail_sink *sink;
	struct only *only = NULL;
	struct wire_in in;
	sigset_t all;
	int launches = gate >= 0, own;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	owner_watch(owner, by_first);
	prctl(PR_SET_NAME, "waymark-tracer");
	endure();
	own = above_standard(fd);
	gate = above_standard(gate);
	if (own < 0 || (launches && gate < 0))
		note.error = -errno;
	else
		keep_only(own, gate);
	if (wire_in_init(&in, own < 0 ? fd : own))
		_exit(1);
	if (note.error) {
		report(&in, &note);
		_exit(0);
	}
	in.owner = owner_open(owner);
	if (how->follows)
		wire_in_follow(&in);
	sink = &in.first.sink;
	if (how->only && how->only->count) {
		if (only_open(&only, sink, how->only))
			_exit(1);
		sink = only_sink(only);
	}
	note.error = launches ? calls->take(&tracing, sink, how, pid, gate, note.detail)
			      : attach(&tracing, sink, how, pid, thread, note.detail);
	if (launches)
		close(gate);
	report(&in, &note);
	if (!note.error)
		follow(calls, tracing, &in, only);
	_exit(0);
}

/* ---- in ours ---- */

static void on_note(void *data, const void *bytes, size_t count)
{
	struct tracer *tracer = data;
	struct tracer_note note;

	if (count != sizeof(note))
		return;
	memcpy(&note, bytes, sizeof(note));
	if (note.what == FETCHED) {
		tracer->fetched++;
		return;
	}
	tracer->has_started |= note.what == STARTED;
	tracer->is_over |= note.what == OVER;
	tracer->result = note.result;
	tracer->left = note.left;
	memcpy(tracer->detail, note.detail, sizeof(tracer->detail));
	tracer->detail[sizeof(tracer->detail) - 1] = '\0';
	if (!tracer->error && note.error < 0)
		tracer->error = note.error;
}

static void reap(struct tracer *tracer)
{
	/*
	 * one that still waits to let a thread go is left to that, and is init's to reap, or ours
	 * when it is done
	 */
	if (tracer->process > 0)
		waitpid(tracer->process, NULL, tracer->left ? WNOHANG : 0);
	tracer->process = 0;
}

static void release(struct tracer *tracer)
{
	wire_out_release(&tracer->wire);
	if (tracer->fd >= 0)
		close(tracer->fd);
	tracer->fd = -1;
	reap(tracer);
}

static int begin(struct tracer *tracer, struct trail_sink *sink, const struct tracing_how *how,
		 int gate, pid_t only)
{
	pid_t owner = getpid();
	int by_first = owner == gettid();
	int ends[2];

	tracer->start_end_ns = ticks_monotonic_ns() + START_MS * UINT64_C(1000000);
	tracer->fd = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return tracer->error = -errno;
	tracer->process = fork();
	if (!tracer->process)
		serve(ends[1], how, tracer->pid, gate, only, owner, by_first);
	close(ends[1]);
	tracer->fd = ends[0];
	wire_out_init(&tracer->wire, ends[0], sink);
	tracer->wire.on_note = on_note;
	tracer->wire.data = tracer;
	if (tracer->process < 0) {
		tracer->error = -errno;
		release(tracer);
	}
	return tracer->error;
}

static int await_start(struct tracer *tracer, int timeout_ms)
{
	int got = tracer->has_started ? 1 : wire_out_take(&tracer->wire, timeout_ms);

	if (!tracer->error && got <= 0 && !tracer->has_started)
		tracer->error = got < 0 ? got : -WM_E_TRAIL_ENDED;
	if (!tracer->error)
		tracer->error = tracer->wire.error;
	if (!tracer->error && !tracer->has_started && ticks_monotonic_ns() > tracer->start_end_ns)
		tracer->error = -ETIMEDOUT;
	if (tracer->error)
		release(tracer);
	return tracer->error ? tracer->error : !tracer->has_started;
}

static int start(struct tracer *tracer, struct trail_sink *sink, const struct tracing_how *how,
		 int gate, pid_t only)
{
	int err = begin(tracer, sink, how, gate, only), more = 1;

	while (!err && more > 0)
		more = await_start(tracer, TAKE_MS);
	return err ? err : more;
}

int tracer_launch(struct tracer *tracer, struct trail_sink *sink, const struct tracing_how *how,
		  const char *path, char *const argv[])
{
	int gate, err;

	*tracer = (struct tracer){ .fd = -1 };
	tracer->pid = gate_fork(&gate, how->origin == ORIGIN_SOFT ? soft_become : gate_become, path,
				argv, how->environment);
	if (tracer->pid < 0)
		return tracer->pid;
	err = start(tracer, sink, how, gate, 0);
	close(gate);
	/* it has ended by itself if the gate was never opened, or it was ended */
	if (err) {
		kill(tracer->pid, SIGKILL);
		while (waitpid(tracer->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return err;
}

int tracer_attach(struct tracer *tracer, struct trail_sink *sink, const struct tracing_how *how,
		  pid_t pid, pid_t only)
{
	*tracer = (struct tracer){ .pid = pid, .fd = -1 };
	return start(tracer, sink, how, -1, only);
}

int tracer_attach_begin(struct tracer *tracer, struct trail_sink *sink,
			const struct tracing_how *how, pid_t pid)
{
	*tracer = (struct tracer){ .pid = pid, .fd = -1 };
	return begin(tracer, sink, how, -1, 0);
}

int tracer_attach_look(struct tracer *tracer)
{
	return await_start(tracer, 0);
}

/* Whether it could be sent. */
static int order(const struct tracer *tracer, char byte)
{
	return send(tracer->fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

void tracer_go(struct tracer *tracer)
{
	order(tracer, ORDER_GO);
}

int tracer_fetch(struct tracer *tracer)
{
	return order(tracer, ORDER_FETCH);
}

void tracer_discard(struct tracer *tracer)
{
	__atomic_store_n(&tracer->wire.is_frozen, 1, __ATOMIC_RELAXED);
	order(tracer, ORDER_DISCARD);
}

/* 1, 0, or what became wrong. */
static int tracee_take(struct tracer *tracer, int timeout_ms)
{
	int got = tracer->is_over ? 0 : wire_out_take(&tracer->wire, timeout_ms);

	if (!tracer->error && got <= 0 && !tracer->is_over)
		tracer->error = got < 0 ? got : -WM_E_TRAIL_ENDED;
	if (!tracer->error)
		tracer->error = tracer->wire.error;
	return tracer->error ? tracer->error : !tracer->is_over;
}

int tracer_pump(struct tracer *tracer)
{
	return tracee_take(tracer, 0);
}

void tracer_ask(struct tracer *tracer)
{
	tracer->wire.takes_all = 1;
	if (tracer->fd >= 0 && !tracer->is_over)
		shutdown(tracer->fd, SHUT_WR);
}

int tracer_take_rest(struct tracer *tracer)
{
	return tracer->fd >= 0 && !tracer->is_over && wire_out_take(&tracer->wire, 0) > 0 &&
	       !tracer->is_over;
}

int tracer_stop(struct tracer *tracer)
{
	uint64_t end_ns = ticks_monotonic_ns() + STOP_MS * UINT64_C(1000000);

	tracer_ask(tracer);
	if (tracer->fd >= 0 && !tracer->is_over) {
		/* also what comes after an error of the sink: else it would wait for room */
		while (!tracer->is_over && wire_out_take(&tracer->wire, TAKE_MS) > 0 &&
		       ticks_monotonic_ns() < end_ns)
			;
		tracee_take(tracer, 0);
	}
	if (!tracer->is_over && tracer->process > 0 && tracer->fd >= 0) {
		/* it sees that we are gone */
		shutdown(tracer->fd, SHUT_RDWR);
		tracer->process = 0;
	}
	release(tracer);
	return tracer->error ? tracer->error : tracer->wire.error;
}
