/* SPDX-License-Identifier: MIT */
#include "inside/engine/breakpoints.h"
#include "inside/engine/code_read.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/gate.h"
#include "inside/engine/leave.h"
#include "inside/engine/pages.h"
#include "inside/engine/ranges.h"
#include "inside/engine/sys.h"

#include <sys/mman.h>

#define PAGES_MAX (1u << 20) /* 4 GiB of code that ran */
#define CALM_MAX 4096u	     /* until a page is guarded again */
#define WRITES_MAX 12u	     /* until a page is no longer guarded */
#define CALL_MAX 64u	     /* the same as CALM_MAX, where a call was in the way */

struct page {
	uint64_t number; /* 0: free */
	uint32_t first;	 /* of its links, as long as `turn` is that of all */
	uint32_t turn;
	uint8_t is_guarded, was_guarded, is_exposed, state, writes;
	uint8_t is_watched; /* as long as `turn` is that of all */
	uint16_t calm;	    /* how often it was looked at and had not changed */
	uint32_t sum, next; /* of those that are watched: of its bytes; the next */
};

struct link {
	uint32_t trace, next;
};

static struct page *pages;
static struct link *links;
static int sharers, is_full;
static int was_cleared; /* which pages were guarded before is not known */
static uint32_t turn, link_count = 1, free_links, guarded, page_count, exposed;
static uint64_t lowest, highest; /* of those that are guarded, or were */
static uint32_t watched;	 /* the first's index; 0: none */

static struct page *page_of(uint64_t number)
{
	uint64_t at = number + ((number >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 32 << 8);

	while (pages[at % PAGES_MAX].number && pages[at % PAGES_MAX].number != number)
		at++;
	return &pages[at % PAGES_MAX];
}

static struct page *page_make(uint64_t number)
{
	struct page *page;

	if (!pages) {
		pages = memory_map(0, PAGES_MAX * sizeof(*pages), PROT_READ | PROT_WRITE);
		links = memory_map(0, PAGES_MAX * 8ul * sizeof(*links), PROT_READ | PROT_WRITE);
	}
	if (!pages || !links)
		return NULL;
	page = page_of(number);
	if (!page->number) {
		if (page_count >= PAGES_MAX / 2)
			return NULL;
		page_count++;
		page->number = number;
	}
	if (page->turn != turn)
		page->first = page->is_watched = 0;
	page->turn = turn;
	return page;
}

/* Whether the kernel may write there for a call that the thread makes now. */
static int is_written(const struct thread *thread, uint64_t start)
{
	const struct thread_writes *writes = &thread->writes;

	if (!__atomic_load_n(&thread->call_next, __ATOMIC_RELAXED))
		return 0;
	for (uint32_t i = 0; i < writes->found; i++)
		if (writes->ranges[i].start < start + 4096 && writes->ranges[i].end > start)
			return 1;
	return 0;
}

/*
 * Pairs with kernel_writes_open(): a call that is not seen here sees the guard, and opens it when
 * we have given the lock.
 */
static void guard(struct page *page)
{
	uint64_t start = page->number << 12;

	if (!guarded || page->number < lowest)
		lowest = page->number;
	if (!guarded || page->number > highest)
		highest = page->number;
	page->is_guarded = page->was_guarded = 1;
	__atomic_add_fetch(&guarded, 1, __ATOMIC_SEQ_CST);
	if (leave_any(is_written, start))
		page->calm = CALM_MAX - CALL_MAX;
	else if (!sys_call3(SYS_mprotect, (long)start, 4096, PROT_READ | PROT_EXEC))
		return;
	page->state = PAGE_CHECKED;
	page->is_guarded = 0;
	guarded--;
}

enum page_state pages_guard(uint64_t address)
{
	uint32_t flags = ranges_flags(address);
	struct page *page = page_make(address >> 12);

	if (!(flags & (RANGE_WRITABLE | RANGE_SHARED)))
		return PAGE_GUARDED;
	if (!page)
		return PAGE_CHECKED;
	if (flags & RANGE_SHARED || page->is_exposed)
		return PAGE_OPEN;
	if (page->state != PAGE_GUARDED || page->is_guarded)
		return page->state;
	if (sharers)
		return PAGE_CHECKED;
	guard(page);
	return page->state;
}

int pages_know(uint64_t address)
{
	if (page_make(address >> 12))
		return 1;
	is_full = 1;
	return 0;
}

void pages_add(uint64_t address, const struct trace *trace)
{
	struct page *page = page_make(address >> 12);
	uint32_t number = trace_number(trace), at;

	if (page && page->first && links[page->first].trace == number)
		return;
	at = free_links;
	if (page && at)
		free_links = links[at].next;
	else if (page && link_count < PAGES_MAX * 8u)
		at = link_count++;
	else {
		is_full = 1;
		return;
	}
	links[at] = (struct link){ number, page->first };
	page->first = at;
}

/* All that was translated of it is given up. */
static void page_kill(struct page *page)
{
	code_read_drop(page->number);
	if (page->turn != turn)
		return;
	for (uint32_t at = page->first, next; at; at = next) {
		struct trace *trace = trace_numbered(links[at].trace);

		next = links[at].next;
		if (!trace->is_dead)
			trace_kill(trace);
		links[at].next = free_links;
		free_links = at;
	}
	page->first = 0;
}

static void page_release(struct page *page)
{
	page_kill(page);
	if (!page->is_guarded)
		return;
	sys_call3(SYS_mprotect, (long)(page->number << 12), 4096,
		  PROT_READ | PROT_WRITE | PROT_EXEC);
	page->is_guarded = 0;
	guarded--;
}

/*
 * The guard may go between the write and our look: another thread wrote there, or let others use
 * the program's memory. Then the kernel's list decides whether the write may be made again.
 */
static int was_ours(const struct page *page, uint64_t address)
{
	return (page->was_guarded || was_cleared) && !ranges_read() &&
	       ranges_flags(address) & RANGE_WRITABLE;
}

int pages_written(uint64_t address, uint64_t pc)
{
	struct page *page = pages ? page_of(address >> 12) : NULL;

	if (!page)
		return 0;
	if (!page->is_guarded)
		return was_ours(page, address);
	page->writes++;
	if (pc >> 12 == address >> 12)
		page->state = PAGE_WRITES_ITSELF;
	else if (page->writes >= WRITES_MAX)
		page->state = PAGE_CHECKED;
	page_release(page);
	return 1;
}

/* For each page that has been ours in [start, start + bytes). */
static void each_page(uint64_t start, uint64_t bytes, void (*act)(struct page *page))
{
	uint64_t first = start >> 12, last = (start + bytes - 1) >> 12;

	if (!pages || !bytes)
		return;
	if (last - first > PAGES_MAX / 4) {
		for (uint32_t i = 0; i < PAGES_MAX; i++)
			if (pages[i].number >= first && pages[i].number <= last)
				act(&pages[i]);
		return;
	}
	for (uint64_t number = first; number <= last; number++) {
		struct page *page = page_of(number);

		if (page->number)
			act(page);
	}
}

static void page_open(struct page *page)
{
	if (!page->is_guarded)
		return;
	if (++page->writes >= WRITES_MAX)
		page->state = PAGE_CHECKED;
	page_release(page);
}

/* Another mapping: what was learned of the old one is no more. */
static void page_forget(struct page *page)
{
	page_release(page);
	page->state = PAGE_GUARDED;
	page->writes = 0;
}

int pages_may_meet(uint64_t start, uint64_t end)
{
	return __atomic_load_n(&guarded, __ATOMIC_ACQUIRE) && start >> 12 <= highest &&
	       (end - 1) >> 12 >= lowest;
}

void pages_open(uint64_t start, uint64_t bytes)
{
	uint64_t end = start + bytes;

	if (!pages_may_meet(start, end))
		return;
	if (start < lowest << 12)
		start = lowest << 12;
	if (end > (highest + 1) << 12)
		end = (highest + 1) << 12;
	each_page(start, end - start, page_open);
}

void pages_expose(uint64_t start, uint64_t bytes)
{
	if (!ranges_meet_writable(start, bytes))
		return;
	for (uint64_t at = start & ~UINT64_C(4095); at < start + bytes; at += 4096) {
		struct page *page = ranges_meet_writable(at, 4096) ? page_make(at >> 12) : NULL;

		if (!page || page->is_exposed) /* without an entry, none is guarded */
			continue;
		page_release(page);
		page->is_exposed = 1;
		exposed++;
	}
}

void pages_kill(uint64_t start, uint64_t bytes)
{
	each_page(start, bytes, page_kill);
}

void pages_forget(uint64_t start, uint64_t bytes)
{
	each_page(start, bytes, page_forget);
}

int pages_are_calm(uint64_t start, uint64_t end)
{
	for (uint64_t address = start & ~UINT64_C(4095); address < end; address += 4096) {
		struct page *page = page_make(address >> 12);

		if (page && page->state != PAGE_GUARDED && ++page->calm == CALM_MAX) {
			page->calm = 0;
			page->writes = WRITES_MAX / 2;
			page->state = PAGE_GUARDED;
		}
		if (pages_guard(address) != PAGE_GUARDED)
			return 0;
	}
	return 1;
}

static uint32_t sum_of(const void *bytes)
{
	const uint64_t *words = bytes;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < 512; i++)
		sum += words[i] * (2 * i + 1);
	return (uint32_t)(sum ^ sum >> 32);
}

void pages_note(uint64_t number, const void *bytes)
{
	struct page *page = page_of(number);
	uint32_t sum = sum_of(bytes);

	if (!page->number || page->turn != turn || ranges_flags(number << 12) != RANGE_FILE)
		return;
	if (page->is_watched && page->sum != sum)
		page_kill(page);
	page->sum = sum;
	if (page->is_watched || page == pages) /* 0 is no index */
		return;
	page->is_watched = 1;
	page->next = watched;
	watched = (uint32_t)(page - pages);
}

/* The lock is given while it is read. */
static void look(struct page *page, uint64_t ticks)
{
	uint64_t bytes[512], number = page->number;
	int is_unread;

	if (!page->first || !code_read_is_resident(number))
		return;
	lock_give(&dispatch_lock);
	is_unread = gate_copy(bytes, (const void *)(number << 12), sizeof(bytes));
	lock_take(&dispatch_lock);
	if (is_unread || page->number != number)
		return;
	pages_note(number, bytes);
	breakpoints_seen((const uint8_t *)bytes, number << 12, ticks);
}

void pages_look(uint64_t ticks)
{
	uint64_t pc;
	uint32_t now;

	if (!breakpoints_look_begin(ticks))
		return;
	lock_take(&dispatch_lock);
	now = turn;
	for (uint32_t at = watched; at && turn == now; at = pages[at].next)
		look(&pages[at], ticks);
	while ((pc = breakpoints_drop_old(ticks)))
		pages_kill(pc, 1);
	lock_give(&dispatch_lock);
	breakpoints_look_end(ticks);
}

int pages_is_guarded(uint64_t address)
{
	return pages && page_of(address >> 12)->is_guarded;
}

void pages_clear(void)
{
	turn++;
	code_read_drop_all();
	watched = 0;
	link_count = 1;
	free_links = 0;
	is_full = 0;
	if (page_count <= PAGES_MAX / 4 || exposed)
		return;
	pages_release();
	memory_clear(pages, PAGES_MAX * sizeof(*pages));
	page_count = 0;
	was_cleared = 1;
}

int pages_are_many(void)
{
	return is_full;
}

uint32_t pages_guarded(void)
{
	return guarded;
}

void pages_release(void)
{
	for (uint32_t i = 0; i < PAGES_MAX && guarded; i++)
		if (pages[i].is_guarded)
			page_release(&pages[i]);
}

void pages_share(int change)
{
	sharers += change;
	pages_release();
}

void pages_unguard(void)
{
	for (uint32_t i = 0; i < PAGES_MAX && guarded; i++)
		if (pages[i].is_guarded) {
			sys_call3(SYS_mprotect, (long)(pages[i].number << 12), 4096,
				  PROT_READ | PROT_WRITE | PROT_EXEC);
			guarded--;
		}
}
