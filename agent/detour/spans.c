/* SPDX-License-Identifier: MIT */
/*
 * With every thread stopped: who stands in a span, and the stores.
 *
 * Where can a thread be that is about to execute in a span's middle? Its own PC; the PC in a frame that
 * a signal left on its stack, to which it will return. Not a return address: a call is only ever the
 * last instruction of a span, so what it returns to is behind. Any other word on a stack that has such a
 * value may be a copy of a signal's context that a handler made to go on from: such a site is left
 * alone for now.
 */
#define _GNU_SOURCE
#include "agent/detour/stop.h"

#include "agent/detour/return.h"
#include "agent/watch/unblock.h"
#include "base/syscall.h"

#include <waymark/error.h>

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define STACK_MAX ((uintptr_t)64 << 20) /* a thread's, from its stack pointer on */
#define STACK_UNKNOWN ((uintptr_t)1 << 20)
#define STACKS_MAX 8 /* that signal handlers of one thread stand on */
#define WORD sizeof(uint64_t)
#define FRAME_BYTES 512 /* from a signal frame's PC to its siginfo's address */
#define PAGE_BYTES 4096u

static long copy(const struct stop_job *job, long number, void *mine, uintptr_t theirs,
		 size_t bytes)
{
	struct iovec local = { mine, bytes }, remote = { (void *)theirs, bytes };

	/* our own number: whoever it is that reads, our memory is the program's */
	return syscall_raw6(number, job->self, (long)&local, 1, (long)&remote, 1, 0);
}

static int read_memory(const struct stop_job *job, void *to, uintptr_t from, size_t bytes)
{
	return copy(job, SYS_process_vm_readv, to, from, bytes) == (long)bytes ? 0 : -EFAULT;
}

/* ---- clearing ---- */

/* The site in the middle of whose span `address` lies; NULL. */
static struct janitor_site *site_around(const struct stop_job *job, uintptr_t address)
{
	size_t low = 0, high = job->count;

	if (address <= job->first || address >= job->last)
		return NULL;
	while (low < high) {
		size_t middle = (low + high) / 2;
		struct janitor_site *site = &job->sites[middle];
		const struct control_detour *record = site->detour->record;

		if (address <= record->address)
			high = middle;
		else if (address >= record->address + record->span_bytes)
			low = middle + 1;
		else
			return site->is_done ? NULL : site;
	}
	return NULL;
}

/* ---- guards ---- */

/*
 * A thread that is in a function when its guard is stored may be about to do what the guard is there to
 * prevent: it is tried again when nobody is.
 */
static void keep_out_of_guarded(struct stop_job *job, uintptr_t pc)
{
	for (size_t i = 0; job->has_guards && i < job->count; i++) {
		const struct control_detour *record = job->sites[i].detour->record;

		if (record->flags & DETOUR_GUARDS && pc > record->address &&
		    pc < record->point + record->guard_bytes)
			job->sites[i].error = -WM_E_DETOUR_BUSY;
	}
}

/*
 * When a jump is taken away: a thread that has taken the short one and stands on the relay, which is
 * about to be filler again. Where it goes on; 0: it may stay.
 */
static uintptr_t led_on(const struct stop_job *job, uintptr_t address)
{
	if (!job->has_relays || address < job->first || address >= job->last)
		return 0;
	for (size_t i = 0; i < job->count; i++) {
		if (job->sites[i].detour->relay == address)
			return job->sites[i].detour->code;
	}
	return 0;
}

/* Where a thread goes on that stands at `address` in this site's span. 0: nowhere. */
static uintptr_t moved(const struct janitor_site *site, uintptr_t address)
{
	const struct detour *detour = site->detour;

	for (unsigned int i = 0; i < detour->record->move_count; i++) {
		if (detour->moves[i].from == address - detour->record->address)
			return detour->code + detour->moves[i].to;
	}
	return 0;
}

struct stack {
	uintptr_t from, to;
};

/* A word on a stack that may be in a span's middle, or on a relay. */
static void clear_word(struct stop_job *job, const uint64_t *word, uintptr_t at)
{
	struct janitor_site *site = job->arm ? site_around(job, *word) : NULL;
	int is_frame = halt_is_frame(word, 0);
	uint64_t to = 0;

	if (!job->arm)
		to = is_frame ? led_on(job, *word) : 0;
	else if (site && is_frame)
		to = moved(site, *word);
	if (!job->arm && to)
		copy(job, SYS_process_vm_writev, &to, at, sizeof to);
	if (is_frame) {
		job->frame_pc = *word;
		job->frame_at = at;
	}
	if (!site)
		return;
	/* the control thread's own variables hold all kinds of addresses */
	if (!is_frame && job->is_control)
		return;
	/* its siginfo follows it, and may name the same PC (si_addr): nobody goes on from that */
	if (!is_frame && *word == job->frame_pc && at - job->frame_at < FRAME_BYTES)
		return;
	if (!to || copy(job, SYS_process_vm_writev, &to, at, sizeof to) != sizeof to)
		site->error = -WM_E_DETOUR_BUSY;
}

/* Returns whether it was a stack not seen before, which is then to be looked at too. */
static void add_stack(struct stack *stacks, unsigned int *count, uintptr_t from, uintptr_t to)
{
	for (unsigned int i = 0; i < *count; i++) {
		if (from >= stacks[i].from && from < stacks[i].to)
			return;
	}
	if (*count < STACKS_MAX)
		stacks[(*count)++] = (struct stack){ from & ~(uintptr_t)(WORD - 1), to };
}

/* Of the stack that libc or the kernel gave the thread, if that is where it stands; 0. */
static uintptr_t own_stack_end(const struct stop_job *job, uintptr_t from, uintptr_t thread_pointer)
{
	if (thread_pointer > from && thread_pointer - from < STACK_MAX)
		return thread_pointer;
	if (job->main_stack_end > from && job->main_stack_end - from < STACK_MAX)
		return job->main_stack_end;
	return 0;
}

static uintptr_t stack_end(const struct stop_job *job, uintptr_t from, uintptr_t thread_pointer)
{
	uintptr_t own = own_stack_end(job, from, thread_pointer);

	return own ? own : from + STACK_UNKNOWN;
}

static void note_near(struct stop_job *job, uintptr_t pc, uintptr_t stack)
{
	if (job->sweep && return_is_code(pc) && job->near_count < STOP_NEAR_MAX)
		job->near[job->near_count++] = stack;
}

/* Returns how far it came. */
static uintptr_t scan_stack(struct stop_job *job, struct stack *stacks, unsigned int *count,
			    unsigned int which, uintptr_t thread_pointer)
{
	uintptr_t at = stacks[which].from, to = stacks[which].to;

	while (at < to) {
		size_t want = to - at < sizeof job->words ? to - at : sizeof job->words;
		long got = copy(job, SYS_process_vm_readv, job->words, at, want);
		size_t have = got > 0 ? (size_t)got / WORD : 0, i;

		/* a frame's other words must be in sight too */
		for (i = 0; i + HALT_FRAME_WORDS_BEHIND < have; i++) {
			uint64_t word = job->words[i];

			if (word >= job->first && word < job->last)
				clear_word(job, &job->words[i], at + i * WORD);
			if (i && halt_is_frame(job->words, i)) {
				uintptr_t stack = job->words[i - 1];

				note_near(job, word, stack);
				stranded_place(job->stranded, word, stack);
				keep_out_of_guarded(job, word);
				add_stack(stacks, count, stack,
					  stack_end(job, stack, thread_pointer));
			}
		}
		if ((size_t)(got > 0 ? got : 0) < want || have <= 8)
			return at + (have > HALT_FRAME_WORDS_BEHIND
					     ? (have - HALT_FRAME_WORDS_BEHIND) * WORD
					     : 0);
		/* one more than is needed behind, for the word before a PC */
		at += (have - HALT_FRAME_WORDS_BEHIND - 1) * WORD;
		if (to - at <= (HALT_FRAME_WORDS_BEHIND + 1) * WORD)
			break;
	}
	return at;
}

/* A signal that is being delivered tells by itself what becomes of an interrupted call. */
static int restart(const struct stop_job *job, const struct stopped *thread, struct halt_regs *regs)
{
	return !thread->signal &&
	       halt_restart(regs, halt_is_resuming(regs) && threads_is_filtered(job, thread));
}

static void clear_thread(struct stop_job *job, const struct stopped *thread)
{
	struct stack stacks[STACKS_MAX];
	struct halt_regs regs;
	struct janitor_site *site;
	unsigned int count = 0;
	uintptr_t to;
	int changed;

	if (halt_regs_get(thread->tid, &regs))
		return; /* it has been killed */
	job->is_control = thread->tid == job->tid || thread->tid == job->keeper;
	changed = restart(job, thread, &regs);
	site = job->arm ? site_around(job, halt_pc(&regs)) : NULL;
	to = site ? moved(site, halt_pc(&regs)) : 0;
	if (!job->arm)
		to = led_on(job, halt_pc(&regs));
	if (to)
		halt_set_pc(&regs, to);
	else if (site)
		site->error = -WM_E_DETOUR_BUSY;
	changed |= to != 0;
	if (changed)
		halt_regs_set(thread->tid, &regs);
	keep_out_of_guarded(job, halt_pc(&regs));
	note_near(job, halt_pc(&regs), halt_stack(&regs));
	if (job->stranded &&
	    !stranded_begin(job->stranded, thread->tid, halt_pc(&regs), halt_stack(&regs),
			    own_stack_end(job, halt_stack(&regs), halt_thread_pointer(&regs))))
		return;
	add_stack(stacks, &count, halt_stack(&regs),
		  stack_end(job, halt_stack(&regs), halt_thread_pointer(&regs)));
	for (unsigned int i = 0; i < count; i++) {
		uintptr_t end = scan_stack(job, stacks, &count, i, halt_thread_pointer(&regs));

		stranded_stack(job->stranded, stacks[i].from, end);
	}
	stranded_end(job->stranded);
}

/* A jump is taken away: whoever stands on it, or in a trampoline, may stay. */
static void keep_calls(const struct stop_job *job, const struct stopped *thread)
{
	struct halt_regs regs;

	if (!halt_regs_get(thread->tid, &regs) && restart(job, thread, &regs))
		halt_regs_set(thread->tid, &regs);
}

void spans_clear(struct stop_job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		if (!job->sites[i].is_done)
			job->sites[i].error = 0;
	}
	for (uint32_t i = 0; i < job->thread_count; i++) {
		if (!job->threads[i].is_stopped)
			continue;
		if (job->masks)
			unblock_thread(job, &job->threads[i]);
		if (job->looks)
			job->has_pending |= threads_has_trap(job, &job->threads[i]);
		if (job->arm || job->has_relays || job->sweep || job->stranded)
			clear_thread(job, &job->threads[i]);
		else
			keep_calls(job, &job->threads[i]);
	}
}

/* ---- storing ---- */

static int are_equal(const uint8_t *a, const uint8_t *b, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (a[i] != b[i])
			return 0;
	}
	return 1;
}

static int write_code(const struct stop_job *job, uintptr_t to, const uint8_t *bytes, size_t count,
		      int prot)
{
	uintptr_t start = to & ~(uintptr_t)(PAGE_BYTES - 1);
	size_t length = (to + count - start + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
	long error;

	if (job->memory_fd >= 0) {
		error = syscall_raw(SYS_pwrite64, job->memory_fd, (long)bytes, (long)count,
				    (long)to);
		return error == (long)count ? 0 : error < 0 ? (int)error : -EFAULT;
	}
	error = syscall_raw(SYS_mprotect, (long)start, (long)length,
			    PROT_READ | PROT_WRITE | PROT_EXEC, 0);
	if (error)
		return error == -ENOMEM ? -EFAULT : -WM_E_NO_TEXT_WRITE;
	for (size_t i = 0; i < count; i++)
		((volatile uint8_t *)to)[i] = bytes[i];
	syscall_raw(SYS_mprotect, (long)start, (long)length, prot, 0);
	return 0;
}

static int count_semaphore(const struct stop_job *job, struct detour *detour)
{
	uintptr_t at = detour->record->semaphore;
	uint16_t value;

	if (!at || detour->is_counted_up == job->arm)
		return 0;
	if (read_memory(job, &value, at, sizeof value))
		return -EFAULT;
	value = (uint16_t)(value + (job->arm ? 1 : -1));
	if (copy(job, SYS_process_vm_writev, &value, at, sizeof value) != sizeof value)
		return -EFAULT;
	detour->is_counted_up = (uint8_t)job->arm;
	return 0;
}

/* Of all in the chain: those that are to be armed, or all that are up. */
static int count_semaphores(const struct stop_job *job, struct detour *head)
{
	int error = 0;

	for (struct detour *d = head; d && !error; d = d->next_member) {
		if (!job->arm || d->in_batch)
			error = count_semaphore(job, d);
	}
	return error;
}

/* The 5 bytes of a jump in a trampoline. */
static int store_near(const struct stop_job *job, uintptr_t at, uintptr_t to)
{
	uint32_t far = (uint32_t)(to - at - DETOUR_JUMP_BYTES);
	uint8_t jump[DETOUR_JUMP_BYTES] = { 0xe9 };

	for (unsigned int i = 0; i < sizeof far; i++)
		jump[1 + i] = (uint8_t)(far >> 8 * i);
	return write_code(job, at, jump, sizeof jump, PROT_READ | PROT_EXEC);
}

/* The link for a point in one trampoline becomes a jump to another's event. */
static int store_link(const struct stop_job *job, const struct detour *from, uint64_t point,
		      const struct detour *to)
{
	return store_near(job, chain_link(from, point), to->code + to->record->event_at);
}

/* The first or the last at a point of those that can be come to; NULL. */
static struct detour *linked_at(struct detour *head, uint64_t point, int is_last)
{
	struct detour *found = NULL;

	for (struct detour *d = head; d && (is_last || !found); d = d->next_member) {
		if (chain_is_linked(d) && chain_point(d) == point)
			found = d;
	}
	return found;
}

/*
 * One more can be come to. First its own links, to what comes behind its point; then those that lead to it:
 * that of the last event at its point, or if it is the first there those in all trampolines that come past.
 */
static int link_member(const struct stop_job *job, struct detour *head, struct detour *member)
{
	const struct detour_link *links = detour_links(member->record);
	uint64_t point = chain_point(member);
	struct detour *before = linked_at(head, point, 1);
	int error = 0;

	/* a guest's link leads back already: what else it has moved is never run */
	for (unsigned int i = 0; !member->is_guest && i < member->record->link_count && !error;
	     i++) {
		struct detour *behind = linked_at(head, links[i].point, 0);

		if (links[i].point > point && behind)
			error = store_link(job, member, links[i].point, behind);
	}
	if (before && !error)
		error = store_link(job, before, point, member);
	for (struct detour *d = before ? NULL : head; d && !error; d = d->next_member) {
		/* in at the first instruction come those alone who come by the jump */
		if (d == head || (d->is_linked && !d->is_guest && chain_point(d) < point))
			error = store_link(job, d, point, member);
	}
	if (!error)
		member->is_linked = 1;
	return error;
}

/*
 * The links up to the last that is to be armed. One instruction becomes another in its place: wherever
 * a thread stands in a trampoline, it goes on rightly.
 */
static int store_links(const struct stop_job *job, struct detour *head)
{
	struct detour *last = NULL;

	for (struct detour *d = head; d; d = d->next_member)
		last = d->in_batch && !chain_is_linked(d) ? d : last;
	for (struct detour *d = head; d && last; d = d->next_member) {
		int error = chain_is_linked(d) ? 0 : link_member(job, head, d);

		if (error || d == last)
			return error;
	}
	return 0;
}

/* Whoever comes out of a trampoline later than this comes to no span's middle (exits.h). */
static int store_exits(const struct stop_job *job, struct detour *first)
{
	int error = 0;

	for (struct detour *d = first; d && !error; d = d->next_exit) {
		error = store_near(job, d->code + d->exit_at - 1, d->exit_wanted);
		if (!error)
			d->exit_to = d->exit_wanted;
	}
	return error;
}

/*
 * The long jump in the filler, before the short one that leads to it; the filler's own bytes after that
 * is gone. One that stands already is as good: a janitor was killed in between.
 */
static int store_relay(const struct stop_job *job, const struct detour *detour)
{
	const uint8_t *original = detour->record->original + detour->record->span_bytes;
	uint8_t found[DETOUR_RELAY_BYTES];

	if (!detour->relay)
		return 0;
	if (read_memory(job, found, detour->relay, sizeof found))
		return -EFAULT;
	if (!are_equal(found, original, sizeof found) &&
	    !are_equal(found, detour->relay_jump, sizeof found))
		return -WM_E_SITE_CHANGED;
	return write_code(job, detour->relay, job->arm ? detour->relay_jump : original,
			  DETOUR_RELAY_BYTES, detour->prot);
}

static int store_jump(const struct stop_job *job, const struct detour *detour)
{
	const struct control_detour *record = detour->record;

	return write_code(job, record->address, job->arm ? detour->jump : record->original,
			  detour->jump_bytes, detour->prot);
}

static void store_site(const struct stop_job *job, struct janitor_site *site, const uint8_t *found)
{
	struct detour *detour = site->detour;
	const struct control_detour *record = detour->record;
	const uint8_t *original = record->original;
	size_t count = detour->jump_bytes, owned = detour_owned(record);
	/* what a punned jump ends in may have changed since: the more reason to take it away */
	int is_jump = are_equal(found, detour->jump, count) &&
		      (are_equal(found + count, original + count, owned - count) ||
		       (record->pun && !job->arm));
	int is_original = are_equal(found, original, owned);
	int error = 0;

	for (unsigned int i = 0; i < DETOUR_JUMP_BYTES; i++)
		site->found[i] = i < owned ? found[i] : 0;
	if (!is_jump && !is_original) {
		site->error = -WM_E_SITE_CHANGED;
		return;
	}
	if (job->arm) {
		error = count_semaphores(job, detour);
		if (!error)
			error = store_links(job, detour);
		if (!error)
			error = store_exits(job, site->exits);
		if (!error)
			error = store_relay(job, detour);
	}
	if (!error && (job->arm ? is_original : is_jump))
		error = store_jump(job, detour);
	if (!job->arm && !error) {
		/* all that matters is done: a relay that can't be taken away leads to a trampoline still */
		store_relay(job, detour);
		count_semaphores(job, detour);
	}
	site->error = error;
	site->is_done = !error;
}

/* Read many spans at once. */
static void store_group(struct stop_job *job, struct janitor_site *sites, size_t count)
{
	struct iovec remote[STOP_GROUP], local[STOP_GROUP];
	long bytes = 0, got;

	for (size_t i = 0; i < count; i++) {
		const struct control_detour *record = sites[i].detour->record;

		local[i] = (struct iovec){ job->bytes[i], detour_owned(record) };
		remote[i] = (struct iovec){ (void *)record->address, detour_owned(record) };
		bytes += (long)detour_owned(record);
	}
	got = syscall_raw6(SYS_process_vm_readv, job->self, (long)local, (long)count, (long)remote,
			   (long)count, 0);
	for (size_t i = 0; i < count; i++) {
		const struct control_detour *record = sites[i].detour->record;

		if (sites[i].is_done || sites[i].error)
			continue;
		if (got != bytes &&
		    read_memory(job, job->bytes[i], record->address, detour_owned(record)))
			sites[i].error = -EFAULT;
		else
			store_site(job, &sites[i], job->bytes[i]);
	}
}

void spans_store(struct stop_job *job)
{
	for (size_t at = 0; at < job->count; at += STOP_GROUP)
		store_group(job, job->sites + at,
			    job->count - at < STOP_GROUP ? job->count - at : STOP_GROUP);
}
