/* SPDX-License-Identifier: MIT */
#include "base/mapped.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/log.h"
#include "inside/engine/map.h"
#include "inside/engine/pages.h"
#include "inside/engine/ranges.h"

#include <linux/limits.h>
#include <sys/mman.h>

#define HIDDEN_MAX 1024u
#define LEFT_ENOUGH 4096u

struct range {
	uint64_t start, end;
	uint32_t flags; /* RANGE_* */
};

/* In order, none empty, none over another. */
static struct range *ranges;
static uint32_t range_count, range_room;
static uint32_t last; /* where the last one was found */

static uint32_t were_writable;

static struct range hidden[HIDDEN_MAX];
static uint32_t hidden_count;

/* ---- the list ---- */

static int is_writable(uint32_t flags)
{
	return (flags & (RANGE_WRITABLE | RANGE_SHARED)) == RANGE_WRITABLE;
}

/* Room for two more. */
static int is_roomy(void)
{
	uint32_t room = range_room ? 2 * range_room : 1024;
	struct range *more;

	if (range_count + 2 <= range_room)
		return 1;
	more = memory_map_alone(0, room * sizeof(*more), PROT_READ | PROT_WRITE);
	if (!more)
		return 0;
	for (uint32_t i = 0; i < range_count; i++)
		more[i] = ranges[i];
	if (ranges)
		memory_unmap(ranges, range_room * sizeof(*ranges));
	ranges = more;
	range_room = room;
	return 1;
}

/* The first that ends behind an address. */
static uint32_t first_behind(uint64_t address)
{
	uint32_t low = 0, high = range_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void insert(uint32_t at, struct range range)
{
	for (uint32_t i = range_count++; i > at; i--)
		ranges[i] = ranges[i - 1];
	ranges[at] = range;
}

static void take_out(uint32_t at, uint32_t count)
{
	range_count -= count;
	for (uint32_t i = at; i < range_count; i++)
		ranges[i] = ranges[i + count];
}

int ranges_drop(uint64_t start, uint64_t bytes)
{
	uint64_t end = start + bytes;
	uint32_t at = first_behind(start), to;
	int found = at < range_count && ranges[at].start < end;

	if (found && ranges[at].start < start) {
		struct range behind = ranges[at];

		ranges[at++].end = start;
		behind.start = end;
		if (behind.end > end) {
			if (is_roomy()) /* else it is forgotten, and looked for again */
				insert(at, behind);
			return 1;
		}
	}
	for (to = at; to < range_count && ranges[to].end <= end; to++)
		;
	take_out(at, to - at);
	if (at < range_count && ranges[at].start < end)
		ranges[at].start = end;
	return found;
}

/* Some traces guess where branches lead by the low half, too: those have that code in them. */
static void claim(uint64_t start, uint64_t bytes)
{
	for (uint64_t pc = start & ~UINT64_C(4095); pc < start + bytes; pc += 4096) {
		uint64_t other = map_claim(pc);

		if (other)
			pages_kill(other, 4096);
	}
}

void ranges_add(uint64_t start, uint64_t bytes, uint32_t flags)
{
	struct range range = { start, start + bytes, flags };
	uint32_t at;

	if (is_writable(flags))
		__atomic_store_n(&were_writable, 1, __ATOMIC_RELAXED);
	ranges_drop(start, bytes);
	claim(start, bytes);
	at = first_behind(start);
	if (at && ranges[at - 1].end == start && ranges[at - 1].flags == flags)
		ranges[at - 1].end = range.end;
	else if (is_roomy())
		insert(at, range);
}

/* ---- all of them ---- */

static int is_hidden(uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < hidden_count; i++)
		if (start < hidden[i].end && end > hidden[i].start)
			return 1;
	return 0;
}

static char path[PATH_MAX];
static int is_read; /* from here on, calls show what begins */

/* What we guard is the program's to write, though the kernel says otherwise. */
static void add_read(const struct range *range)
{
	uint32_t flags = range->flags;
	uint64_t from = range->start;
	int is_ours = 0;

	if (pages_guarded() && !(flags & (RANGE_WRITABLE | RANGE_SHARED)))
		for (uint64_t page = range->start; page < range->end; page += 4096) {
			if (pages_is_guarded(page) == is_ours)
				continue;
			if (page > from)
				ranges_add(from, page - from,
					   flags | (is_ours ? RANGE_WRITABLE : 0));
			from = page;
			is_ours = !is_ours;
		}
	ranges_add(from, range->end - from, flags | (is_ours ? RANGE_WRITABLE : 0));
}

/*
 * Files of private code, by their inodes (a file system may have several devices), and those that
 * are written in another way: code of these changes without a trace.
 */
#define FILES_MAX 512u
#define WRITTEN_MAX 64u

static uint64_t files[FILES_MAX], written[WRITTEN_MAX];
static uint32_t file_count, written_count;
static int is_newly_written;

static int has_inode(const uint64_t *list, uint32_t count, uint64_t inode)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i] == inode)
			return 1;
	return 0;
}

static int is_written(uint64_t inode)
{
	return has_inode(written, written_count < WRITTEN_MAX ? written_count : WRITTEN_MAX, inode);
}

int ranges_have_file(uint64_t inode)
{
	return has_inode(files, __atomic_load_n(&file_count, __ATOMIC_RELAXED), inode);
}

static void written_add(uint64_t inode)
{
	if (is_written(inode))
		return;
	written[written_count++ % WRITTEN_MAX] = inode;
	is_newly_written |= ranges_have_file(inode);
}

static void file_add(uint64_t inode)
{
	if (file_count < FILES_MAX && !ranges_have_file(inode)) {
		files[file_count] = inode;
		__atomic_store_n(&file_count, file_count + 1, __ATOMIC_RELAXED);
	}
}

static uint64_t wanted; /* why all are read again */
static int is_unreadable;

static int begins(const char *text, const char *with)
{
	while (*with && *text == *with) {
		text++;
		with++;
	}
	return !*with;
}

/* The kernel writes where entries of these say, now or later, and no call shows where. */
static int is_ring(void)
{
	return begins(path, "/[aio]") || begins(path, "anon_inode:[io_uring]");
}

static int is_forgotten; /* what was made of code that is written in another way now */

static void line_take(const struct mapped *line)
{
	struct range range = { .start = line->start, .end = line->end };

	if (!is_read && is_ring())
		pages_share(1);
	if (line->inode && line->flags & MAPPED_SHARED && line->flags & MAPPED_WRITABLE)
		written_add(line->inode);
	if (!(line->flags & MAPPED_CODE) || is_hidden(range.start, range.end))
		return;
	if (begins(path, "[uprobes")) { /* code of the kernel's, which runs natively */
		ranges_hide(range.start, range.end - range.start);
		return;
	}
	if (!(line->flags & MAPPED_READABLE)) {
		is_unreadable |= wanted >= range.start && wanted < range.end;
		return;
	}
	range.flags = (line->flags & MAPPED_WRITABLE ? RANGE_WRITABLE : 0) |
		      (line->flags & MAPPED_SHARED ? RANGE_SHARED : 0) |
		      (path[0] == '/' ? RANGE_FILE : 0);
	if (line->inode && !(line->flags & MAPPED_SHARED)) {
		file_add(line->inode);
		if (is_written(line->inode) || begins(path, "/memfd:"))
			range.flags |= RANGE_SHARED;
	}
	if (is_forgotten && range.flags & RANGE_SHARED)
		pages_forget(range.start, range.end - range.start);
	add_read(&range);
	log_module(line, range.start, range.end, path);
}

static int lines_read(void)
{
	static struct mapped mapped;
	int err = mapped_open(&mapped);

	if (err)
		return err;
	range_count = last = file_count = 0;
	while (mapped_next(&mapped, path, sizeof(path)))
		line_take(&mapped);
	mapped_close(&mapped);
	is_read = 1;
	return 0;
}

int ranges_read(void)
{
	int err = lines_read();

	if (!is_newly_written)
		return err;
	is_newly_written = 0;
	is_forgotten = 1;
	err = lines_read();
	is_forgotten = 0;
	return err;
}

void ranges_file_written(uint64_t inode)
{
	written_add(inode);
	if (is_newly_written)
		ranges_read();
}

/* ---- looks ---- */

static int is_in(uint32_t at, uint64_t pc)
{
	return at < range_count && pc >= ranges[at].start && pc < ranges[at].end;
}

static uint64_t left_now(uint64_t pc)
{
	uint64_t end;

	if (!is_in(last, pc))
		last = first_behind(pc);
	if (!is_in(last, pc))
		return 0;
	end = ranges[last].end;
	/* an instruction may extend into the next */
	for (uint32_t i = last + 1;
	     i < range_count && end - pc < LEFT_ENOUGH && ranges[i].start == end; i++)
		end = ranges[i].end;
	return end - pc;
}

uint64_t ranges_left(uint64_t pc)
{
	uint64_t left = left_now(pc);

	wanted = pc;
	is_unreadable = 0;
	if (left || is_hidden(pc, pc + 1) || ranges_read())
		return left;
	return left_now(pc);
}

int ranges_are_unreadable(void)
{
	return is_unreadable;
}

uint32_t ranges_flags(uint64_t pc)
{
	return left_now(pc) ? ranges[last].flags : 0;
}

int ranges_are_writable(void)
{
	return (int)__atomic_load_n(&were_writable, __ATOMIC_RELAXED);
}

int ranges_meet_writable(uint64_t start, uint64_t bytes)
{
	for (uint32_t i = first_behind(start); i < range_count && ranges[i].start < start + bytes;
	     i++)
		if (is_writable(ranges[i].flags))
			return 1;
	return 0;
}

int ranges_are_private(uint64_t start, uint64_t bytes)
{
	uint64_t at = start;

	for (uint32_t i = first_behind(start); i < range_count && at < start + bytes; i++) {
		if (ranges[i].start > at || ranges[i].flags & RANGE_SHARED)
			return 0;
		at = ranges[i].end;
	}
	return at >= start + bytes;
}

void ranges_hide(uint64_t start, uint64_t bytes)
{
	if (hidden_count < HIDDEN_MAX)
		hidden[hidden_count++] = (struct range){ start, start + bytes, 0 };
}

void ranges_show(uint64_t start)
{
	for (uint32_t i = 0; i < hidden_count; i++)
		if (hidden[i].start == start)
			hidden[i--] = hidden[--hidden_count];
}
