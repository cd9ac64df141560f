/* SPDX-License-Identifier: MIT */
#include "abi/engine.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/places.h"
#include "inside/engine/sys.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>

#define CHUNK_BYTES (1u << 20)
#define REGION_TRIES 16
#define READY_BYTES (UINT64_C(16) << 10)
#define POPULATE_WRITE 23 /* MADV_POPULATE_WRITE, of Linux 5.14 */
#define HUGE_BYTES (UINT64_C(2) << 20)

static uint8_t *chunk, *chunk_ready;
static void *chunks; /* each begins with the one before */
static size_t chunk_left;
static int is_copied;	/* by fork(2): all */
static uint64_t region; /* where the next mapping is tried */
static int is_far;	/* the region is one for programs with a sanitizer */

uint64_t memory_random(void)
{
	uint64_t random = 0;

	if (sys_call3(SYS_getrandom, (long)&random, sizeof(random), GRND_NONBLOCK) !=
	    sizeof(random))
		random = sys_ticks() * UINT64_C(0x9e3779b97f4a7c15);
	return random;
}

static void region_choose(void)
{
	uint64_t at = engine_place(memory_random(), is_far) / HUGE_BYTES * HUGE_BYTES;

	__atomic_store_n(&region, at, __ATOMIC_RELAXED);
}

void memory_open(int far)
{
	is_far = far;
	region_choose();
}

static long map(uint64_t at, size_t bytes, int protection)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	long got = sys_call(SYS_mmap, (long)at, (long)bytes, protection,
			    at ? flags | MAP_FIXED_NOREPLACE : flags, -1, 0);

	if (!sys_failed(got) && at &&
	    (uint64_t)got != at) { /* a kernel before 4.17 takes it as a hint */
		sys_call3(SYS_munmap, got, (long)bytes, 0);
		got = -EEXIST;
	}
	return got;
}

/* In the region, behind what was mapped last. */
static long map_in_region(size_t bytes, int protection)
{
	uint64_t align = bytes < HUGE_BYTES ? 4096 : HUGE_BYTES, at, next;

	at = __atomic_load_n(&region, __ATOMIC_RELAXED);
	do
		next = (at + align - 1) / align * align + (bytes + 4095) / 4096 * 4096;
	while (!__atomic_compare_exchange_n(&region, &at, next, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
	return map((at + align - 1) / align * align, bytes, protection);
}

/*
 * The program or the channel may have these addresses: then another region is chosen. The kernel
 * would place the mapping beside the program's own, where a stack of it may grow.
 */
static long map_anywhere(size_t bytes, int protection)
{
	long got = -EEXIST;

	for (int tries = 0; tries < REGION_TRIES && got == -EEXIST; tries++) {
		if (tries)
			region_choose();
		got = map_in_region(bytes, protection);
	}
	return sys_failed(got) ? map(0, bytes, protection) : got;
}

static int code_error;

int memory_code_error(void)
{
	return __atomic_load_n(&code_error, __ATOMIC_RELAXED);
}

void *memory_map(uint64_t at, size_t bytes, int protection)
{
	long got;

	got = at ? map(at, bytes, protection) : map_anywhere(bytes, protection);
	if (protection & PROT_EXEC && got != -EEXIST)
		__atomic_store_n(&code_error, sys_failed(got) ? (int)got : 0, __ATOMIC_RELAXED);
	if (sys_failed(got))
		return NULL;
	places_add((uint64_t)got, bytes);
	/* a core is the program's */
	sys_call3(SYS_madvise, got, (long)bytes, MADV_DONTDUMP);
	return (void *)got;
}

void memory_unmap(void *at, size_t bytes)
{
	places_drop((uint64_t)at); /* before: others may have the addresses at once */
	sys_call3(SYS_munmap, (long)at, (long)bytes, 0);
}

void *memory_map_alone(uint64_t at, size_t bytes, int protection)
{
	void *got = memory_map(at, bytes, protection);

	if (got && !is_copied)
		sys_call3(SYS_madvise, (long)got, (long)bytes, MADV_DONTFORK);
	return got;
}

void memory_own(void *at, size_t bytes, int copied)
{
	is_copied = copied;
	memory_spare(at, bytes);
}

void memory_spare(void *at, size_t bytes)
{
	sys_call3(SYS_madvise, (long)at, (long)bytes, MADV_DONTDUMP);
	sys_call3(SYS_madvise, (long)at, (long)bytes, MADV_DONTFORK);
}

int memory_write(void *at, size_t bytes)
{
	return (int)sys_call3(SYS_mprotect, (long)at, (long)bytes, PROT_READ | PROT_WRITE);
}

/* mprotect(2) would leave them several mappings. */
int memory_renew(void *at, size_t bytes)
{
	long got = sys_call(SYS_mmap, (long)at, (long)bytes, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	if (sys_failed(got)) { /* the program has as many mappings as it may have */
		sys_call3(SYS_madvise, (long)at, (long)bytes, MADV_DONTNEED);
		return (int)got;
	}
	sys_call3(SYS_madvise, (long)at, (long)bytes, MADV_DONTDUMP);
	if (!is_copied)
		sys_call3(SYS_madvise, (long)at, (long)bytes, MADV_DONTFORK);
	return 0;
}

void memory_ready(uint8_t **ready, const void *up_to)
{
	while ((uint64_t)*ready < (uint64_t)up_to) {
		uint64_t from = (uint64_t)*ready & ~UINT64_C(4095);
		uint64_t to = (from + READY_BYTES) & ~(READY_BYTES - 1);

		sys_call3(SYS_madvise, (long)from, (long)(to - from), POPULATE_WRITE);
		*ready = (uint8_t *)to;
	}
}

void *memory_get(size_t bytes)
{
	void *got;

	bytes = (bytes + 7) & ~(size_t)7;
	if (bytes > CHUNK_BYTES / 4)
		return NULL;
	if (bytes > chunk_left) {
		chunk = memory_map_alone(0, CHUNK_BYTES, PROT_READ | PROT_WRITE);
		chunk_left = 0;
		if (!chunk)
			return NULL;
		chunk_ready = chunk;
		chunk_left = CHUNK_BYTES - sizeof(chunks);
		*(void **)chunk = chunks;
		chunks = chunk;
		chunk += sizeof(chunks);
	}
	got = chunk;
	chunk += bytes;
	memory_ready(&chunk_ready, chunk);
	chunk_left -= bytes;
	return got;
}

void *memory_turn(void)
{
	void *was = chunks;

	chunks = NULL;
	chunk_left = 0;
	return was;
}

void memory_drop(void *was)
{
	while (was) {
		void *before = *(void **)was;

		memory_unmap(was, CHUNK_BYTES);
		was = before;
	}
}

/* What the compiler makes of assignments. */
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *at, int value, size_t bytes);

void *memcpy(void *to, const void *from, size_t bytes)
{
	memory_copy(to, from, bytes);
	return to;
}

void *memset(void *at, int value, size_t bytes)
{
	void *was = at;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
	return was;
}
