/* SPDX-License-Identifier: MIT */
#include "engine/attach_places.h"
#include "engine/channel.h"
#include "engine/child_process.h"
#include "engine/engine_lock.h"
#include "engine/leave.h"
#include "engine/log.h"
#include "engine/sys.h"

#include <errno.h>
#include <stddef.h>
#include <sys/prctl.h>

/*
 * Of a tool that does not answer, in naps (channel_wait()): they take longer where everybody gets
 * little time.
 */
#define MEETING_NAPS 40
#define PATIENCE_NAPS 400
/* Of a tracer that is about to make its call. It looks every millisecond, but may be stopped. */
#define SEIZE_NAPS 100

static uint32_t is_apart;
static uint32_t has_asked; /* one of our threads is about to execute a program */
static uint32_t unmet;	   /* children since process_meet() */

int process_follows(void)
{
	return channel.processes > 1 && !__atomic_load_n(&is_apart, __ATOMIC_RELAXED);
}

void process_is_apart(void)
{
	__atomic_store_n(&is_apart, 1, __ATOMIC_RELAXED);
}

static struct engine_channel *page_of(uint32_t number)
{
	return (struct engine_channel *)(channel.base + (uint64_t)number * ENGINE_GUARD_BYTES);
}

/* How many pages the tool has made so far. */
static uint32_t pages(void)
{
	uint32_t count = __atomic_load_n(&channel_first()->pages, __ATOMIC_ACQUIRE);

	return count < channel.processes ? count : channel.processes;
}

/* One of the first `count`. *ending: one that the tool is about to free; NULL: none is. */
static struct engine_channel *page_take(uint32_t count, struct engine_channel **ending)
{
	*ending = NULL;
	for (uint32_t n = 1; n < count; n++) {
		struct engine_channel *page = page_of(n);
		uint32_t use = __atomic_load_n(&page->use, __ATOMIC_RELAXED);

		if (use == ENGINE_USE_FREE &&
		    __atomic_compare_exchange_n(&page->use, &use, ENGINE_USE_TAKEN, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return page;
		if (use == ENGINE_USE_ENDING || use == ENGINE_USE_NONE)
			*ending = page;
	}
	return NULL;
}

struct engine_channel *process_take(void)
{
	struct engine_channel *page, *ending;

	for (unsigned int naps = 0;; naps++) {
		uint32_t count = pages();

		page = page_take(count, &ending);
		if (page || !channel_has_tool() || naps == PATIENCE_NAPS)
			break;
		if (count < channel.processes)
			channel_wait(&channel_first()->pages, count);
		else if (ending)
			channel_wait(&ending->use, __atomic_load_n(&ending->use, __ATOMIC_RELAXED));
		else
			break;
	}
	return page;
}

void process_unfollowed(void)
{
	__atomic_add_fetch(&channel.head->unfollowed, 1, __ATOMIC_RELAXED);
}

void process_made(struct thread *child, uint32_t first_id)
{
	struct engine_channel *page = child->page;

	child->born = ((page->born >> 32) + 1) << 32;
	page->born = child->born;
	page->met = 0;
	page->parent = channel.process;
	page->parent_first_id = first_id;
	__atomic_store_n(&page->use, ENGINE_USE_MADE, __ATOMIC_RELEASE);
}

/*
 * The other of parent and child may have said so, and the child be over by now, with its page
 * another's.
 */
static void name(struct thread *child, uint64_t pid)
{
	uint64_t none = child->born;

	__atomic_compare_exchange_n(&child->page->born, &none, child->born | pid, 0,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static void meet(const struct engine_channel *page, uint64_t born)
{
	for (unsigned int naps = 0; naps < MEETING_NAPS; naps++) {
		if (!channel_has_tool() ||
		    __atomic_load_n(&page->born, __ATOMIC_RELAXED) >> 32 != born >> 32 ||
		    __atomic_load_n(&page->met, __ATOMIC_ACQUIRE))
			return;
		channel_wait(&page->met, 0);
	}
}

void process_born(struct thread *child, long pid, int is_reaped)
{
	if (sys_failed(pid)) {
		__atomic_store_n(&child->page->use, ENGINE_USE_NONE, __ATOMIC_RELEASE);
		return;
	}
	name(child, (uint64_t)pid);
	if (is_reaped) {
		meet(child->page, child->born);
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
	for (uint32_t n = 1; n < pages(); n++) {
		const struct engine_channel *page = page_of(n);
		uint64_t born = __atomic_load_n(&page->born, __ATOMIC_RELAXED);
		uint32_t use = __atomic_load_n(&page->use, __ATOMIC_ACQUIRE);

		if ((use == ENGINE_USE_MADE || use == ENGINE_USE_ENDING) &&
		    page->parent == channel.process)
			meet(page, born);
	}
	__atomic_compare_exchange_n(&unmet, &count, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void process_become(struct thread *child)
{
	has_asked = unmet = 0;
	channel_turn(child->page);
	attach_places(channel.head);
	log_restart();
	name(child, (uint64_t)sys_call3(SYS_getpid, 0, 0, 0));
	/* The child wakes the tool: a parent that is about to trace it is in a hurry. */
	channel_tell();
}

void process_ends(long status)
{
	uint32_t made = ENGINE_USE_MADE;

	channel.head->exit_status = (uint32_t)status & 0xff;
	__atomic_compare_exchange_n(&channel.head->use, &made, ENGINE_USE_ENDING, 0,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* While it is `asked`; or until the tool has taken too long, or is gone: then *ask is `instead`. */
static void await(uint32_t *ask, uint32_t asked, uint32_t instead)
{
	for (unsigned int naps = 0; __atomic_load_n(ask, __ATOMIC_ACQUIRE) == asked; naps++) {
		if (!channel_has_tool() || naps == PATIENCE_NAPS) {
			__atomic_compare_exchange_n(ask, &asked, instead, 0, __ATOMIC_ACQ_REL,
						    __ATOMIC_ACQUIRE);
			return;
		}
		channel_wait(ask, asked);
	}
}

/* ---- ptrace(2) ---- */

/* The page of a thread's process; a child may not have begun yet. NULL: it is not recorded. */
static struct engine_channel *page_with(uint32_t tid)
{
	for (uint32_t n = 1; n < pages(); n++) {
		struct engine_channel *page = page_of(n);

		if ((uint32_t)__atomic_load_n(&page->born, __ATOMIC_ACQUIRE) == tid &&
		    __atomic_load_n(&page->use, __ATOMIC_ACQUIRE) == ENGINE_USE_MADE)
			return page;
	}
	for (uint32_t i = 0; i < channel.slot_count; i++) {
		const struct engine_slot *slot = &channel.slots[i];
		uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

		if (state == ENGINE_SLOT_FREE && !slot->tid)
			break; /* as are all behind it; a look would give them memory */
		if (state == ENGINE_SLOT_LIVE && slot->tid == tid &&
		    slot->process < channel.processes)
			return page_of(slot->process);
	}
	return NULL;
}

/* The tool enters a program that the process has executed. A tool that has died never will. */
static int is_entered(const struct engine_channel *page)
{
	return __atomic_load_n(&page->entering, __ATOMIC_SEQ_CST) && channel_has_tool();
}

/* It runs in the engine, or soon will. A child that borrows its parent's memory never does. */
static int is_inside(const struct engine_channel *page)
{
	uint32_t state = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE);

	return state == ENGINE_RUNS ||
	       (state == ENGINE_WAITING && (page->parent_first_id || is_entered(page)));
}

/*
 * All its threads run natively; or another process has the page. A thread may reach its native code
 * a moment later.
 */
static int is_out(const struct engine_channel *page, uint64_t born)
{
	return __atomic_load_n(&page->born, __ATOMIC_ACQUIRE) != born ||
	       __atomic_load_n(&page->use, __ATOMIC_ACQUIRE) != ENGINE_USE_MADE ||
	       !(is_inside(page) || __atomic_load_n(&page->leaving, __ATOMIC_SEQ_CST));
}

/* Where the process is stopped, the tool has to lead it out: ask for that, in case. */
static void ask_to_lead(struct engine_channel *page)
{
	__atomic_store_n(&page->lead, ENGINE_LEAD_ASKED, __ATOMIC_SEQ_CST);
	channel_tell();
}

/* 1: the tool leads it. 0: it does not, and will not. */
static int is_led(struct engine_channel *page)
{
	uint32_t asked = ENGINE_LEAD_ASKED;

	return !__atomic_compare_exchange_n(&page->lead, &asked, ENGINE_LEAD_NONE, 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
	       asked == ENGINE_LEAD_RUNS && channel_has_tool();
}

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
	struct engine_channel *page = channel.head;
	int is_seized = seize_turn(&page->seize, tid, ENGINE_SEIZE_WAITS);

	__atomic_sub_fetch(&page->leaving, 1, __ATOMIC_SEQ_CST);
	if (!is_seized)
		return;
	/* The tracer waits for the tool to lead a stopped process out. */
	for (unsigned int i = 0;
	     i < SEIZE_NAPS && __atomic_load_n(&page->lead, __ATOMIC_SEQ_CST) != ENGINE_LEAD_RUNS &&
	     __atomic_load_n(&page->seize, __ATOMIC_SEQ_CST) == ENGINE_SEIZE_WAITS;
	     i++)
		leave_nap();
	__atomic_store_n(&page->seize, 0, __ATOMIC_SEQ_CST);
}

/* The thread may be stopped before it leaves the engine: so this wait has a bound. */
void process_seized(uint32_t tid, uint32_t *seize)
{
	if (seize_turn(seize, tid, 0) || !seize_turn(seize, ENGINE_SEIZE_WAITS, ENGINE_SEIZE_OVER))
		return;
	for (unsigned int i = 0;
	     i < LEAVE_NAPS_MAX && __atomic_load_n(seize, __ATOMIC_SEQ_CST) == ENGINE_SEIZE_OVER;
	     i++)
		leave_nap();
}

/* It has a handler for the signal, and no execve(2) is about to take that away. */
static int may_be_told(const struct engine_channel *page)
{
	uint32_t asked = __atomic_load_n(&page->ask, __ATOMIC_SEQ_CST);

	return is_inside(page) && asked != ENGINE_ASK_EXEC && asked != ENGINE_ASK_TRACED &&
	       (__atomic_load_n(&page->state, __ATOMIC_SEQ_CST) == ENGINE_RUNS ||
		!is_entered(page));
}

/*
 * A process that has left, or has executed a program, would die of the signal: pairs with
 * leave_untold() and process_executes().
 */
static int report(struct engine_channel *page, uint32_t tid)
{
	int may;

	__atomic_add_fetch(&page->tellers, 1, __ATOMIC_SEQ_CST);
	may = may_be_told(page);
	if (may)
		leave_tell(tid);
	__atomic_sub_fetch(&page->tellers, 1, __ATOMIC_SEQ_CST);
	return may;
}

/* It runs natively because of that, if it did not before. */
static int note_traced(struct engine_channel *page)
{
	uint32_t none = ENGINE_NATIVE_NOT;

	if (!__atomic_compare_exchange_n(&page->native, &none, ENGINE_NATIVE_TRACED, 0,
					 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return 0;
	page->native_ticks = sys_ticks();
	return 1;
}

static long lead_out(struct engine_channel *page, uint64_t born, uint32_t tid)
{
	int is_told = 0;

	for (unsigned int i = 0; i < LEAVE_NAPS_MAX; i++) {
		if (is_out(page, born) && !is_led(page))
			return 0;
		/* A program that it has executed meanwhile knows nothing of it. */
		if (note_traced(page))
			is_told = 0;
		if (!is_told && report(page, tid)) {
			is_told = 1;
			ask_to_lead(page);
		}
		leave_nap();
	}
	while (is_led(page))
		leave_nap();
	return is_inside(page) ? -EPERM : 0;
}

/* The tool traces a child that borrows its parent's memory, and no other can. */
static void let_go(struct engine_channel *page)
{
	uint32_t traced = ENGINE_ASK_TRACED;

	if (__atomic_load_n(&page->state, __ATOMIC_ACQUIRE) != ENGINE_WAITING ||
	    !__atomic_compare_exchange_n(&page->ask, &traced, ENGINE_ASK_OVER, 0, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return;
	note_traced(page);
	channel_tell();
	await(&page->ask, ENGINE_ASK_OVER, ENGINE_ASK_OVER);
}

long process_is_traced(uint32_t tid, uint32_t **seize)
{
	struct engine_channel *page = page_with(tid);
	uint64_t born = page ? __atomic_load_n(&page->born, __ATOMIC_ACQUIRE) : 0;
	long err;

	if (!page || page == channel.head)
		return 0;
	if (!is_out(page, born) && seize && seize_turn(&page->seize, 0, tid))
		*seize = &page->seize;
	err = lead_out(page, born, tid);
	if (err)
		return err;
	let_go(page);
	return lead_out(page, born, tid); /* it has executed a program instead */
}

/* ---- execve(2) ---- */

static void ask(struct engine_channel *page, enum engine_ask what)
{
	/* Yama lets a stranger trace only those that name it. */
	if (channel_first()->tracer)
		sys_call3(SYS_prctl, PR_SET_PTRACER, channel_first()->tracer, 0);
	page->ask_tid = (uint32_t)sys_call3(SYS_gettid, 0, 0, 0);
	__atomic_store_n(&page->ask, what, __ATOMIC_RELEASE);
	await(&page->ask, what, ENGINE_ASK_NOTHING);
}

void process_borrows(struct thread *child)
{
	__atomic_store_n(&child->page->leaving, 1, __ATOMIC_SEQ_CST);
	name(child, (uint64_t)sys_call3(SYS_getpid, 0, 0, 0));
	child->page->exec.number = child->has_stack;
	if (channel_has_tool())
		ask(child->page, ENGINE_ASK_CHILD);
}

void process_borrowed(const struct thread *child)
{
	if (child->page)
		__atomic_store_n(&child->page->leaving, 0, __ATOMIC_SEQ_CST);
}

void process_executes(const struct thread *thread)
{
	static const uint8_t order[] = { 7, 6, 2, 10, 8 };
	struct engine_channel *page = channel.head;

	if (!process_follows() || !channel_has_tool() || !lock_try(&has_asked))
		return;
	page->exec.number = thread->regs.gpr[0];
	for (unsigned int i = 0; i < sizeof(order); i++)
		page->exec.arguments[i] = thread->regs.gpr[order[i]];
	ask(page, ENGINE_ASK_EXEC);
	leave_await_tellers();
}

void process_executed(void)
{
	struct engine_channel *page = channel.head;

	if (!__atomic_load_n(&has_asked, __ATOMIC_RELAXED) ||
	    page->ask_tid != (uint32_t)sys_call3(SYS_gettid, 0, 0, 0))
		return;
	if (__atomic_load_n(&page->ask, __ATOMIC_ACQUIRE) == ENGINE_ASK_TRACED) {
		__atomic_store_n(&page->ask, ENGINE_ASK_OVER, __ATOMIC_RELEASE);
		await(&page->ask, ENGINE_ASK_OVER, ENGINE_ASK_OVER);
	}
	lock_give(&has_asked);
}
