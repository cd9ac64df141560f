/* SPDX-License-Identifier: MIT */
/*
 * Regions of 256 KiB, put into gaps between mappings: below the code first, where the kernel itself
 * would put the next mapping; above it only beyond what the heap (brk) or the main stack may grow into.
 */
#define _GNU_SOURCE
#include "agent/detour/memory.h"

#include "abi/detour.h"
#include "base/kernel.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define REGION_BYTES ((size_t)256 * 1024)
#define REGIONS_MAX (DETOUR_MEMORY_MAX_BYTES / REGION_BYTES)
#define ALIGN 16u
#define LOWEST ((uintptr_t)1 << 20) /* a null pointer's neighbourhood stays empty */
#define HIGHEST ((uintptr_t)1 << 47)
#define STACK_ROOM ((uintptr_t)1 << 30) /* below the main stack, and above the heap */
#define PR_SET_VMA_NUMBER 0x53564d41

static struct region {
	uintptr_t start;
	size_t used;
} regions[REGIONS_MAX];
static unsigned int region_count;
static size_t limit_bytes = DETOUR_MEMORY_MAX_BYTES;

size_t memory_mapped(void)
{
	return region_count * REGION_BYTES;
}

void memory_limit(size_t bytes)
{
	limit_bytes = bytes < DETOUR_MEMORY_MAX_BYTES ? bytes : DETOUR_MEMORY_MAX_BYTES;
}

/* ---- gaps, by /proc/self/maps ---- */

struct search {
	uintptr_t low, high, wish;
	uintptr_t best; /* 0: none */
};

static uintptr_t distance(uintptr_t a, uintptr_t b)
{
	return a < b ? b - a : a - b;
}

/* Free from `start` to `end`; what lies below and above it tells how near to them we may go. */
static void consider_gap(struct search *search, uintptr_t start, uintptr_t end, int after_heap,
			 int before_stack)
{
	uintptr_t low, high, at;

	start = start < LOWEST ? LOWEST : start;
	if (after_heap)
		start += STACK_ROOM;
	if (before_stack)
		end = end > STACK_ROOM ? end - STACK_ROOM : 0;
	if (end <= start || end - start < REGION_BYTES)
		return;
	/* any address in the region will do for what is wanted now, since it is empty */
	low = search->low > start ? search->low : start;
	high = end - REGION_BYTES < search->high ? end - REGION_BYTES : search->high;
	low = (low + 4095) & ~(uintptr_t)4095;
	high &= ~(uintptr_t)4095;
	if (low > high)
		return;
	at = search->wish < low	   ? low
	     : search->wish > high ? high
				   : search->wish & ~(uintptr_t)4095;
	if (!search->best || distance(at, search->wish) < distance(search->best, search->wish))
		search->best = at;
}

struct line {
	uintptr_t start, end;
	int is_heap, is_stack;
};

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *read_hex(const char *at, uintptr_t *value)
{
	for (*value = 0; hex_digit(*at) >= 0; at++)
		*value = *value << 4 | (uintptr_t)hex_digit(*at);
	return at;
}

/* One line of /proc/self/maps, NUL-terminated: proc_pid_maps(5). */
static int read_line(const char *at, struct line *line)
{
	at = read_hex(at, &line->start);
	if (*at != '-')
		return -EINVAL;
	at = read_hex(at + 1, &line->end);
	line->is_heap = strstr(at, "[heap]") != NULL;
	line->is_stack = strstr(at, "[stack]") != NULL;
	return 0;
}

static void consider_line(struct search *search, struct line *before, const char *at)
{
	struct line line;

	if (read_line(at, &line))
		return;
	consider_gap(search, before->end, line.start, before->is_heap, line.is_stack);
	*before = line;
}

static int find_gap(struct search *search)
{
	static char buffer[8192];
	struct line before = { 0 };
	size_t have = 0;
	ssize_t got;
	int fd = kernel_open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	while ((got = kernel_read(fd, buffer + have, sizeof buffer - 1 - have)) > 0) {
		char *line = buffer, *end;

		have += (size_t)got;
		buffer[have] = 0;
		while ((end = strchr(line, '\n'))) {
			*end = 0;
			consider_line(search, &before, line);
			line = end + 1;
		}
		have -= (size_t)(line - buffer);
		memmove(buffer, line, have);
		if (have == sizeof buffer - 1)
			have = 0; /* no line is so long */
	}
	kernel_close(fd);
	if (before.end < HIGHEST)
		consider_gap(search, before.end, HIGHEST - 4096, before.is_heap, 0);
	return search->best ? 0 : -WM_E_DETOUR_REACH;
}

static int add_region(struct search *search)
{
	int tries = 0, error;
	void *start;

	if (region_count == REGIONS_MAX || (region_count + 1) * REGION_BYTES > limit_bytes)
		return -WM_E_DETOUR_MEMORY;
	do {
		search->best = 0;
		error = find_gap(search);
		if (error)
			return error;
		start = kernel_map((void *)search->best, REGION_BYTES, PROT_READ | PROT_EXEC,
				   MAP_FIXED_NOREPLACE | MAP_NORESERVE);
		/* EEXIST: another thread mapped there meanwhile */
	} while (start == MAP_FAILED && errno == EEXIST && ++tries < 10);
	if (start == MAP_FAILED)
		return errno == EACCES || errno == EPERM ? -WM_E_NO_TEXT_WRITE : -errno;
	if ((uintptr_t)start != search->best) {
		kernel_munmap(start, REGION_BYTES); /* before Linux 4.17 it was a mere hint */
		return -WM_E_DETOUR_REACH;
	}
	/* a name in /proc/PID/maps, where the kernel can (5.17) */
	syscall_raw6(SYS_prctl, PR_SET_VMA_NUMBER, 0, (long)start, REGION_BYTES,
		     (long)"waymark-detours", 0);
	regions[region_count++] = (struct region){ .start = (uintptr_t)start };
	return 0;
}

static int take_from(struct region *region, uintptr_t low, uintptr_t high, size_t bytes,
		     uintptr_t *start)
{
	uintptr_t at = region->start + region->used;

	if (at < low || at > high || REGION_BYTES - region->used < bytes)
		return 0;
	*start = at;
	region->used += bytes;
	return 1;
}

int memory_take(uintptr_t low, uintptr_t high, uintptr_t wish, size_t bytes, uintptr_t *start)
{
	struct search search = { .low = low, .high = high, .wish = wish };
	int error;

	bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (low > high || bytes > REGION_BYTES)
		return -WM_E_DETOUR_REACH;
	for (unsigned int i = region_count; i-- > 0;) {
		if (take_from(&regions[i], low, high, bytes, start))
			return 0;
	}
	/* room for more like it beside the first */
	error = add_region(&search);
	if (error)
		return error;
	return take_from(&regions[region_count - 1], low, high, bytes, start) ? 0
									      : -WM_E_DETOUR_REACH;
}

void memory_untake(uintptr_t start, size_t bytes)
{
	bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	for (unsigned int i = 0; i < region_count; i++) {
		if (start + bytes == regions[i].start + regions[i].used)
			regions[i].used -= bytes;
	}
}
