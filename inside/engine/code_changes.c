/* SPDX-License-Identifier: MIT */
#include "base/debug_trace.h"
#include "inside/engine/breakpoints.h"
#include "inside/engine/code_changes.h"
#include "inside/engine/code_read.h"
#include "inside/engine/constant.h"
#include "inside/engine/engine_lock.h"
#include "inside/engine/engine_memory.h"
#include "inside/engine/gate.h"
#include "inside/engine/log.h"
#include "inside/engine/map.h"
#include "inside/engine/pages.h"
#include "inside/engine/places.h"
#include "inside/engine/ranges.h"
#include "inside/engine/sys.h"
#include "inside/engine/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/personality.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALL_PAGES (UINT64_C(1) << 47)

static uint64_t whole_pages(uint64_t start, uint64_t bytes)
{
	return ((start & 4095) + bytes + 4095) & ~UINT64_C(4095);
}

/* With READ_IMPLIES_EXEC all that can be read can be run. */
static int is_code(uint64_t protection)
{
	long personality;

	if (!(protection & PROT_READ) || protection & PROT_EXEC)
		return !!(protection & PROT_READ);
	personality = sys_call3(SYS_personality, 0xffffffff, 0, 0);
	return !sys_failed(personality) && personality & READ_IMPLIES_EXEC;
}

static void gone(uint64_t start, uint64_t bytes)
{
	if (ranges_drop(start, bytes))
		map_disclaim(start, bytes);
}

/* The same, and it is not only made non-executable. */
static void unmapped(uint64_t start, uint64_t bytes)
{
	gone(start, bytes);
	if (log_gone(start, bytes))
		ranges_read();
}

/*
 * The caller has removed what was mapped there before. `is_told`: read the mapping from /proc;
 * where that fails, the call's arguments must do.
 */
static void here(uint64_t start, uint64_t bytes, uint64_t protection, uint32_t flags, int is_told)
{
	if (!is_code(protection))
		return;
	ranges_add(start, bytes, flags | (protection & PROT_WRITE ? RANGE_WRITABLE : 0));
	if (is_told)
		ranges_read();
}

/* What brk(2) takes away, if it does. */
static uint64_t brk_less(const uint64_t *gpr)
{
	uint64_t now = (uint64_t)sys_call3(SYS_brk, 0, 0, 0);

	return gpr[7] && gpr[7] < now ? now - gpr[7] : 0;
}

static void forget(uint64_t start, uint64_t bytes)
{
	pages_forget(start, bytes);
	breakpoints_forget(start, bytes);
	constant_drop(start, bytes);
}

/*
 * Where what translated code was made of goes, before it does: the kernel gives its addresses out
 * again at once.
 */
static void before(const uint64_t *gpr)
{
	switch (gpr[0]) {
	case SYS_mmap:
		if (gpr[10] & MAP_FIXED)
			forget(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		forget(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_brk:
		forget(gpr[7], brk_less(gpr));
		return;
	case SYS_madvise:
		pages_open(gpr[7], whole_pages(gpr[7], gpr[6]));
		constant_drop(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_mremap:
		forget(gpr[7], whole_pages(gpr[7], gpr[6]));
		if (gpr[10] & MREMAP_FIXED)
			forget(gpr[8], whole_pages(gpr[8], gpr[2]));
		return;
	default: /* shmat may lie over others, shmdt says not how much goes */
		forget(0, ALL_PAGES);
	}
}

/*
 * Code that the program makes non-executable to write it, and executable again: it is in private
 * memory, as before. Valid until mappings change.
 */
#define PRIVATE_MAX 32u

static struct {
	uint64_t start, end;
} privates[PRIVATE_MAX];
static uint32_t private_next;

static void private_note(uint64_t start, uint64_t bytes)
{
	privates[private_next % PRIVATE_MAX].start = start;
	privates[private_next++ % PRIVATE_MAX].end = start + bytes;
}

static int is_private(uint64_t start, uint64_t bytes)
{
	for (uint32_t i = 0; i < PRIVATE_MAX; i++)
		if (start >= privates[i].start && start + bytes <= privates[i].end)
			return 1;
	return 0;
}

static void protect(const uint64_t *gpr)
{
	uint64_t bytes = whole_pages(gpr[7], gpr[6]);
	int is_known = ranges_are_private(gpr[7], bytes);

	if (is_known && !is_code(gpr[2]))
		private_note(gpr[7], bytes);
	is_known |= is_private(gpr[7], bytes);
	gone(gpr[7], bytes);
	if (gpr[2] == PROT_READ)
		constant_add(gpr[7], bytes);
	/* what was no code before may be a file's, or others may write it elsewhere */
	here(gpr[7], bytes, gpr[2], 0, !is_known);
}

/*
 * Notes a descriptor by which a file may be written that has code in memory, or will have
 * (is_mapped). The caller does not hold the lock: fstat(2) on FUSE asks a server.
 */
static void file_look(uint64_t fd, int is_mapped)
{
	long flags = sys_call3(SYS_fcntl, (long)fd, F_GETFL, 0);
	struct stat about;

	if (sys_failed(flags) || (flags & O_ACCMODE) == O_RDONLY ||
	    sys_call3(SYS_fstat, (long)fd, (long)&about, 0) ||
	    (!is_mapped && !ranges_have_file(about.st_ino)))
		return;
	lock_take(&dispatch_lock);
	ranges_file_written(about.st_ino);
	lock_give(&dispatch_lock);
}

static void after(const uint64_t *gpr, uint64_t result)
{
	int is_file = !(gpr[10] & MAP_ANONYMOUS);

	switch (gpr[0]) {
	case SYS_mmap:
		/* a native thread may have unmapped what was there */
		forget(result, whole_pages(result, gpr[6]));
		unmapped(result, whole_pages(result, gpr[6]));
		here(result, whole_pages(result, gpr[6]), gpr[2],
		     gpr[10] & MAP_SHARED ? RANGE_SHARED : 0, is_file);
		return;
	case SYS_munmap:
		unmapped(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		protect(gpr);
		return;
	case SYS_brk:
		if (is_code(PROT_READ | PROT_WRITE))
			ranges_read();
		return;
	case SYS_madvise:
		pages_kill(gpr[7], whole_pages(gpr[7], gpr[6]));
		return;
	case SYS_mremap:
		unmapped(gpr[7], whole_pages(gpr[7], gpr[6]));
		unmapped(result, whole_pages(result, gpr[2]));
		ranges_read();
		return;
	default:
		ranges_read();
	}
}

static int is_discard(uint64_t advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
	       advice == 24 /* MADV_DONTNEED_LOCKED */;
}

/* The program has userfaultfd(2): UFFD_FEATURE_*. */
static uint64_t feeds;

/* Features by which a call waits until another thread of the program has read its event. */
#define FEEDS_TELL                                                                                 \
	(UFFD_FEATURE_EVENT_FORK | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |          \
	 UFFD_FEATURE_EVENT_UNMAP)
#define FEEDS (UINT64_C(1) << 63) /* whatever it is */

int code_call_waits(void)
{
	return (__atomic_load_n(&feeds, __ATOMIC_RELAXED) & FEEDS_TELL) != 0;
}

static void feeds_add(uint64_t features)
{
	lock_take(&dispatch_lock);
	if (!feeds)
		pages_share(1);
	code_read_waits();
	__atomic_store_n(&feeds, feeds | features | FEEDS, __ATOMIC_RELAXED);
	lock_give(&dispatch_lock);
}

/*
 * Pages come and go by userfaultfd(2) from now on. It takes many pages at once only where none of
 * them is guarded.
 */
static void feeds_begin(const uint64_t *gpr)
{
	struct uffdio_api api;

	if ((uint32_t)gpr[6] == (uint32_t)UFFDIO_API &&
	    !gate_copy(&api, (const void *)gpr[2], sizeof(api)))
		feeds_add(api.features);
}

/*
 * Holds the lock across the call, so that no thread translates code that is being unmapped. Where
 * the call may wait for another thread, what that thread has translated is given up behind it.
 */
long code_call(struct thread *thread, long (*plain)(const struct thread *))
{
	const uint64_t *gpr = thread->regs.gpr;
	long result;

	if (gpr[0] == SYS_mmap && !(gpr[10] & MAP_ANONYMOUS))
		file_look(gpr[8], 1);
	if (gpr[0] == SYS_mmap && !is_code(gpr[2]) && !(gpr[10] & MAP_FIXED))
		return plain(thread);
	if (gpr[0] == SYS_madvise && !is_discard(gpr[2]))
		return plain(thread);
	lock_take(&dispatch_lock);
	if (gpr[0] != SYS_mprotect && gpr[0] != SYS_pkey_mprotect && gpr[0] != SYS_madvise)
		memory_clear(privates, sizeof(privates));
	before(gpr);
	if (code_call_waits()) {
		lock_give(&dispatch_lock);
		result = plain(thread);
		lock_take(&dispatch_lock);
		before(gpr);
	} else {
		result = plain(thread);
	}
	if (result == -ENOMEM && pages_guarded()) { /* each guard may be a mapping more */
		pages_release();
		result = plain(thread);
	}
	if (!sys_failed(result))
		after(gpr, (uint64_t)result);
	else if (result == -ENOMEM) /* some of it may have been done */
		ranges_read();
	traces_turn();
	lock_give(&dispatch_lock);
	DEBUG_TRACE("engine/code", "call %d of %x may change code: %x", gpr[0], gpr[7], result);
	return result;
}

void code_share(int change)
{
	lock_take(&dispatch_lock);
	pages_share(change);
	lock_give(&dispatch_lock);
}

/* ---- /proc/PID/mem ---- */

static uint32_t has_memory; /* such a file was opened */

/* Whether a path ends in /mem. */
static int is_memory(const char *path, uint32_t bytes)
{
	return bytes >= 4 && path[bytes - 4] == '/' && path[bytes - 3] == 'm' &&
	       path[bytes - 2] == 'e' && path[bytes - 1] == 'm';
}

/* The path of a descriptor, as the kernel reports it: its bytes, 64 at most, or 0. */
static uint32_t path_of(uint64_t fd, char path[64])
{
	char name[32] = "/proc/thread-self/fd/";
	uint32_t digits = 0, at = 21;
	long bytes;

	for (uint32_t rest = (uint32_t)fd; rest || !digits; rest /= 10)
		digits++;
	for (uint32_t i = digits, rest = (uint32_t)fd; i-- > 0; rest /= 10)
		name[at + i] = (char)('0' + rest % 10);
	bytes = sys_call3(SYS_readlink, (long)name, (long)path, 64);
	return sys_failed(bytes) ? 0 : (uint32_t)bytes;
}

static int is_memory_open(uint64_t fd, char path[64])
{
	uint32_t bytes = path_of(fd, path);

	return is_memory(path, bytes);
}

#define DESCRIPTORS_LOOK 1024u

static int is_feed(const char *path, uint32_t bytes)
{
	static const char name[] = "anon_inode:[userfaultfd]";

	for (uint32_t i = 0; i < sizeof(name) - 1; i++)
		if (i >= bytes || path[i] != name[i])
			return 0;
	return 1;
}

void code_attached(void)
{
	char path[64];

	for (uint32_t fd = 0; fd < DESCRIPTORS_LOOK; fd++) {
		uint32_t bytes = path_of(fd, path);

		if (is_memory(path, bytes))
			__atomic_store_n(&has_memory, 1, __ATOMIC_RELAXED);
		if (is_feed(path, bytes))
			feeds_add(FEEDS_TELL);
	}
}

static void opened(uint64_t fd)
{
	char path[64];

	file_look(fd, 0);
	if (!__atomic_load_n(&has_memory, __ATOMIC_RELAXED) && is_memory_open(fd, path))
		__atomic_store_n(&has_memory, 1, __ATOMIC_RELAXED);
}

/* The process's own, by the number that follows "/proc/". */
static int is_own(const char *path)
{
	uint64_t pid = 0;

	for (path += 6; *path >= '0' && *path <= '9'; path++)
		pid = pid * 10 + (uint64_t)(*path - '0');
	return pid == (uint64_t)sys_call3(SYS_getpid, 0, 0, 0);
}

long code_memory(struct thread *thread, long (*call)(struct thread *))
{
	const uint64_t *gpr = thread->regs.gpr;
	uint64_t bytes = gpr[2], at = gpr[10];
	struct engine_mapping ours;
	char path[64] = "";

	if (!__atomic_load_n(&has_memory, __ATOMIC_RELAXED) || !is_memory_open(gpr[7], path) ||
	    !is_own(path) || !bytes)
		return call(thread);
	if (gpr[0] == SYS_read || gpr[0] == SYS_write)
		at = (uint64_t)sys_call3(SYS_lseek, (long)gpr[7], 0, SEEK_CUR);
	if (places_first(at, bytes, &ours) && ours.start <= at)
		return -EIO;
	if (!ours.bytes)
		return call(thread);
	/* the program's own rdx stays: a signal that comes in the call does not return here */
	return gate_call((long)gpr[0], (long)gpr[7], (long)gpr[6], (long)(ours.start - at),
			 (long)gpr[10], (long)gpr[8], (long)gpr[9]);
}

static void written(uint64_t fd)
{
	char path[64];

	if (!__atomic_load_n(&has_memory, __ATOMIC_RELAXED) || !is_memory_open(fd, path))
		return;
	lock_take(&dispatch_lock);
	traces_ask();
	traces_turn();
	lock_give(&dispatch_lock);
}

void code_call_over(const struct thread *thread, long result)
{
	const uint64_t *gpr = thread->regs.gpr;

	if (sys_failed(result))
		return;
	switch (gpr[0]) {
	case SYS_open:
	case SYS_openat:
	case SYS_openat2:
		opened((uint64_t)result);
		return;
	case SYS_ioctl:
		feeds_begin(gpr);
		return;
	case SYS_write:
	case SYS_pwrite64:
	case SYS_writev:
	case SYS_pwritev:
	case SYS_pwritev2:
		written(gpr[7]);
		return;
	default:
		return;
	}
}
