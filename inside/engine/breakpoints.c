/* SPDX-License-Identifier: MIT */
#include "base/mapped.h"
#include "inside/engine/breakpoints.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/sys.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/mman.h>

#define INT3 0xcc
#define CALL 0xe8
#define NOP 0x0f /* the first byte of what such a call replaces */
#define CALL_BYTES 5u
#define PAGE 4096u

#define BREAKPOINTS_MAX 4096u
#define LOOK_TICKS (UINT64_C(1) << 28)	/* a tenth of a second or so */
#define LOOK_TICKS_MAX (4 * LOOK_TICKS) /* if looks took more than one in LOOK_SHARE ticks */
#define LOOK_SHARE 128u
#define KEPT_TICKS (UINT64_C(1) << 32)

struct breakpoint {
	uint64_t pc;
	uint64_t seen; /* ticks, when it was there last */
	uint8_t is_traced, is_news;
	uint8_t code[CALL_BYTES]; /* as the file has it: an int3 may become a call */
};

static struct breakpoint *all;
static uint32_t count;
static uint64_t look_at; /* ticks */

/* ---- the file ---- */

/* The page as its file has it. How many bytes; 0: it can't be read. */
static uint32_t file_read(uint8_t *built, uint64_t page)
{
	static struct mapped mapped;
	static char path[PATH_MAX];
	long fd, got;

	if (mapped_open(&mapped))
		return 0;
	do
		path[0] = '\0';
	while (mapped_next(&mapped, path, sizeof(path)) && mapped.end <= page);
	mapped_close(&mapped);
	if (path[0] != '/' || mapped.start > page)
		return 0;
	fd = sys_call3(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (sys_failed(fd))
		return 0;
	got = sys_call(SYS_pread64, fd, (long)built, PAGE,
		       (long)(mapped.offset + page - mapped.start), 0, 0);
	sys_call3(SYS_close, fd, 0, 0);
	return got > 0 ? (uint32_t)got : 0;
}

/* How many bytes a breakpoint replaces there; 0: it is no breakpoint. */
static uint32_t replaced(const uint8_t *now, const uint8_t *built)
{
	if (*now == *built)
		return 0;
	return *now == INT3 ? 1 : *now == CALL && *built == NOP ? CALL_BYTES : 0;
}

/* Whether the page differs from its file by breakpoints alone. */
static int is_built(const uint8_t *now, const uint8_t *built, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes;) {
		uint32_t more = now[i] == built[i] ? 1 : replaced(now + i, built + i);

		if (!more)
			return 0;
		i += more;
	}
	return 1;
}

/* Whether another process traces this thread: it takes our SIGTRAP for its own. */
static int is_traced(void)
{
	static const char name[] = "TracerPid:\t";
	char text[1024];
	long fd = sys_call(SYS_openat, AT_FDCWD, (long)"/proc/thread-self/status",
			   O_RDONLY | O_CLOEXEC, 0, 0, 0);
	long bytes = sys_failed(fd) ? 0 : sys_call3(SYS_read, fd, (long)text, sizeof(text));
	uint32_t same = 0;

	if (!sys_failed(fd))
		sys_call3(SYS_close, fd, 0, 0);
	for (long i = 0; i < bytes; i++) {
		if (!name[same])
			return text[i] != '0';
		same = text[i] == name[same] ? same + 1 : text[i] == name[0];
	}
	return 0;
}

/* ---- the list ---- */

static struct breakpoint *at(uint64_t pc)
{
	for (uint32_t i = 0; i < count; i++)
		if (all[i].pc == pc)
			return &all[i];
	return NULL;
}

/* Those of a page. 0; or -1: there are too many. */
static int add_all(uint64_t page, const uint8_t *now, const uint8_t *built, uint32_t bytes)
{
	uint8_t traced = (uint8_t)is_traced();

	if (!all)
		all = memory_map(0, BREAKPOINTS_MAX * sizeof(*all), PROT_READ | PROT_WRITE);
	for (uint32_t i = 0; i < bytes; i++) {
		uint32_t some = replaced(now + i, built + i);

		if (!some || at(page + i))
			continue;
		if (!all || count == BREAKPOINTS_MAX)
			return -1;
		all[count] = (struct breakpoint){
			.pc = page + i, .seen = sys_ticks(), .is_traced = traced, .is_news = traced
		};
		memory_copy(all[count++].code, built + i, CALL_BYTES);
		i += some - 1;
	}
	return 0;
}

enum breakpoint_kind breakpoints_at(uint64_t pc)
{
	const struct breakpoint *found = at(pc);

	if (!found)
		return BREAKPOINT_NONE;
	return found->is_traced ? BREAKPOINT_TRACED : BREAKPOINT_HERE;
}

enum breakpoint_kind breakpoints_find(uint64_t pc, const uint8_t *now)
{
	static uint8_t built[PAGE + CALL_BYTES];
	uint64_t page = pc & ~UINT64_C(4095);
	uint32_t bytes = file_read(built, page);

	if (pc - page >= bytes)
		return BREAKPOINT_UNKNOWN;
	if (now[pc - page] == built[pc - page])
		return BREAKPOINT_NONE;
	if (!is_built(now, built, bytes) || add_all(page, now, built, bytes) || !at(pc))
		return BREAKPOINT_UNKNOWN;
	return BREAKPOINT_NEW;
}

int breakpoints_news(uint64_t pc)
{
	struct breakpoint *found = count ? at(pc) : NULL;
	int is_news = found && found->is_news;

	if (is_news)
		found->is_news = 0;
	return is_news;
}

void breakpoints_undo(uint8_t *bytes, uint64_t page)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = all[i].pc - page;

		if (offset < PAGE)
			memory_copy(bytes + offset, all[i].code,
				    PAGE - offset < CALL_BYTES ? PAGE - offset : CALL_BYTES);
	}
}

void breakpoints_seen(const uint8_t *bytes, uint64_t page, uint64_t ticks)
{
	for (uint32_t i = 0; i < count; i++)
		if (all[i].pc - page < PAGE && bytes[all[i].pc - page] != all[i].code[0])
			all[i].seen = ticks;
}

void breakpoints_forget(uint64_t start, uint64_t bytes)
{
	for (uint32_t i = 0; i < count; i++)
		if (all[i].pc - start < bytes)
			all[i--] = all[--count];
}

/* ---- looks ---- */

int breakpoints_look_begin(uint64_t ticks)
{
	uint64_t due = __atomic_load_n(&look_at, __ATOMIC_RELAXED);

	return ticks >= due && __atomic_compare_exchange_n(&look_at, &due, ticks + LOOK_TICKS_MAX,
							   0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

uint64_t breakpoints_drop_old(uint64_t ticks)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t pc = all[i].pc;

		if (ticks - all[i].seen < KEPT_TICKS)
			continue;
		all[i] = all[--count];
		return pc;
	}
	return 0;
}

void breakpoints_look_end(uint64_t ticks)
{
	uint64_t wait = (sys_ticks() - ticks) * LOOK_SHARE;

	if (wait < LOOK_TICKS)
		wait = LOOK_TICKS;
	if (wait > LOOK_TICKS_MAX)
		wait = LOOK_TICKS_MAX;
	__atomic_store_n(&look_at, ticks + wait, __ATOMIC_RELAXED);
}
