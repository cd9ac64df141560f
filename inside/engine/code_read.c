/* SPDX-License-Identifier: MIT */
#include "inside/engine/breakpoints.h"
#include "inside/engine/code_read.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/pages.h"
#include "inside/engine/processor.h"
#include "inside/engine/sys.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#define PAGE 4096u
#define SETS 64u
#define WAYS 4u
#define READS_MAX 64u /* of one translation: then it ends at what is not at hand */

/* A page's copy, or the promise of one. */
struct copy {
	uint64_t number; /* of the page; 0: free */
	uint64_t ticket; /* of who reads it */
	uint32_t is_ready;
};

uint32_t dispatch_lock;

static struct copy copies[SETS][WAYS];
static uint8_t next_way[SETS];
static uint8_t *bytes_of_all;
static uint64_t tickets;
static int is_waiting;

static uint32_t set_index(uint64_t number)
{
	return (uint32_t)((number ^ number >> 6) % SETS);
}

static struct copy *find(uint64_t number)
{
	struct copy *set = copies[set_index(number)];

	for (uint32_t way = 0; way < WAYS; way++)
		if (set[way].number == number)
			return &set[way];
	return NULL;
}

static uint8_t *bytes_in(const struct copy *copy)
{
	return bytes_of_all + (uint64_t)(copy - copies[0]) * PAGE;
}

/* The oldest of its set gives way. */
static struct copy *promise(uint64_t number)
{
	struct copy *copy = find(number);

	if (!bytes_of_all)
		bytes_of_all = memory_map_alone(0, (uint64_t)SETS * WAYS * PAGE,
						PROT_READ | PROT_WRITE);
	if (!bytes_of_all)
		return NULL;
	if (copy) /* another thread reads it too; the first one that is done fills it */
		return copy;
	copy = &copies[set_index(number)][next_way[set_index(number)]++ % WAYS];
	*copy = (struct copy){ .number = number, .ticket = ++tickets };
	return copy;
}

void code_read_begin(struct code_read *read, code_reader *reader)
{
	read->reader = reader;
	read->bytes = read->reads = read->copied = 0;
	read->failed = 0;
}

int code_read_is_resident(uint64_t number)
{
	uint8_t is_in = 0;

	return !is_waiting && !sys_call3(SYS_mincore, (long)(number * PAGE), PAGE, (long)&is_in) &&
	       is_in & 1;
}

static void want(struct code_read *read, uint64_t at, uint32_t bytes, int is_once)
{
	if (read->bytes || read->failed == at / PAGE)
		return;
	read->at = at;
	read->bytes = bytes;
	read->is_once = is_once & 1;
}

const uint8_t *code_read_at(struct code_read *read, uint64_t at, uint64_t *bytes, enum code_use use)
{
	uint64_t number = at / PAGE, rest = PAGE - at % PAGE;
	const struct copy *copy = find(number);

	if (*bytes > rest)
		*bytes = rest;
	if (copy && copy->is_ready)
		return bytes_in(copy) + at % PAGE;
	if (use == CODE_RUNS ||
	    (use == CODE_AHEAD && read->reads < READS_MAX && code_read_is_resident(number)))
		want(read, number * PAGE, PAGE, 0);
	return NULL;
}

void code_read_bytes(struct code_read *read, uint8_t *to, uint64_t at, uint64_t bytes)
{
	while (bytes) {
		uint64_t some = bytes;
		const uint8_t *from = code_read_at(read, at, &some, CODE_KNOWN);

		if (from)
			memory_copy(to, from, some);
		to += some;
		at += some;
		bytes -= some;
	}
}

const uint8_t *code_read_once(struct code_read *read, uint64_t at, uint64_t left, uint64_t least)
{
	uint64_t rest = PAGE - at % PAGE;

	if (left > CODE_ONCE_MAX)
		left = CODE_ONCE_MAX;
	if (rest < left)
		left = rest > least ? rest : least;
	if (read->copied && read->copied_at == at && read->copied >= least)
		return read->copy;
	want(read, at, (uint32_t)left, 1);
	return NULL;
}

/* One that continues on the next page. */
static int insn_across(struct code_read *read, struct insn *insn, uint64_t at, uint64_t left,
		       enum code_use use, struct code_bytes *bytes)
{
	uint64_t first = INSN_BYTES_MAX, second = INSN_BYTES_MAX;
	const uint8_t *from = code_read_at(read, at, &first, use), *on;

	second = left - first < second ? left - first : second;
	on = from ? code_read_at(read, at + first, &second, use) : NULL;
	if (!on)
		return read->bytes ? -EAGAIN : -EFAULT;
	memory_copy(bytes->across, from, first);
	memory_copy(bytes->across + first, on, second);
	bytes->code = bytes->across;
	return insn_decode(insn, bytes->code, first + second, at, processor_is_amd());
}

int code_read_insn(struct code_read *read, struct insn *insn, uint64_t at, uint64_t left,
		   enum code_use use, struct code_bytes *bytes)
{
	uint64_t here = left;

	bytes->code = code_read_at(read, at, &here, use);
	if (!bytes->code)
		return read->bytes ? -EAGAIN : -EFAULT;
	if (!insn_decode(insn, bytes->code, here, at, processor_is_amd()))
		return 0;
	return here == left || here >= INSN_BYTES_MAX
		       ? -EILSEQ
		       : insn_across(read, insn, at, left, use, bytes);
}

/* Its bytes are in read->copy now. Another thread may have changed the page meanwhile. */
static void keep(const struct code_read *read)
{
	struct copy *copy;

	pages_note(read->at / PAGE, read->copy);
	copy = find(read->at / PAGE);
	if (!copy || copy->ticket != read->ticket)
		return;
	memory_copy(bytes_in(copy), read->copy, PAGE);
	breakpoints_undo(bytes_in(copy), read->at);
	copy->is_ready = 1;
}

int code_read_go(struct code_read *read)
{
	struct copy *copy;
	int is_unread;

	if (!read->bytes || !read->reader)
		return 0;
	if (!read->is_once) {
		copy = pages_know(read->at) ? promise(read->at / PAGE) : NULL;
		if (!copy)
			return 0;
		read->ticket = copy->ticket;
	}
	lock_give(&dispatch_lock);
	is_unread = read->reader(read->copy, (const void *)read->at, read->bytes);
	lock_take(&dispatch_lock);
	read->copied = read->is_once && !is_unread ? read->bytes : 0;
	read->copied_at = read->at;
	read->bytes = 0;
	read->reads++;
	read->failed = is_unread ? read->at / PAGE : 0;
	if (!is_unread && !read->is_once)
		keep(read);
	return 1;
}

void code_read_drop(uint64_t page_number)
{
	struct copy *copy = find(page_number);

	if (copy)
		copy->number = 0;
}

void code_read_drop_all(void)
{
	memory_clear(copies, sizeof(copies));
}

void code_read_waits(void)
{
	is_waiting = 1;
}
