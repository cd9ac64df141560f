/* SPDX-License-Identifier: MIT */
#include "base/debug_trace.h"
#include "inside/engine/channel.h"
#include "inside/engine/child_process.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/leave.h"
#include "inside/engine/log.h"
#include "inside/engine/sys.h"
#include "inside/engine/thread_words.h"

#include <errno.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/prctl.h>

/*
 * Of a tool that does not answer, in naps (channel_wait()): they take longer where everybody gets
 * little time.
 */
#define MEETING_POLLS 40
#define PATIENCE_POLLS 400
#define TRACE_POLLS 1200 /* the tool waits for the other process for 2 s */
/* Of a tracer that is about to make its call. It looks every millisecond, but may be stopped. */
#define SEIZE_POLLS 100

static uint32_t is_apart;
static uint32_t has_asked; /* one of our threads is about to execute a program */
static uint32_t traces;	   /* or to trace a thread */
static uint32_t unmet;	   /* children since process_meet() */
static uint32_t children;  /* of this process, from a number of its own; 0: none yet */

int process_follows(void)
{
	return channel.follows && !__atomic_load_n(&is_apart, __ATOMIC_RELAXED);
}

void process_is_apart(void)
{
	__atomic_store_n(&is_apart, 1, __ATOMIC_RELAXED);
}

static struct engine_child *entry_take(void)
{
	for (uint32_t n = 0; n < ENGINE_CHILDREN; n++) {
		struct engine_child *entry = &channel.head->children[n];
		uint32_t use = ENGINE_USE_FREE;

		if (__atomic_compare_exchange_n(&entry->use, &use, ENGINE_USE_TAKEN, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return entry;
	}
	return NULL;
}

struct engine_child *process_take(void)
{
	const uint32_t *use = &channel.head->children[0].use;
	struct engine_child *entry = entry_take();

	for (unsigned int poll_count = 0;
	     !entry && channel_has_tool() && poll_count < PATIENCE_POLLS; poll_count++) {
		channel_wait(use, __atomic_load_n(use, __ATOMIC_RELAXED));
		entry = entry_take();
	}
	return entry;
}

static enum engine_unfollowed unfollowed_cause(uint64_t flags)
{
	if (flags & CLONE_NEWPID || __atomic_load_n(&is_apart, __ATOMIC_RELAXED))
		return ENGINE_UNFOLLOWED_NAMESPACE;
	if (!channel.follows)
		return ENGINE_UNFOLLOWED_ATTACHED;
	if (flags & CLONE_VM ? !(flags & CLONE_VFORK) : flags & CLONE_FILES)
		return ENGINE_UNFOLLOWED_SHARES;
	return ENGINE_UNFOLLOWED_MANY;
}

void process_unfollowed(uint64_t flags)
{
	__atomic_add_fetch(&channel.head->unfollowed[unfollowed_cause(flags)], 1, __ATOMIC_RELAXED);
}

/* A number that no other child has, also none of an earlier process with our PID. Never 0. */
static uint64_t count_child(void)
{
	uint32_t none = 0, count;

	if (!__atomic_load_n(&children, __ATOMIC_RELAXED))
		__atomic_compare_exchange_n(&children, &none, (uint32_t)sys_ticks() | 1, 0,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	count = __atomic_add_fetch(&children, 1, __ATOMIC_RELAXED);
	return count ? count : count_child();
}

void process_made(struct thread *child, uint32_t first_id)
{
	struct engine_child *entry = child->entry;

	child->born = count_child() << 32;
	entry->born = child->born;
	entry->met = entry->ask = entry->leaving = 0;
	entry->first_id = first_id;
	entry->has_stack = child->has_stack;
	__atomic_store_n(&entry->use, ENGINE_USE_MADE, __ATOMIC_RELEASE);
}

/*
 * The tool may have found the child by itself: it may be over by now, and its entry another's.
 */
static void name(struct engine_child *entry, uint64_t born, uint64_t pid)
{
	uint64_t none = born;

	__atomic_compare_exchange_n(&entry->born, &none, born | pid, 0, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	channel_tell();
}

static void meet(const struct engine_child *entry, uint64_t born)
{
	for (unsigned int poll_count = 0; poll_count < MEETING_POLLS; poll_count++) {
		if (!channel_has_tool() ||
		    __atomic_load_n(&entry->born, __ATOMIC_RELAXED) >> 32 != born >> 32 ||
		    __atomic_load_n(&entry->use, __ATOMIC_ACQUIRE) != ENGINE_USE_MADE ||
		    __atomic_load_n(&entry->met, __ATOMIC_ACQUIRE))
			return;
		channel_wait(&entry->met, 0);
	}
}

void process_born(struct thread *child, long pid, int is_reaped)
{
	if (sys_failed(pid)) {
		__atomic_store_n(&child->entry->use, ENGINE_USE_NONE, __ATOMIC_RELEASE);
		return;
	}
	name(child->entry, child->born, (uint64_t)pid);
	if (is_reaped) {
		meet(child->entry, child->born);
		return;
	}
	__atomic_add_fetch(&unmet, 1, __ATOMIC_RELEASE);
}

/* Nothing else depends on that, so it may not take long. */
void process_meet(void)
{
	uint32_t count = __atomic_load_n(&unmet, __ATOMIC_ACQUIRE);

	if (!count)
		return;
	for (uint32_t n = 0; n < ENGINE_CHILDREN; n++) {
		const struct engine_child *entry = &channel.head->children[n];
		uint64_t born = __atomic_load_n(&entry->born, __ATOMIC_RELAXED);

		if ((uint32_t)born)
			meet(entry, born);
	}
	__atomic_compare_exchange_n(&unmet, &count, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

int process_become(const struct thread *child)
{
	int err = channel_renew((uint32_t)(child->born >> 32));

	has_asked = traces = unmet = children = 0;
	if (err)
		return err;
	thread_words_copied();
	engine_places(channel.head);
	log_restart();
	return 0;
}

void process_ends(long status)
{
	channel.head->exit_status = (uint32_t)status & 0xff;
	__atomic_store_n(&channel.head->is_ending, 1, __ATOMIC_RELEASE);
}

/* While it is `asked`; or until the tool has taken too long, or is gone: then *ask is `instead`. */
static void await(uint32_t *ask, uint32_t asked, uint32_t instead, unsigned int patience)
{
	for (unsigned int poll_count = 0; __atomic_load_n(ask, __ATOMIC_ACQUIRE) == asked;
	     poll_count++) {
		if (!channel_has_tool() || poll_count == patience) {
			__atomic_compare_exchange_n(ask, &asked, instead, 0, __ATOMIC_ACQ_REL,
						    __ATOMIC_ACQUIRE);
			return;
		}
		channel_wait(ask, asked);
	}
}

/* ---- ptrace(2) ---- */

static int seize_turn(uint32_t *seize, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(seize, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void process_leaves(void)
{
	__atomic_add_fetch(&channel.head->leaving, 1, __ATOMIC_SEQ_CST);
}

void process_left(uint32_t tid)
{
	struct engine_channel *head = channel.head;
	int is_seized = seize_turn(&head->seize, tid, ENGINE_SEIZE_WAITS);

	__atomic_sub_fetch(&head->leaving, 1, __ATOMIC_SEQ_CST);
	channel_tell();
	if (!is_seized)
		return;
	/* The tracer waits for the tool to lead a stopped process out. */
	for (unsigned int i = 0;
	     i < SEIZE_POLLS && !__atomic_load_n(&head->is_led, __ATOMIC_SEQ_CST) &&
	     __atomic_load_n(&head->seize, __ATOMIC_SEQ_CST) == ENGINE_SEIZE_WAITS;
	     i++)
		leave_poll();
	__atomic_store_n(&head->seize, 0, __ATOMIC_SEQ_CST);
}

/* Several threads may be about to trace, and the tool sees to one of them after the other. */
long process_is_traced(struct thread *thread, uint32_t tid, int seizes)
{
	struct engine_channel *head = channel.head;
	uint32_t answer;

	if (!channel.follows || !channel_has_tool())
		return 0;
	while (!lock_try(&traces))
		leave_poll();
	thread->is_tracing = 1;
	head->trace_tid = tid;
	head->trace_seizes = (uint32_t)seizes;
	__atomic_store_n(&head->trace, ENGINE_TRACE_ASKED, __ATOMIC_RELEASE);
	await(&head->trace, ENGINE_TRACE_ASKED, ENGINE_TRACE_REFUSED, TRACE_POLLS);
	answer = __atomic_load_n(&head->trace, __ATOMIC_ACQUIRE);
	DEBUG_TRACE("engine/process", "is to trace thread %d: the tool's answer %d", tid, answer);
	return answer == ENGINE_TRACE_REFUSED ? -EPERM : 0;
}

void process_traced(struct thread *thread)
{
	struct engine_channel *head = channel.head;

	thread->is_tracing = 0;
	__atomic_store_n(&head->trace,
			 head->trace_seizes ? ENGINE_TRACE_MADE : ENGINE_TRACE_NOTHING,
			 __ATOMIC_RELEASE);
	channel_tell();
	/* The tracer may stop the thread next. A stopped one does not leave: the bound. */
	await(&head->trace, ENGINE_TRACE_MADE, ENGINE_TRACE_NOTHING, MEETING_POLLS);
	lock_give(&traces);
}

/* ---- execve(2) ---- */

static void ask(uint32_t *ask, enum engine_ask what)
{
	uint32_t tracer = channel.control->tracer;

	/* Yama lets a stranger trace only those that name it. */
	if (tracer)
		sys_call3(SYS_prctl, PR_SET_PTRACER, tracer, 0);
	__atomic_store_n(ask, what, __ATOMIC_RELEASE);
	await(ask, what, ENGINE_ASK_NOTHING, PATIENCE_POLLS);
}

void process_shares_memory(const struct thread *child)
{
	struct engine_child *entry = child->entry;

	__atomic_store_n(&entry->leaving, 1, __ATOMIC_SEQ_CST);
	name(entry, child->born, (uint64_t)sys_call3(SYS_getpid, 0, 0, 0));
	if (channel_has_tool())
		ask(&entry->ask, ENGINE_ASK_CHILD);
}

void process_shared_memory(const struct thread *child)
{
	if (child->entry && !child->is_copy)
		__atomic_store_n(&child->entry->leaving, 0, __ATOMIC_SEQ_CST);
}

void process_executes(const struct thread *thread)
{
	static const uint8_t order[] = { 7, 6, 2, 10, 8 };
	struct engine_channel *head = channel.head;

	if (!process_follows() || !channel_has_tool() || !lock_try(&has_asked))
		return;
	DEBUG_TRACE("engine/process", "asks the tool for the next program, call %d",
		    thread->regs.gpr[0]);
	head->exec.number = thread->regs.gpr[0];
	for (unsigned int i = 0; i < sizeof(order); i++)
		head->exec.arguments[i] = thread->regs.gpr[order[i]];
	head->ask_tid = (uint32_t)sys_call3(SYS_gettid, 0, 0, 0);
	ask(&head->ask, ENGINE_ASK_EXEC);
	leave_await_tellers();
}

void process_executed(void)
{
	struct engine_channel *head = channel.head;

	if (!__atomic_load_n(&has_asked, __ATOMIC_RELAXED) ||
	    head->ask_tid != (uint32_t)sys_call3(SYS_gettid, 0, 0, 0))
		return;
	DEBUG_TRACE("engine/process", "execve failed: the tool's answer %d", head->ask);
	if (__atomic_load_n(&head->ask, __ATOMIC_ACQUIRE) == ENGINE_ASK_TRACED) {
		__atomic_store_n(&head->ask, ENGINE_ASK_OVER, __ATOMIC_RELEASE);
		await(&head->ask, ENGINE_ASK_OVER, ENGINE_ASK_OVER, PATIENCE_POLLS);
	}
	lock_give(&has_asked);
}
