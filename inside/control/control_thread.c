/* SPDX-License-Identifier: MIT */
#include "inside/control/control_thread.h"

#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/control/agent_session.h"
#include "inside/control/detours.h"
#include "inside/control/handler_objects.h"
#include "inside/control/listen.h"
#include "inside/control/session_table.h"
#include "inside/control/stopper_client.h"
#include "inside/control/wait.h"
#include "inside/detour/detour.h"
#include "inside/detour/foreign_bytes.h"
#include "inside/detour/hook.h"
#include "inside/detour/janitor.h"
#include "inside/marker/careful.h"
#include "inside/marker/cost.h"
#include "inside/marker/cost_counters.h"
#include "inside/marker/marker.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/idle.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/reentrancy_guard.h"
#include "inside/runtime/seccomp_yield.h"
#include "inside/runtime/tasks.h"
#include "inside/store/arena.h"
#include "inside/store/event_store.h"
#include "inside/watch/watch.h"

#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <waymark/error.h>

#define TICK_MS 250
#define ROWS_TICKS 4
#define ROWS_MS 20 /* the others' pages need not wait for a thread in a long hit */
#define PERMITS_MS_MIN 1
#define PERMITS_MS_MAX                                                                             \
	16 /* while no thread asks: 60 wakes a second, under the block policy alone */
#define GREET_MS 10000
#define LIFE_LOCK_MS 1000
#define SCAN_MORE_MS 500 /* a program waits longer than the control thread */
#define SEEN_WAIT_NS (CONTROL_SEEN_WAIT_MS * UINT64_C(1000000))
#define LATE_MS 200
#define AGENT_LOCK_MS 1000
#define REAP_MS 200
#define YIELD_MS 200 /* for the lock, and for hits to end */
#define HANDLED_TRIES 20
#define HANDLED_PAUSE_NS 500000
#define STACK_BYTES ((size_t)256 * 1024)

/* The launched program ran without GO: NO -> ASKED by its thread, ASKED -> TOLD: tools know. */
enum control_late_state { LATE_NO = 0, LATE_ASKED, LATE_TOLD };

/* Under the lock of control_life, where threads share it. */
static struct {
	uint32_t wants;
	unsigned int flags;
	sigset_t creator_mask;
	char tools[SESSIONS_MAX][SESSION_PATH_BYTES];
	unsigned int tool_count;
	uint32_t late;
	uint32_t scans_asked, scans_done;
	int32_t listens; /* 1, or the error why it does not; 0: not tried */
} control;

static struct text control_text = { .fd = -1 };

int control_listens(void)
{
	return __atomic_load_n(&control.listens, __ATOMIC_ACQUIRE);
}

int control_add_tool(const char *path)
{
	if (control.tool_count == SESSIONS_MAX || strlen(path) >= SESSION_PATH_BYTES)
		return -ENAMETOOLONG;
	strcpy(control.tools[control.tool_count++], path);
	return 0;
}

/* The program may end at once: its tools are to know before. */
static void report_late(void)
{
	uint64_t end_ns = lock_now_ns() + (uint64_t)LATE_MS * 1000000, now_ns;

	if (lock_take(&control_life.lock, LATE_MS))
		return;
	__atomic_store_n(&control.late, LATE_ASKED, __ATOMIC_RELEASE);
	control_wake_locked();
	lock_release(&control_life.lock);
	while (__atomic_load_n(&control.late, __ATOMIC_ACQUIRE) == LATE_ASKED && control_runs() &&
	       (now_ns = lock_now_ns()) < end_ns)
		lock_wait_word(&control.late, LATE_ASKED,
			       (unsigned int)((end_ns - now_ns) / 1000000 + 1));
}

int control_wait_go(unsigned int usual_ms, unsigned int most_ms)
{
	int error = wait_go(usual_ms, most_ms);

	if (error)
		report_late();
	return error;
}

/* ---- the thread's own ---- */

/*
 * A tool that brought the agent in is waited for. It may have been killed meanwhile, so the loader
 * is diverted once it opens a session.
 */
static int is_hook_due;

static int scan_is_due; /* the last one could not be done */

/* Learn the modules, divert the loader, patch what is wanted from the start. */
static int prepare(int prearm)
{
	const uint32_t lasting = CONTROL_WANT_LISTEN | CONTROL_WANT_CONNECT;
	int error = lock_take(&agent_lock, AGENT_LOCK_MS);

	if (error)
		return error;
	error = text_open(&control_text);
	if (!error) {
		stopper_begin();
		session_init(&control_text);
		is_hook_due = !(__atomic_load_n(&control.wants, __ATOMIC_ACQUIRE) & lasting);
		if (!is_hook_due)
			hook_place(&control_text, control_loader_changed);
		scan_is_due = session_scan() != 0;
		if (prearm)
			registry_prearm(&control_text);
	}
	lock_release(&agent_lock);
	return error;
}

static uint32_t scanned; /* what was asked when it was done */
static uint64_t seen_since_ns;

/* The thread that asked continues once the sessions with watches have seen its modules. */
static void scan_if_asked(void)
{
	uint32_t asked = __atomic_load_n(&control.scans_asked, __ATOMIC_ACQUIRE);

	if (asked == control.scans_done)
		return;
	if (asked != scanned) {
		seen_since_ns = lock_now_ns();
		scan_is_due = session_rescan() != 0;
		DEBUG_TRACE("agent/control", "modules changed, scan %d: again %d", asked,
			    scan_is_due);
		scanned = asked;
	}
	if (session_any_pending() && lock_now_ns() < seen_since_ns + SEEN_WAIT_NS)
		return;
	session_forgive_seen();
	__atomic_store_n(&control.scans_done, asked, __ATOMIC_RELEASE);
	lock_wake_word(&control.scans_done);
}

static void place_due_hook(void)
{
	if (!is_hook_due || !session_any_opened() || lock_take(&agent_lock, AGENT_LOCK_MS))
		return;
	is_hook_due = 0;
	hook_place(&control_text, control_loader_changed);
	lock_release(&agent_lock);
	/* modules may have come since the last scan */
	scan_is_due = session_rescan() != 0;
}

static void report_if_late(void)
{
	if (__atomic_load_n(&control.late, __ATOMIC_ACQUIRE) != LATE_ASKED)
		return;
	session_forgive_go();
	__atomic_store_n(&control.late, LATE_TOLD, __ATOMIC_RELEASE);
	lock_wake_word(&control.late);
}

static int has_left; /* control_is_last(), as of the last tick */

/* A tool that is killed loses the rows of one second. */
static void turn_rows(void)
{
	static unsigned int ticks;

	if (++ticks % ROWS_TICKS == 0)
		store_rows_turn(ROWS_MS);
}

static void tick(void)
{
	has_left = control_is_last();
	listen_tick();
	store_sweep();
	session_tick();
	planning_reap(0, 0);
	cost_counters_reap(0);
	turn_rows();
	if (!hook_is_placed() || scan_is_due)
		scan_is_due = session_rescan() != 0;
	if (!lock_take(&agent_lock, AGENT_LOCK_MS)) {
		if (!registry_is_frozen(&control_text))
			registry_retry(&control_text);
		if (!registry_is_frozen(&control_text))
			detours_tick(&control_text);
		lock_release(&agent_lock);
	}
	if (!session_count() && !detour_waits())
		stopper_release();
}

static uint32_t yield_begun; /* what the tools were notified for */

/* What came before may be in hand still, by threads that are to have the filter, too. */
static int is_no_trap_pending(void)
{
	for (int tries = 0; janitor_look(&control_text) == -EAGAIN; tries++) {
		if (tries == HANDLED_TRIES)
			return 0;
		kernel_sleep_ns(HANDLED_PAUSE_NS);
	}
	return 1;
}

/*
 * Do what a thread waits for that is about to put a filter in place
 * (inside/runtime/seccomp_yield.h).
 */
static void serve_yield(void)
{
	uint32_t now;
	int is_over;

	if (!seccomp_yield_is_pending(&now) || lock_take(&agent_lock, YIELD_MS))
		return;
	if (yield_begun != now) {
		DEBUG_TRACE("agent/control", "the program sets a filter: for all %d",
			    seccomp_yield_is_for_all());
		yield_begun = now;
		careful_allow(0);
		cost_allow(0);
		watch_yield(seccomp_yield_is_for_all() == -WM_E_CAPABILITIES ? -WM_E_CAPABILITIES
									     : -WM_E_TRAP_FILTER);
	}
	is_over = !watch_any_live() && (!seccomp_yield_is_for_all() || is_no_trap_pending());
	lock_release(&agent_lock);
	/* a hit of another thread may be about to make a system call */
	if (is_over && seccomp_yield_is_for_all())
		is_over = !store_quiesce(YIELD_MS, 0);
	if (is_over)
		seccomp_yield_done(now);
}

struct permits {
	int tasks;
	int asked;
};

/* By its number in its own namespace, whatever /proc counts in. */
static int is_free_of_filters(const struct permits *permits, int32_t tid)
{
	static char status[TASKS_STATUS_BYTES];
	const char *mode;
	char name[16];

	snprintf(name, sizeof name, "%d", (int)tid);
	if (tasks_read_status(permits->tasks, name, status))
		return 0;
	mode = tasks_value(status, "\nSeccomp:");
	return mode[0] == '0' && mode[1] == '\n' &&
	       tasks_last_number(tasks_value(status, "\nNSpid:")) == tid;
}

static void answer_permit(struct writer *writer, void *data)
{
	uint32_t permit = __atomic_load_n(&writer->permit, __ATOMIC_ACQUIRE);
	struct permits *permits = data;
	int is_free;

	if ((permit & PERMIT_STATE) != PERMIT_ASKED)
		return;
	permits->asked++;
	if (permits->tasks < 0)
		permits->tasks = kernel_open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_free = permits->tasks >= 0 && is_free_of_filters(permits, writer->tid);
	__atomic_compare_exchange_n(&writer->permit, &permit,
				    permit - PERMIT_ASKED +
					    (is_free ? PERMIT_GIVEN : PERMIT_REFUSED),
				    0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/*
 * Whether threads that wait for room may sleep: answer all that ask, if any store has writers that
 * may wait (inside/store/thread_writer.h). Returns after how many milliseconds to come again, -1:
 * not of itself.
 */
static int give_permits(void)
{
	static int again_ms = PERMITS_MS_MAX;
	struct permits permits = { .tasks = -1 };

	if (!store_any_blocks())
		return -1;
	arena_each(answer_permit, &permits);
	if (permits.tasks >= 0)
		kernel_close(permits.tasks);
	again_ms = permits.asked ? PERMITS_MS_MIN : again_ms * 2;
	again_ms = again_ms < PERMITS_MS_MAX ? again_ms : PERMITS_MS_MAX;
	return again_ms;
}

/* One round. Returns when something happened, or at the next tick. */
static void wait_and_serve(int wake_fd, uint64_t *next_tick_ns)
{
	struct pollfd fds[SESSIONS_MAX + 2];
	struct signalfd_siginfo info;
	uint64_t now_ns = lock_now_ns();
	int wait_ms = foreign_bytes_wait_ms(now_ns, *next_tick_ns);
	int permits_ms = give_permits(), is_tick;

	_Static_assert(SESSIONS_MAX + 2 <= IDLE_FDS_MAX, "all that is rested on");
	if (permits_ms >= 0 && permits_ms < wait_ms)
		wait_ms = permits_ms;
	report_if_late(); /* asked before there was a thread to wake */
	serve_yield();
	session_poll_fds(fds);
	fds[SESSIONS_MAX] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
	fds[SESSIONS_MAX + 1] = (struct pollfd){ .fd = listen_poll_fd(), .events = POLLIN };
	if (idle_poll(fds, SESSIONS_MAX + 2, wait_ms) > 0) {
		/* if it fails, that wake was answered already */
		if (fds[SESSIONS_MAX].revents)
			(void)!kernel_read(wake_fd, &info, sizeof info);
		scan_if_asked();
		session_serve(fds);
		scan_if_asked();
		report_if_late();
		if (fds[SESSIONS_MAX + 1].revents)
			listen_accept();
	}
	objects_serve();
	cost_counters_serve();
	now_ns = lock_now_ns();
	is_tick = now_ns >= *next_tick_ns;
	foreign_bytes_tick(&control_text, now_ns, is_tick);
	if (is_tick) {
		scan_if_asked();
		tick();
		*next_tick_ns = lock_now_ns() + (uint64_t)TICK_MS * 1000000;
	}
}

/* Take what was asked since the last look. Returns all wants. */
static uint32_t take_wants(uint64_t *greet_until_ns)
{
	uint32_t wants = __atomic_load_n(&control.wants, __ATOMIC_ACQUIRE);

	if (wants & CONTROL_WANT_CONNECT) {
		__atomic_and_fetch(&control.wants, ~CONTROL_WANT_CONNECT, __ATOMIC_ACQ_REL);
		for (unsigned int i = 0; i < control.tool_count; i++) {
			int error = listen_connect(control.tools[i], control.flags);

			DEBUG_TRACE("agent/control", "connect to %s: error %d",
				    (long)control.tools[i], error);
			if (error)
				session_unreached(control.tools[i], error);
		}
		if (!session_any_awaits_go())
			wait_go_over(); /* no tool is to let the program go */
	}
	if (wants & CONTROL_WANT_GREET) {
		__atomic_and_fetch(&control.wants, ~CONTROL_WANT_GREET, __ATOMIC_ACQ_REL);
		*greet_until_ns = lock_now_ns() + (uint64_t)GREET_MS * 1000000;
	}
	if (wants & (CONTROL_WANT_LISTEN | CONTROL_WANT_GREET) && listen_fd() < 0) {
		int error = listen_open();

		DEBUG_TRACE("agent/control", "listen: error %d", error);
		if (error)
			*greet_until_ns = 0; /* no tool can come */
		__atomic_store_n(&control.listens, error ? error : 1, __ATOMIC_RELEASE);
		lock_wake_word((uint32_t *)&control.listens);
	}
	return wants;
}

static void run(int wake_fd)
{
	uint64_t greet_until_ns = 0, next_tick_ns = lock_now_ns() + (uint64_t)TICK_MS * 1000000;
	int ever = 0, why;

	for (;;) {
		uint32_t wants = take_wants(&greet_until_ns);

		/* one who only asks does not send away the tool that is being waited for */
		if (session_any_opened())
			ever = 1;
		else if (ever)
			greet_until_ns = 0;
		if (!session_count() && !(wants & CONTROL_WANT_LISTEN && listen_fd() >= 0) &&
		    lock_now_ns() >= greet_until_ns && !detour_waits() && !watch_waits() &&
		    !objects_are_busy())
			return;
		why = seccomp_yield_takes_all();
		if (why) {
			DEBUG_TRACE("agent/control", "yields to a filter: error %d", why);
			__atomic_store_n(&control.wants, 0, __ATOMIC_RELEASE);
			session_refuse_all(why);
			return;
		}
		if (has_left)
			return;
		wait_and_serve(wake_fd, &next_tick_ns);
		place_due_hook();
	}
}

/* Leave everything as if we had never been here. */
static void clean_up(void)
{
	session_drop_all();
	listen_close();
	cost_counters_reap(REAP_MS);
	if (!lock_take(&agent_lock, AGENT_LOCK_MS)) {
		registry_listen(NULL);
		registry_retry(&control_text);
		detour_disarm_idle(&control_text, 0, NULL);
		stopper_release();
		if (!registry_waits())
			hook_remove(&control_text);
		text_release(&control_text);
		lock_release(&agent_lock);
	}
}

/* RUNNING -> NONE, unless more is wanted meanwhile: then it stays. */
static int may_end(void)
{
	int ends;

	while (lock_take(&control_life.lock, LIFE_LOCK_MS))
		;
	/*
	 * LISTEN that came when it was ending already; one that can't be had is no reason to stay
	 */
	ends = !(control.wants & (CONTROL_WANT_CONNECT | CONTROL_WANT_GREET)) &&
	       !(control.wants & CONTROL_WANT_LISTEN && control.listens >= 0);
	ends |= has_left;
	if (ends) {
		control_life.tid = 0;
		control.wants = 0;
		__atomic_store_n(&control_life.state, CONTROL_NONE, __ATOMIC_RELEASE);
	}
	lock_release(&control_life.lock);
	return ends;
}

/* The control thread can't do its work. Report it to the tools of a launched program. */
static void give_up(int why)
{
	unsigned int count = control.wants & CONTROL_WANT_CONNECT ? control.tool_count : 0;

	DEBUG_TRACE("agent/control", "gives up: error %d, %d tools", why, count);
	for (unsigned int i = 0; i < count; i++) {
		if (control.flags & SESSION_FORKED)
			session_unreached(control.tools[i], why);
		else
			listen_refuse(control.tools[i], why);
	}
	__atomic_store_n(&control.wants, 0, __ATOMIC_RELEASE);
}

static void *control_main(void *unused)
{
	int wake_fd, error;

	(void)unused;
	reentrancy_guard_at = REENTRANCY_GUARD_FOR_GOOD; /* what this thread does is no event */
	control_block_signals();
	arena_learn_stacks();
	error = control_unshare_descriptors();
	if (error) {
		do
			give_up(error);
		while (!may_end());
		wait_go_over();
		return NULL;
	}
	kernel_call(SYS_prctl, PR_SET_NAME, (long)"waymark", (long)CONTROL_NAMED, 0);
	control_life.seccomp = (int)kernel_call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0);
	wake_fd = control_wake_fd();
	while (lock_take(&control_life.lock, LIFE_LOCK_MS))
		;
	control_life.tid = kernel_gettid();
	__atomic_store_n(&control_life.state, CONTROL_RUNNING, __ATOMIC_RELEASE);
	lock_release(&control_life.lock);
	do {
		DEBUG_TRACE("agent/control", "thread runs: wants %x, flags %x, seccomp %d",
			    control.wants, control.flags, control_life.seccomp);
		error = prepare(control.flags & CONTROL_PREARM);
		if (error)
			give_up(error);
		else
			run(wake_fd);
		clean_up();
	} while (!may_end());
	DEBUG_TRACE("agent/control", "thread ends: last of the process %d", has_left);
	kernel_call(SYS_close_range, 0, ~0u, 0, 0);
	/* threads that wait for us can stop waiting */
	wait_go_over();
	__atomic_store_n(&control.scans_done,
			 __atomic_load_n(&control.scans_asked, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
	lock_wake_word(&control.scans_done);
	return NULL;
}

/* ---- the keeper, and starting ---- */

static int make_thread(void *(*main)(void *), pthread_t *thread)
{
	pthread_attr_t attributes;
	size_t bytes = STACK_BYTES;
	int error;

	/* thread-local storage counts as stack: a program may have much of it */
	do {
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, bytes);
		error = pthread_create(thread, &attributes, main, NULL);
		pthread_attr_destroy(&attributes);
		bytes *= 8;
	} while (error == EINVAL && bytes < (size_t)1 << 32);
	return -error;
}

static void *keeper_main(void *unused)
{
	pthread_t thread;
	int error;

	(void)unused;
	reentrancy_guard_at = REENTRANCY_GUARD_FOR_GOOD;
	control_keeper = kernel_gettid();
	kernel_call(SYS_prctl, PR_SET_NAME, (long)"waymark-keeper", (long)CONTROL_NAMED, 0);
	error = make_thread(control_main, &thread);
	if (error) {
		do
			give_up(error);
		while (!may_end());
		wait_go_over();
		return NULL;
	}
	pthread_join(thread, NULL);
	/* the program's exit handlers may run in this thread */
	reentrancy_guard_at = 0;
	pthread_sigmask(SIG_SETMASK, &control.creator_mask, NULL);
	return NULL;
}

/*
 * Under the lock of control_life, whose holder's signals are held off: the creator's own mask is
 * that of before.
 */
static int make_keeper(void)
{
	sigset_t all, before;
	pthread_t keeper;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	control.creator_mask = before;
	memcpy(&control.creator_mask, &control_life.lock.holder.signals_before,
	       sizeof control_life.lock.holder.signals_before);
	error = make_thread(keeper_main, &keeper);
	if (!error)
		pthread_detach(keeper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

int control_start(uint32_t wants, unsigned int flags)
{
	int error = lock_take(&control_life.lock, LIFE_LOCK_MS);

	if (error)
		return error;
	__atomic_or_fetch(&control.wants, wants, __ATOMIC_ACQ_REL);
	control.flags |= flags;
	if (control_life.state != CONTROL_NONE) {
		control_wake_locked();
	} else {
		wait_go_begin();
		__atomic_store_n(&control.listens, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&control.late, LATE_NO, __ATOMIC_RELEASE);
		__atomic_store_n(&control_life.state, CONTROL_STARTING, __ATOMIC_RELEASE);
		error = make_keeper();
		if (error) {
			control.wants = 0;
			__atomic_store_n(&control_life.state, CONTROL_NONE, __ATOMIC_RELEASE);
		}
	}
	lock_release(&control_life.lock);
	return error;
}

/* In this thread, for the program's own probes. */
static void follow_here(void)
{
	struct text text;

	if (lock_take(&agent_lock, AGENT_LOCK_MS))
		return;
	if (!text_open(&text)) {
		if (!registry_scan(&text))
			registry_follow(&text);
		text_release(&text);
	}
	lock_release(&agent_lock);
}

/* The control thread does it; true if it was asked, and is done or took too long. */
static int follow_there(void)
{
	uint64_t end_ns = lock_now_ns() + SEEN_WAIT_NS + (uint64_t)SCAN_MORE_MS * 1000000;
	uint32_t mine, done;

	if (lock_take(&control_life.lock, LIFE_LOCK_MS))
		return 1;
	if (!control_life.tid) {
		/* it will scan when it has started */
		int starting = control_life.state == CONTROL_STARTING;

		lock_release(&control_life.lock);
		return starting;
	}
	mine = __atomic_add_fetch(&control.scans_asked, 1, __ATOMIC_ACQ_REL);
	control_wake_locked();
	lock_release(&control_life.lock);
	for (;;) {
		uint64_t now_ns = lock_now_ns();

		done = __atomic_load_n(&control.scans_done, __ATOMIC_ACQUIRE);
		if ((int32_t)(done - mine) >= 0 || now_ns >= end_ns || !control_runs())
			return 1;
		lock_wait_word(&control.scans_done, done,
			       (unsigned int)((end_ns - now_ns) / 1000000 + 1));
	}
}

void control_loader_changed(int state)
{
	if (state == RT_DELETE) {
		/* what is being patched is finished; nothing more begins (registry_is_frozen) */
		if (!lock_take(&agent_lock, AGENT_LOCK_MS))
			lock_release(&agent_lock);
	} else if (state == RT_CONSISTENT && !lock_is_mine(&agent_lock)) {
		if (!follow_there())
			follow_here();
	}
}

void control_forked(void)
{
	control_life.lock = (struct lock){ 0 };
	control_life.state = CONTROL_NONE;
	control_life.tid = 0;
	control.wants = 0;
	control.flags = 0;
	control.tool_count = 0;
	control.listens = 0;
	control.late = LATE_NO;
	wait_forked();
	yield_begun = 0;
	seccomp_yield_forked();
	has_left = scan_is_due = 0;
	control_text.fd = -1; /* was never in this table */
	stopper_forked();
	listen_forked();
}
