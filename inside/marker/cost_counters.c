/* SPDX-License-Identifier: MIT */
#include "inside/marker/cost_counters.h"

#include "base/cost_event.h"
#include "base/kernel.h"
#include "inside/marker/cost.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/lock.h"
#include "inside/store/arena.h"
#include "inside/store/event_store.h"

#define PAGE_BYTES 4096
#define ASK_MS 20  /* the first hit of a thread waits so long at most */
#define LOCK_MS 10 /* less: the thread is waiting */
#define REAP_LOCK_MS 1000

static struct cost_counters *first;
static struct cost_counters *retired; /* unlinked; a hit may still use one */
static uint32_t is_asked;	      /* since the last look */

static long open_event(unsigned int kind, int32_t tid)
{
	struct perf_event_attr attr = cost_event_attr(kind);

	return syscall_raw6(SYS_perf_event_open, (long)&attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC, 0);
}

long (*cost_counters_open)(unsigned int kind, int32_t tid) = open_event;

/* ---- the thread that asks ---- */

long cost_counters_ask(void *data)
{
	struct writer *writer = data;
	uint64_t end_ns = lock_now_ns() + ASK_MS * UINT64_C(1000000), now_ns;
	uint32_t answered;
	int was = errno;

	/* a handler's hit in between does not wait as well */
	__atomic_store_n(&writer->counters_asked, writer->births, __ATOMIC_SEQ_CST);
	__atomic_store_n(&is_asked, 1, __ATOMIC_SEQ_CST);
	if (!control_wake()) { /* a child of fork that has none yet asks again */
		__atomic_store_n(&writer->counters_asked, 0, __ATOMIC_RELAXED);
		end_ns = 0;
	}
	for (;;) {
		answered = __atomic_load_n(&writer->counters_answered, __ATOMIC_ACQUIRE);
		now_ns = lock_now_ns();
		if (answered == writer->births || now_ns >= end_ns)
			break;
		lock_wait_word(&writer->counters_answered, answered,
			       (unsigned int)((end_ns - now_ns) / 1000000 + 1));
	}
	errno = was;
	return 0;
}

/* ---- the control thread ---- */

static void open_missing(struct cost_counters *counters, unsigned int kinds)
{
	for (unsigned int i = 0; i < COST_COUNTERS; i++) {
		long fd, page;

		if (!(kinds & 1u << (COST_CYCLES + i)) || counters->pages[i])
			continue;
		fd = cost_counters_open(COST_CYCLES + i, counters->tid);
		if (fd < 0)
			continue;
		page = syscall_raw6(SYS_mmap, 0, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
		kernel_close((int)fd);
		if (page > 0)
			counters->pages[i] = (const struct perf_event_mmap_page *)page;
	}
}

static void unmap(struct cost_counters *counters)
{
	for (unsigned int i = 0; i < COST_COUNTERS; i++)
		if (counters->pages[i])
			kernel_munmap((void *)(uintptr_t)counters->pages[i], PAGE_BYTES);
	heap_free(counters, sizeof *counters);
}

static void answer(struct writer *writer, void *data)
{
	uint32_t births = __atomic_load_n(&writer->births, __ATOMIC_ACQUIRE);
	const unsigned int *kinds = data;
	struct cost_counters *counters;

	if (__atomic_load_n(&writer->counters_asked, __ATOMIC_SEQ_CST) != births ||
	    __atomic_load_n(&writer->counters_answered, __ATOMIC_RELAXED) == births)
		return;
	counters = heap_alloc(sizeof *counters);
	if (counters) {
		counters->writer = writer;
		counters->births = births;
		/* another thread's, if the writer has got one meanwhile: then births differ, too */
		counters->tid = writer->tid;
		open_missing(counters, *kinds);
		counters->next = first;
		first = counters;
		__atomic_store_n(&writer->counters, counters, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&writer->counters_answered, births, __ATOMIC_RELEASE);
	lock_wake_word(&writer->counters_answered);
}

void cost_counters_serve(void)
{
	unsigned int kinds;

	if (!__atomic_load_n(&is_asked, __ATOMIC_SEQ_CST) || !cost_is_allowed() ||
	    lock_take(&agent_lock, LOCK_MS))
		return;
	__atomic_store_n(&is_asked, 0, __ATOMIC_SEQ_CST);
	kinds = cost_kinds() & COST_COUNTED;
	if (kinds)
		arena_each(answer, &kinds);
	lock_release(&agent_lock);
}

void cost_counters_extend(void)
{
	unsigned int kinds = cost_kinds() & COST_COUNTED;

	for (struct cost_counters *counters = first; counters && kinds; counters = counters->next)
		if (counters->writer->births == counters->births)
			open_missing(counters, kinds);
}

static int is_gone(const struct cost_counters *counters)
{
	const struct writer *writer = counters->writer;

	return __atomic_load_n(&writer->state, __ATOMIC_ACQUIRE) != WRITER_LIVE ||
	       __atomic_load_n(&writer->births, __ATOMIC_RELAXED) != counters->births;
}

/* Its thread may ask again. */
static void unlink_writer(struct cost_counters *counters)
{
	struct writer *writer = counters->writer;
	struct cost_counters *mine = counters;

	__atomic_compare_exchange_n(&writer->counters, &mine, NULL, 0, __ATOMIC_SEQ_CST,
				    __ATOMIC_RELAXED);
	__atomic_store_n(&writer->counters_answered, counters->births - 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&writer->counters_asked, 0, __ATOMIC_SEQ_CST);
}

void cost_counters_reap(unsigned int timeout_ms)
{
	struct cost_counters **at = &first, *mine;
	int error;

	if ((!first && !retired) || lock_take(&agent_lock, LOCK_MS))
		return;
	while (*at) {
		struct cost_counters *counters = *at;
		int gone = is_gone(counters);

		if (!gone && cost_kinds() & COST_COUNTED) {
			at = &counters->next;
			continue;
		}
		*at = counters->next;
		counters->next = retired;
		retired = counters;
		if (!gone)
			unlink_writer(counters);
	}
	mine = retired;
	retired = NULL;
	lock_release(&agent_lock);
	if (!mine)
		return;
	/* without the lock, as registry_reap() */
	error = store_quiesce(timeout_ms, 0);
	if (lock_take(&agent_lock, REAP_LOCK_MS))
		return; /* these few stay mapped */
	while (mine) {
		struct cost_counters *next = mine->next;

		if (error) {
			mine->next = retired;
			retired = mine;
		} else {
			unmap(mine);
		}
		mine = next;
	}
	lock_release(&agent_lock);
}

void cost_counters_forked(void)
{
	first = retired = NULL;
}
