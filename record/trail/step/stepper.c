/* SPDX-License-Identifier: MIT */
#include "record/trail/step/stepper.h"

#include "record/trail/launch_gate.h"
#include "record/trail/soft/soft_launch.h"
#include "record/trail/soft/soft_leave.h"
#include "record/trail/step/endure.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define OWNER_END_S 10 /* after the end of the owner */
#define RUN_MS 3       /* between looks at requests */
#define LET_GO_MS 2000
#define START_MS 30000 /* to be seized; it is not long, but on a machine that does other things */
#define STOP_MS 10000  /* to be let go of */
#define TAKE_MS 100

enum { STARTED, OVER, FETCHED };

/* Requests to the process, a byte each; the socket's end: let the program go. */
enum { ORDER_GO = 'g', ORDER_FETCH = 'f', ORDER_DISCARD = 'd' };
enum asked { ASKED_NOTHING, ASKED_FETCH, ASKED_END, ASKED_DISCARD };

/* What the process says of itself. */
struct stepper_note {
	int32_t what;
	int32_t error;
	int32_t left; /* threads */
	struct step_result result;
	char detail[TRACING_DETAIL_BYTES];
};

_Static_assert(sizeof(struct stepper_note) <= WIRE_NOTE_MAX, "it is sent as one");

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

static void report(struct wire_in *in, const struct stepper_note *note)
{
	wire_in_note(in, note, sizeof(*note));
}

/* Report by its name a requested module that no process had. */
static void tell_missing(struct stepper_note *note, const struct only *only)
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
	const struct stepper_note note = { .what = FETCHED };
	int err = calls->fetch ? calls->fetch(tracing) : 0;

	if (!err)
		report(in, &note);
	return err;
}

static void follow(const struct tracing_calls *calls, struct tracing *tracing, struct wire_in *in,
		   const struct only *only)
{
	struct stepper_note note = { .what = OVER };
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
	struct stepper_note note = { .what = STARTED };
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
	prctl(PR_SET_NAME, "waymark-step");
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
	struct stepper *stepper = data;
	struct stepper_note note;

	if (count != sizeof(note))
		return;
	memcpy(&note, bytes, sizeof(note));
	if (note.what == FETCHED) {
		stepper->fetched++;
		return;
	}
	stepper->has_started |= note.what == STARTED;
	stepper->is_over |= note.what == OVER;
	stepper->result = note.result;
	stepper->left = note.left;
	memcpy(stepper->detail, note.detail, sizeof(stepper->detail));
	stepper->detail[sizeof(stepper->detail) - 1] = '\0';
	if (!stepper->error && note.error < 0)
		stepper->error = note.error;
}

static void reap(struct stepper *stepper)
{
	/*
	 * one that still waits to let a thread go is left to that, and is init's to reap, or ours
	 * when it is done
	 */
	if (stepper->process > 0)
		waitpid(stepper->process, NULL, stepper->left ? WNOHANG : 0);
	stepper->process = 0;
}

static void release(struct stepper *stepper)
{
	wire_out_release(&stepper->wire);
	if (stepper->fd >= 0)
		close(stepper->fd);
	stepper->fd = -1;
	reap(stepper);
}

static int begin(struct stepper *stepper, struct trail_sink *sink, const struct tracing_how *how,
		 int gate, pid_t only)
{
	pid_t owner = getpid();
	int by_first = owner == gettid();
	int ends[2];

	stepper->start_end_ns = ticks_monotonic_ns() + START_MS * UINT64_C(1000000);
	stepper->fd = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return stepper->error = -errno;
	stepper->process = fork();
	if (!stepper->process)
		serve(ends[1], how, stepper->pid, gate, only, owner, by_first);
	close(ends[1]);
	stepper->fd = ends[0];
	wire_out_init(&stepper->wire, ends[0], sink);
	stepper->wire.on_note = on_note;
	stepper->wire.data = stepper;
	if (stepper->process < 0) {
		stepper->error = -errno;
		release(stepper);
	}
	return stepper->error;
}

static int await_start(struct stepper *stepper, int timeout_ms)
{
	int got = stepper->has_started ? 1 : wire_out_take(&stepper->wire, timeout_ms);

	if (!stepper->error && got <= 0 && !stepper->has_started)
		stepper->error = got < 0 ? got : -WM_E_TRAIL_ENDED;
	if (!stepper->error)
		stepper->error = stepper->wire.error;
	if (!stepper->error && !stepper->has_started &&
	    ticks_monotonic_ns() > stepper->start_end_ns)
		stepper->error = -ETIMEDOUT;
	if (stepper->error)
		release(stepper);
	return stepper->error ? stepper->error : !stepper->has_started;
}

static int start(struct stepper *stepper, struct trail_sink *sink, const struct tracing_how *how,
		 int gate, pid_t only)
{
	int err = begin(stepper, sink, how, gate, only), more = 1;

	while (!err && more > 0)
		more = await_start(stepper, TAKE_MS);
	return err ? err : more;
}

int stepper_launch(struct stepper *stepper, struct trail_sink *sink, const struct tracing_how *how,
		   const char *path, char *const argv[])
{
	int gate, err;

	*stepper = (struct stepper){ .fd = -1 };
	stepper->pid = gate_fork(&gate, how->origin == ORIGIN_SOFT ? soft_become : gate_become,
				 path, argv, how->environment);
	if (stepper->pid < 0)
		return stepper->pid;
	err = start(stepper, sink, how, gate, 0);
	close(gate);
	/* it has ended by itself if the gate was never opened, or it was ended */
	if (err) {
		kill(stepper->pid, SIGKILL);
		while (waitpid(stepper->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return err;
}

int stepper_attach(struct stepper *stepper, struct trail_sink *sink, const struct tracing_how *how,
		   pid_t pid, pid_t only)
{
	*stepper = (struct stepper){ .pid = pid, .fd = -1 };
	return start(stepper, sink, how, -1, only);
}

int stepper_attach_begin(struct stepper *stepper, struct trail_sink *sink,
			 const struct tracing_how *how, pid_t pid)
{
	*stepper = (struct stepper){ .pid = pid, .fd = -1 };
	return begin(stepper, sink, how, -1, 0);
}

int stepper_attach_look(struct stepper *stepper)
{
	return await_start(stepper, 0);
}

/* Whether it could be sent. */
static int order(const struct stepper *stepper, char byte)
{
	return send(stepper->fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

void stepper_go(struct stepper *stepper)
{
	order(stepper, ORDER_GO);
}

int stepper_fetch(struct stepper *stepper)
{
	return order(stepper, ORDER_FETCH);
}

void stepper_discard(struct stepper *stepper)
{
	__atomic_store_n(&stepper->wire.is_frozen, 1, __ATOMIC_RELAXED);
	order(stepper, ORDER_DISCARD);
}

/* 1, 0, or what became wrong. */
static int tracee_take(struct stepper *stepper, int timeout_ms)
{
	int got = stepper->is_over ? 0 : wire_out_take(&stepper->wire, timeout_ms);

	if (!stepper->error && got <= 0 && !stepper->is_over)
		stepper->error = got < 0 ? got : -WM_E_TRAIL_ENDED;
	if (!stepper->error)
		stepper->error = stepper->wire.error;
	return stepper->error ? stepper->error : !stepper->is_over;
}

int stepper_pump(struct stepper *stepper)
{
	return tracee_take(stepper, 0);
}

void stepper_ask(struct stepper *stepper)
{
	stepper->wire.takes_all = 1;
	if (stepper->fd >= 0 && !stepper->is_over)
		shutdown(stepper->fd, SHUT_WR);
}

int stepper_take_rest(struct stepper *stepper)
{
	return stepper->fd >= 0 && !stepper->is_over && wire_out_take(&stepper->wire, 0) > 0 &&
	       !stepper->is_over;
}

int stepper_stop(struct stepper *stepper)
{
	uint64_t end_ns = ticks_monotonic_ns() + STOP_MS * UINT64_C(1000000);

	stepper_ask(stepper);
	if (stepper->fd >= 0 && !stepper->is_over) {
		/* also what comes after an error of the sink: else it would wait for room */
		while (!stepper->is_over && wire_out_take(&stepper->wire, TAKE_MS) > 0 &&
		       ticks_monotonic_ns() < end_ns)
			;
		tracee_take(stepper, 0);
	}
	if (!stepper->is_over && stepper->process > 0 && stepper->fd >= 0) {
		/* it sees that we are gone */
		shutdown(stepper->fd, SHUT_RDWR);
		stepper->process = 0;
	}
	release(stepper);
	return stepper->error ? stepper->error : stepper->wire.error;
}
