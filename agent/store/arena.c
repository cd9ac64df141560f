/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/store/arena.h"

#include "agent/runtime/reentrancy_guard.h"
#include "base/syscall.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define DEEPER_MAX 4096
#define TID_OFFSET 720 /* in glibc's struct pthread; arena_init() looks whether it is so */

extern void *__libc_stack_end; /* glibc, ld.so: where the main thread's stack began */

static struct arena {
	uint32_t is_ours; /* 1 from init on; 0 again in a child */
	uint32_t used;	  /* writers from here on were never used */
	uint32_t free_hint;
	uint32_t foreign; /* how many are in use */
	uint32_t deeper_used;
	struct writer writers[WRITERS_MAX];
	struct lanes deeper[DEEPER_MAX];
} * arena;

static pthread_key_t exit_key;
static int has_exit_key;
static int is_tid_in_block;
static char process_comm[16];
static uint64_t ended_hits[COUNTERS_MAX]; /* of threads that are gone */

ON_HIT_PATH int arena_is_ours(void)
{
	return arena && __atomic_load_n(&arena->is_ours, __ATOMIC_RELAXED);
}

ON_HIT_PATH uintptr_t arena_main_stack_end(void)
{
	return (uintptr_t)__libc_stack_end;
}

/*
 * At thread exit, by way of the key's destructor. Signals are held off: a handler that hits a
 * marker in the middle of this would find the lanes half closed.
 */
static void arena_writer_end(struct writer *writer);

static void thread_exit(void *data)
{
	struct writer *writer = data;
	sigset_t all, before;
	struct hit_guard shut;

	hit_guard(&shut);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (writer_self == writer && arena_is_ours() && writer->state == WRITER_LIVE) {
		writer_self = NULL;
		arena_writer_end(writer);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	hit_open(&shut);
}

ON_HIT_PATH static int32_t tid_in_block(void)
{
	return *(const int32_t *)((uintptr_t)__builtin_thread_pointer() + TID_OFFSET);
}

ON_HIT_PATH int32_t arena_own_tid(void)
{
	return is_tid_in_block ? tid_in_block() : 0;
}

int arena_init(void)
{
	struct arena *map;

	map = mmap(NULL, sizeof *map, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return -errno;
	if (madvise(map, sizeof *map, MADV_WIPEONFORK)) {
		int error = -errno;

		munmap(map, sizeof *map);
		return error;
	}
	/* a huge page here would make each thread cost far more than its writer */
	madvise(map, sizeof *map, MADV_NOHUGEPAGE);
	has_exit_key = pthread_key_create(&exit_key, thread_exit) == 0;
	is_tid_in_block = tid_in_block() == (int32_t)syscall_raw(SYS_gettid, 0, 0, 0, 0);
	prctl(PR_GET_NAME, process_comm);
	map->is_ours = 1;
	arena = map;
	return 0;
}

void arena_forked(void)
{
	writer_self = NULL;
	memset(ended_hits, 0, sizeof ended_hits);
	if (arena)
		__atomic_store_n(&arena->is_ours, 1, __ATOMIC_RELAXED);
}

/*
 * The thread's id as glibc keeps it, without a system call: in the thread's block, where it was
 * found to be; else by the owner that a recursive mutex records (<bits/struct_mutex.h>). That is a
 * call which other libraries may intercept: ThreadSanitizer's does not work in a thread that it
 * does not know yet.
 */
static int32_t tid_by_libc(void)
{
	pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

	if (is_tid_in_block)
		return tid_in_block();
	pthread_mutex_trylock(&mutex);
	return mutex.__data.__owner;
}

static struct writer *claim(uint32_t number)
{
	struct writer *writer = &arena->writers[number];
	uint32_t none = WRITER_FREE;

	/* FREE -> CLAIMED; acquire pairs with the release in end_writer() */
	if (__atomic_compare_exchange_n(&writer->state, &none, WRITER_CLAIMED, 0, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return writer;
	return NULL;
}

static struct writer *claim_any(void)
{
	uint32_t used = __atomic_load_n(&arena->used, __ATOMIC_ACQUIRE);
	uint32_t hint = __atomic_load_n(&arena->free_hint, __ATOMIC_RELAXED);
	struct writer *writer;

	/* the hint is one past a writer that ended; take that, or a new one, before searching */
	if (hint && hint <= used) {
		__atomic_store_n(&arena->free_hint, 0, __ATOMIC_RELAXED);
		writer = claim(hint - 1);
		if (writer)
			return writer;
	}
	while (used < WRITERS_MAX) {
		if (!__atomic_compare_exchange_n(&arena->used, &used, used + 1, 0, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE))
			continue;
		writer = claim(used);
		if (writer)
			return writer;
	}
	for (uint32_t i = 0; i < WRITERS_MAX; i++) {
		writer = claim(i);
		if (writer)
			return writer;
	}
	return NULL;
}

struct writer *arena_writer_new(int32_t tid, int foreign)
{
	struct writer *writer = claim_any();
	int32_t libc_tid;

	if (!writer)
		return NULL;
	__atomic_fetch_add(&writer->births, 1, __ATOMIC_RELAXED);
	memset(writer->inside, 0, sizeof writer->inside);
	memset(writer->running_fn, 0, sizeof writer->running_fn);
	memset(&writer->stack, 0, sizeof writer->stack);
	memset(&writer->other_stack, 0, sizeof writer->other_stack);
	libc_tid = tid_by_libc();
	writer->tid = tid ? tid : libc_tid;
	/*
	 * on another thread's thread-local storage, though no code has used the pointer there yet
	 */
	foreign = foreign || writer->tid != libc_tid;
	writer->is_foreign = (uint32_t)foreign;
	writer->name_looks = 0;
	memcpy(writer->comm, process_comm, sizeof writer->comm);
	/*
	 * A key past the first 32 would make libc allocate, which a signal handler must not:
	 * without a destructor, store_sweep() finds that the thread is gone.
	 */
	if (!foreign && has_exit_key && exit_key < 32)
		pthread_setspecific(exit_key, writer);
	if (foreign)
		__atomic_fetch_add(&arena->foreign, 1, __ATOMIC_RELAXED);
	/* CLAIMED -> LIVE */
	__atomic_store_n(&writer->state, WRITER_LIVE, __ATOMIC_RELEASE);
	return writer;
}

ON_HIT_PATH struct writer *arena_writer_of(int32_t tid)
{
	uint32_t used = __atomic_load_n(&arena->used, __ATOMIC_ACQUIRE);

	if (!__atomic_load_n(&arena->foreign, __ATOMIC_RELAXED))
		return NULL;
	for (uint32_t i = 0; i < used; i++) {
		struct writer *writer = &arena->writers[i];

		if (__atomic_load_n(&writer->state, __ATOMIC_ACQUIRE) == WRITER_LIVE &&
		    writer->is_foreign && writer->tid == tid)
			return writer;
	}
	return NULL;
}

ON_HIT_PATH struct lanes *arena_lanes_new(void)
{
	uint32_t used = __atomic_load_n(&arena->deeper_used, __ATOMIC_RELAXED);

	while (used < DEEPER_MAX) {
		if (__atomic_compare_exchange_n(&arena->deeper_used, &used, used + 1, 0,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return &arena->deeper[used];
	}
	return NULL;
}

void writer_ending_take(struct writer *writer)
{
	while (__atomic_exchange_n(&writer->ending, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

void writer_ending_drop(struct writer *writer)
{
	__atomic_store_n(&writer->ending, 0, __ATOMIC_RELEASE);
}

/* LIVE -> FREE, with `ending` held. */
static void end_writer(struct writer *writer)
{
	void (*ends)(struct writer *) = __atomic_load_n(&writer_ends, __ATOMIC_ACQUIRE);

	for (unsigned int session = 0; session < SESSIONS_MAX; session++) {
		lane_end(&writer->lanes.of[session], session);
		/*
		 * the lanes of deeper levels stay with the writer, for the thread that has it next
		 */
		for (int i = 0; i < DEPTH_MAX - 1; i++) {
			if (writer->deeper[i])
				lane_end(&writer->deeper[i]->of[session], session);
		}
	}
	for (int i = 0; i < COUNTERS_MAX; i++) {
		if (writer->hits[i])
			__atomic_fetch_add(&ended_hits[i], writer->hits[i], __ATOMIC_RELAXED);
		writer->hits[i] = 0;
	}
	if (ends)
		ends(writer);
	if (writer->is_foreign)
		__atomic_fetch_sub(&arena->foreign, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < DEPTH_MAX; i++)
		__atomic_store_n(&writer->inside[i], 0, __ATOMIC_RELAXED);
	/* pairs with the acquire in claim() */
	__atomic_store_n(&writer->state, WRITER_FREE, __ATOMIC_RELEASE);
}

/* End all streams of the calling thread's writer and free it. */
static void arena_writer_end(struct writer *writer)
{
	uint32_t number = (uint32_t)(writer - arena->writers);

	writer_ending_take(writer);
	end_writer(writer);
	writer_ending_drop(writer);
	__atomic_store_n(&arena->free_hint, number + 1, __ATOMIC_RELAXED);
}

void arena_writer_end_dead(struct writer *writer, uint32_t births)
{
	writer_ending_take(writer);
	/* the same birth and still live: it is the dead thread's, who will not end it any more */
	if (__atomic_load_n(&writer->state, __ATOMIC_ACQUIRE) == WRITER_LIVE &&
	    __atomic_load_n(&writer->births, __ATOMIC_RELAXED) == births)
		end_writer(writer);
	writer_ending_drop(writer);
}

struct count {
	uint32_t number;
	uint64_t hits;
};

static void count_hits(struct writer *writer, void *data)
{
	struct count *count = data;

	count->hits += __atomic_load_n(&writer->hits[count->number], __ATOMIC_RELAXED);
}

uint64_t arena_hits(uint32_t number)
{
	struct count count = { .number = number };

	if (number >= COUNTERS_MAX)
		return UINT64_MAX;
	count.hits = __atomic_load_n(&ended_hits[number], __ATOMIC_RELAXED);
	arena_each(count_hits, &count);
	return count.hits;
}

void arena_each(void (*visit)(struct writer *writer, void *data), void *data)
{
	uint32_t used;

	if (!arena)
		return;
	used = __atomic_load_n(&arena->used, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < used && i < WRITERS_MAX; i++) {
		struct writer *writer = &arena->writers[i];

		if (__atomic_load_n(&writer->state, __ATOMIC_ACQUIRE) == WRITER_LIVE)
			visit(writer, data);
	}
}
