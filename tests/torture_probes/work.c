/* SPDX-License-Identifier: MIT */
/*
 * What the victim does: calls of the probed functions, libc's, libz's and its own, that enter and
 * leave them in all possible ways. It knows every result in advance and checks it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <waymark/marker/note.h>

#include "victim.h"

#if __has_attribute(noipa)
#define PROBED __attribute__((noipa))
#else
#define PROBED __attribute__((noinline))
#endif

/* Its return says of itself whether it is whole. */
static uint64_t sealed(uint32_t number)
{
	return (uint64_t)number << 32 | number * CHECK_FACTOR;
}

uint64_t point_plain(uint64_t number, uint64_t check);
uint64_t point_tail(uint64_t number, uint64_t check);
uint64_t point_deep(uint64_t number, uint64_t check, int depth);
void leave_far(jmp_buf *to, int depth);
int backtrace_at(int depth);

PROBED uint64_t point_plain(uint64_t number, uint64_t check)
{
	if (check != number * CHECK_FACTOR)
		victim_fail("arguments were changed on the way");
	return sealed((uint32_t)number);
}

PROBED uint64_t point_tail(uint64_t number, uint64_t check)
{
	return point_plain(number, check);
}

PROBED uint64_t point_deep(uint64_t number, uint64_t check, int depth)
{
	uint64_t got;

	if (!depth)
		return sealed((uint32_t)number);
	count_entry();
	got = point_deep(number, check, depth - 1);
	count_return();
	return got;
}

/* As <sys/sdt.h> makes it, with a semaphore. */
__attribute__((section(".probes"))) volatile unsigned short point_semaphore;

int work_is_watched(void)
{
	return point_semaphore;
}

#define POINT_SITE(a, b)                                                                           \
	__asm__ volatile(WM__SDT_NOTE("nop", point_semaphore, "torture", "point", "8@%0 8@%1")     \
			 :                                                                         \
			 : "nor"(a), "nor"(b))

void work_in_handler(uint32_t number)
{
	count_entry();
	if (point_plain(number, (uint64_t)number * CHECK_FACTOR) != sealed(number))
		victim_fail("point_plain() in a handler returned something else");
	count_return();
}

void work_points(uint32_t number)
{
	uint64_t check = (uint64_t)number * CHECK_FACTOR;

	work_in_handler(number);
	count_entry();
	count_entry();
	if (point_tail(number, check) != sealed(number))
		victim_fail("point_tail() returned something else");
	count_return();
	count_return();
	count_site();
	POINT_SITE((uint64_t)number, check);
	count_entry();
	if (point_deep(number, check, 5) != sealed(number))
		victim_fail("point_deep() returned something else");
	count_return();
}

void work_strings(uint32_t number)
{
	char text[128], copy[128], *end;
	int length = snprintf(text, sizeof(text), "%u and %.3f and %s", number, number / 8.0,
			      "sixteen letters!");

	if (length != (int)strlen(text) || strtoul(text, &end, 10) != number || *end != ' ')
		victim_fail("snprintf() or strtoul() came to something else");
	memset(copy, 'x', sizeof(copy));
	memcpy(copy, text, (size_t)length + 1);
	if (strcmp(copy, text) || strchr(copy, '!') != copy + length - 1 ||
	    strstr(copy, "letters") != copy + length - 8 ||
	    memchr(copy, 0, sizeof(copy)) != copy + length)
		victim_fail("a string function came to something else");
	memmove(copy + 1, copy, (size_t)length);
	if (copy[0] != copy[1] || memcmp(copy + 1, text, (size_t)length))
		victim_fail("memmove() came to something else");
	if (sscanf(text, "%u and", &number) != 1 || strtod("12.5", NULL) != 12.5)
		victim_fail("sscanf() or strtod() came to something else");
}

void work_memory(uint32_t number)
{
	size_t bytes = 16 + number % 5000;
	unsigned char *block = malloc(bytes), *zeroes = calloc(7, bytes);
	struct timespec now, later;

	if (!block || !zeroes || zeroes[0] || zeroes[7 * bytes - 1])
		victim_fail("malloc() or calloc() came to something else");
	memset(block, (int)(number & 0xff), bytes);
	block = realloc(block, bytes * 3);
	if (!block || block[0] != (number & 0xff) || block[bytes - 1] != (number & 0xff))
		victim_fail("realloc() came to something else");
	free(zeroes);
	free(block);
	clock_gettime(CLOCK_MONOTONIC, &now);
	clock_gettime(CLOCK_MONOTONIC, &later);
	if (later.tv_sec < now.tv_sec)
		victim_fail("time goes backwards");
	errno = 7;
	if (getenv("no such variable") || errno != 7)
		victim_fail("getenv() came to something else");
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

void work_sorting(uint32_t number)
{
	uint32_t all[200], key;

	for (uint32_t i = 0; i < 200; i++)
		all[i] = (i * 7919 + number) % 65521;
	key = all[number % 200];
	qsort(all, 200, sizeof(all[0]), compare);
	for (int i = 1; i < 200; i++)
		if (all[i - 1] > all[i])
			victim_fail("qsort() doesn't sort");
	if (!bsearch(&key, all, 200, sizeof(all[0]), compare))
		victim_fail("bsearch() doesn't find");
}

PROBED void leave_far(jmp_buf *to, int depth)
{
	if (!depth)
		longjmp(*to, 1);
	if (depth > 0)
		leave_far(to, depth - 1);
	__asm__ volatile("" : : : "memory"); /* no tail call */
}

/* Functions that never return, again and again on the same stack. */
void work_leaving(uint32_t number)
{
	jmp_buf back;

	if (!setjmp(back)) {
		leave_far(&back, (int)(number % 7));
		victim_fail("longjmp() returned");
	}
	throws_pass((int)(number % 9));
}

/* The frames of this very function that a backtrace sees. */
static int count_own(void *const *frames, int count)
{
	int own = 0;

	for (int i = 0; i < count; i++) {
		Dl_info info;

		own += dladdr(frames[i], &info) && info.dli_saddr == (void *)backtrace_at;
	}
	return own;
}

PROBED int backtrace_at(int depth)
{
	void *frames[64];
	int got;

	if (!depth)
		return count_own(frames, backtrace(frames, 64));
	got = backtrace_at(depth - 1);
	__asm__ volatile("" : "+r"(got));
	return got;
}

/*
 * A backtrace passes frames whose return addresses were replaced: between two of ours it may see
 * one of the agent's, but it sees all of ours, and those below.
 */
void work_backtrace(uint32_t number)
{
	int depth = (int)(number % 20);

	if (backtrace_at(depth) != depth + 1)
		victim_fail("backtrace() doesn't see all frames");
}

static int (*z_compress)(unsigned char *, unsigned long *, const unsigned char *, unsigned long,
			 int);
static int (*z_uncompress)(unsigned char *, unsigned long *, const unsigned char *, unsigned long);
static unsigned long (*z_crc32)(unsigned long, const unsigned char *, unsigned int);

void work_zlib(uint32_t number)
{
	unsigned char text[2000], packed[3000], again[2000];
	unsigned long packed_bytes = sizeof(packed), again_bytes = sizeof(again);
	unsigned long crc;

	if (!z_compress)
		return;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (unsigned char)("waymark"[i % 7] + (i * number) % 5);
	crc = z_crc32(0, text, sizeof(text));
	if (z_compress(packed, &packed_bytes, text, sizeof(text), 1 + (int)(number % 9)) ||
	    z_uncompress(again, &again_bytes, packed, packed_bytes) ||
	    again_bytes != sizeof(text) || memcmp(text, again, sizeof(text)) ||
	    z_crc32(0, again, sizeof(again)) != crc)
		victim_fail("zlib came to something else");
}

void work_prepare(void)
{
	void *library = dlopen("libz.so.1", RTLD_NOW), *frames[4];

	backtrace(frames, 4); /* loads the unwinder */
	if (!library)
		return;
	*(void **)&z_uncompress = dlsym(library, "uncompress");
	*(void **)&z_crc32 = dlsym(library, "crc32");
	*(void **)&z_compress = dlsym(library, "compress2");
}
