/* SPDX-License-Identifier: MIT */
#include "inside/unwind/boundary.h"

#include "arch/access_decode.h"
#include "arch/insn.h"
#include "base/cfi.h"
#include "inside/marker/careful.h"

#define SWEEP_MAX (128u << 10) /* some ms */
#define REMEMBERED 2048u
#define TRIES 8u
#define LENGTH_BITS 8
#define LENGTH 0x0fu
#define IS_START 0x80u
#define PAGE_BYTES 4096u

struct code {
	uintptr_t start, end, table;
};

/* Sorted; changed while `changes` is odd. */
static struct code codes[BOUNDARY_MODULES_MAX];
static uint32_t code_count, changes;

/*
 * By address: a length, whether a function begins there, and a hash of that many bytes before it.
 * An entry that is replaced while it is read does not fit the bytes. All are forgotten when a
 * module goes: then it is no longer known whether what they describe is mapped.
 */
static struct remembered {
	uint64_t end, what;
} remembered[REMEMBERED];

/* ---- modules ---- */

static void begin_change(void)
{
	__atomic_store_n(&changes, changes + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* pairs with find()'s acquire */
}

static void end_change(uint32_t count)
{
	__atomic_store_n(&code_count, count, __ATOMIC_RELAXED);
	__atomic_store_n(&changes, changes + 1, __ATOMIC_RELEASE);
}

void boundary_add(uintptr_t start, uintptr_t end, uintptr_t table)
{
	uint32_t at = code_count;

	if (code_count == BOUNDARY_MODULES_MAX)
		return;
	begin_change();
	for (; at && codes[at - 1].start > start; at--)
		codes[at] = codes[at - 1];
	codes[at] = (struct code){ start, end, table };
	end_change(code_count + 1);
}

void boundary_remove(uintptr_t start)
{
	uint32_t at = 0;

	while (at < code_count && codes[at].start != start)
		at++;
	if (at == code_count)
		return;
	begin_change();
	for (; at + 1 < code_count; at++)
		codes[at] = codes[at + 1];
	end_change(code_count - 1);
	for (unsigned int i = 0; i < REMEMBERED; i++)
		__atomic_store_n(&remembered[i].end, 0, __ATOMIC_RELAXED);
}

/* The one that an address is in; 0, -1: none, or it changes. */
static int find(uintptr_t address, struct code *code)
{
	uint32_t before = __atomic_load_n(&changes, __ATOMIC_ACQUIRE), low = 0;
	uint32_t high = __atomic_load_n(&code_count, __ATOMIC_RELAXED);

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (__atomic_load_n(&codes[middle].end, __ATOMIC_RELAXED) < address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == BOUNDARY_MODULES_MAX)
		return -1;
	code->start = __atomic_load_n(&codes[low].start, __ATOMIC_RELAXED);
	code->end = __atomic_load_n(&codes[low].end, __ATOMIC_RELAXED);
	code->table = __atomic_load_n(&codes[low].table, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (before & 1 || __atomic_load_n(&changes, __ATOMIC_RELAXED) != before ||
	    low >= __atomic_load_n(&code_count, __ATOMIC_RELAXED))
		return -1;
	return address > code->start && address <= code->end ? 0 : -1;
}

int boundary_is_code(uintptr_t address)
{
	struct code code;

	return !find(address, &code);
}

uintptr_t boundary_table(uintptr_t address)
{
	struct code code;

	return find(address + 1, &code) ? 0 : code.table;
}

uint32_t boundary_epoch(void)
{
	return __atomic_load_n(&changes, __ATOMIC_ACQUIRE);
}

/* ---- where a function begins ---- */

static int table_read(void *data, uint64_t address, void *to, size_t bytes)
{
	(void)data;
	return careful_read(to, address, bytes);
}

/* The last function of the table that begins before `end`: 0, and *start; -1. */
static int function_of(const struct code *code, uintptr_t end, uintptr_t *start)
{
	static const struct cfi_reader reader = { .read = table_read };

	return cfi_start(&reader, code->table, end - 1, start) || *start < code->start ||
			       end - *start > SWEEP_MAX
		       ? -1
		       : 0;
}

static int code_read(void *data, void *to, uint64_t from, size_t bytes)
{
	(void)data;
	return careful_read(to, from, bytes);
}

/* ---- remembering ---- */

static uint64_t hash_of(const uint8_t *code, unsigned int bytes)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (unsigned int i = 0; i < bytes; i++)
		hash = (hash ^ code[i]) * 0x100000001b3u;
	return hash & ~((UINT64_C(1) << LENGTH_BITS) - 1);
}

static struct remembered *place_of(uintptr_t end, unsigned int try)
{
	return &remembered[((end * UINT64_C(0x9e3779b97f4a7c15) >> 48) + try) % REMEMBERED];
}

/*
 * Whether so many bytes before `end` are as they were. The page before may be gone, and another's
 * code be here.
 */
static int is_as_it_was(uintptr_t end, unsigned int bytes, uint64_t hash)
{
	uint8_t code[INSN_BYTES_MAX];
	const uint8_t *from = (const uint8_t *)end - bytes;

	if (end % PAGE_BYTES < bytes) {
		if (careful_read(code, end - bytes, bytes))
			return 0;
		from = code;
	}
	return hash_of(from, bytes) == hash;
}

/* The length, or 0: not remembered. */
static unsigned int recall(uintptr_t end, int *is_start)
{
	for (unsigned int try = 0; try < TRIES; try++) {
		struct remembered *place = place_of(end, try);
		uint64_t what;
		unsigned int bytes;

		if (__atomic_load_n(&place->end, __ATOMIC_ACQUIRE) != end)
			continue;
		what = __atomic_load_n(&place->what, __ATOMIC_RELAXED);
		bytes = what & LENGTH;
		*is_start = (what & IS_START) != 0;
		if (bytes && is_as_it_was(end, bytes, what & ~UINT64_C(0xff)))
			return bytes;
	}
	return 0;
}

static void remember(uintptr_t end, unsigned int bytes, int is_start)
{
	struct remembered *place = place_of(end, 0);
	uint64_t what = hash_of((const uint8_t *)end - bytes, bytes) | bytes;

	for (unsigned int try = 0; try < TRIES; try++) {
		struct remembered *other = place_of(end, try);
		uint64_t there = __atomic_load_n(&other->end, __ATOMIC_RELAXED);

		if (!there || there == end) {
			place = other;
			break;
		}
	}
	__atomic_store_n(&place->end, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&place->what, what | (is_start ? IS_START : 0), __ATOMIC_RELEASE);
	__atomic_store_n(&place->end, end, __ATOMIC_RELEASE);
}

unsigned int boundary_before(uintptr_t end, int *is_start)
{
	unsigned int bytes = recall(end, is_start);
	uintptr_t start;
	struct code code;

	if (bytes)
		return bytes;
	*is_start = 0;
	if (find(end, &code))
		return 0; /* another time it may be known */
	*is_start = !function_of(&code, end + 1, &start) && start == end;
	if (function_of(&code, end, &start))
		return 0;
	bytes = access_decode_sweep(start, end, code_read, NULL);
	if (bytes)
		remember(end, bytes, *is_start);
	return bytes;
}
