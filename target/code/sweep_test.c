/* SPDX-License-Identifier: MIT */
#include "target/code/sweep.h"

#include "target/code/file.h"
#include "target/code/symbol.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <wchar.h>

#define TRAP_FLAG 0x100

static struct code_file *file;
static struct code_symbols symbols;
static struct sweep sweep;

static void sweep_open(const char *path)
{
	cr_assert_eq(code_file_open(&file, path), 0, "%s", path);
	cr_assert_eq(code_symbols_read(&symbols, file), 0);
	cr_assert_eq(sweep_make(&sweep, file, &symbols), 0);
}

static void sweep_close(void)
{
	sweep_release(&sweep);
	code_symbols_release(&symbols);
	code_file_close(file);
}

/* ---- tables ---- */

/* A case begins at its mark, or few instructions before it. */
static bool is_case(uint64_t mark)
{
	for (int i = 0; i < 4 && mark; i++) {
		if (sweep_is_target(&sweep, mark))
			return true;
		mark = sweep_previous(&sweep, mark);
	}
	return false;
}

static void cases_check(const char *path)
{
	const struct code_section *section;
	unsigned int count = 0;

	sweep_open(path);
	section = code_file_section(file, "cases");
	cr_assert(section, "%s", path);
	for (uint64_t at = section->address; at < section->address + section->bytes; at += 4) {
		int32_t distance;

		cr_assert_eq(code_file_read(file, at, &distance, sizeof(distance)), 0);
		cr_assert(is_case(at + (uint64_t)(int64_t)distance), "%s: %lx", path,
			  at + (uint64_t)(int64_t)distance);
		count++;
	}
	cr_assert_gt(count, 20, "%s", path);
	cr_assert_eq(sweep.doubt_count, 0, "%s", path);
	sweep_close();
}

Test(sweep, every_case_of_a_switch_is_a_target_however_it_was_compiled)
{
	char *all = strdup(SWITCH_FIXTURES), *rest = all;

	for (char *path; (path = strtok_r(rest, ":", &rest));)
		cases_check(path);
	free(all);
}

/* ---- stepping ---- */

static uint64_t base, before;
static unsigned int steps, arrivals, missed;
static uint64_t first_missed;

/* The instruction behind one. */
static uint64_t next_of(uint64_t address)
{
	for (uint64_t at = address + 1; at < address + 16; at++)
		if (sweep_is_start(&sweep, at))
			return at;
	return 0;
}

static bool is_behind_call(uint64_t address)
{
	uint64_t at = sweep_previous(&sweep, address);
	const struct sweep_part *part = sweep_part_at(&sweep, at);
	const uint8_t *bytes;

	if (!at)
		return false;
	bytes = part->data + (at - part->range.start);
	/* prefixes, as in front of calls of __tls_get_addr */
	while ((*bytes & 0xf0) == 0x40 || *bytes == 0x66 || *bytes == 0x67)
		bytes++;
	return *bytes == 0xe8 || *bytes == 0xff;
}

static void on_step(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	uint64_t at = (uint64_t)context->uc_mcontext.gregs[REG_RIP] - base;

	(void)number;
	(void)info;
	if (sweep_part_at(&sweep, at)) {
		steps++;
		if (!sweep_is_start(&sweep, at)) {
			missed++;
			first_missed = first_missed ? first_missed : at;
		} else if (at != before && at != next_of(before)) {
			arrivals++;
			if (!sweep_is_target(&sweep, at) && !is_behind_call(at)) {
				missed++;
				first_missed = first_missed ? first_missed : at;
			}
		}
	}
	before = at;
}

__attribute__((noinline)) static void trap(int on)
{
	if (on)
		__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq;"
				 "lea 128(%%rsp), %%rsp" ::
					 : "memory", "cc");
	else
		__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq;"
				 "lea 128(%%rsp), %%rsp" ::
					 : "memory", "cc");
}

static int order(const void *a, const void *b)
{
	const int *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* As much of the C library as can be had for little, tables of jumps above all. */
static void work(void)
{
	static const char *const formats[] = { "%d|%5.3f|%-20s|%#x|%o", "%+.3e|%g|%a|%c|%%",
					       "%ls|%hhd|%lld|%zu|%p", "%*d|%-*x|%'d|%10.4s" };
	static int numbers[200];
	char text[256];
	wchar_t wide[64];
	regex_t regex;
	regmatch_t match[2];
	time_t then = 1700000000;
	struct tm tm;
	double value;
	int read;

	for (int i = 0; i < 200; i++)
		numbers[i] = i * 7919 % 211;
	qsort(numbers, 200, sizeof(int), order);
	snprintf(text, sizeof(text), formats[0], 12, 3.25, "abc", 255, 8);
	snprintf(text, sizeof(text), formats[1], 1e10, 2.5, 0.1, 'x');
	snprintf(text, sizeof(text), formats[2], L"wide", 3, 1ll << 40, (size_t)9, text);
	snprintf(text, sizeof(text), formats[3], 7, 1, 8, 2, 1000000, "abcdef");
	swprintf(wide, 64, L"%d %s %5.2f", 5, "narrow", 1.5);
	sscanf("12 0x1f 3.5e2 word [abc]", "%d %i %lf %255s [%[a-c]]", &read, &read, &value, text,
	       text);
	if (!regcomp(&regex, "(a|b)*c[[:digit:]]+\\.?$", REG_EXTENDED)) {
		regexec(&regex, "xxababc123.", 2, match, 0);
		regfree(&regex);
	}
	gmtime_r(&then, &tm);
	strftime(text, sizeof(text), "%A %d %B %Y %H:%M:%S %j %U %%", &tm);
	for (size_t bytes = 0; bytes < 300; bytes += 17) {
		static char from[600], to[600];

		memcpy(to, from, bytes);
		memmove(to + 1, to, bytes);
		memset(from, 'a', bytes);
		read += (int)strlen(from) + strcmp(from, to) + memcmp(from, to, bytes);
	}
	free(realloc(malloc(100), 100000));
}

Test(sweep, nothing_goes_where_no_way_is_known, .timeout = 120)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	struct link_map *map;

	cr_assert_eq(dlinfo(dlopen("libc.so.6", RTLD_NOW), RTLD_DI_LINKMAP, &map), 0);
	sweep_open(map->l_name);
	base = map->l_addr;
	sigaction(SIGTRAP, &action, NULL);
	work();
	trap(1);
	work();
	trap(0);
	cr_log_info("%u steps, %u arrivals", steps, arrivals);
	cr_assert_gt(steps, 20000);
	cr_assert_gt(arrivals, 2000);
	cr_assert_eq(missed, 0, "%u, first %lx", missed, first_missed);
	sweep_close();
}

/* ---- landing pads ---- */

static unsigned int pads, wild_pads;

static void pad_check(uint64_t address, void *data)
{
	(void)data;
	pads++;
	wild_pads += !sweep_is_start(&sweep, address) || !sweep_is_target(&sweep, address);
}

Test(sweep, exceptions_land_on_instructions)
{
	void *library = dlopen("libstdc++.so.6", RTLD_NOW);
	struct link_map *map;

	if (!library)
		cr_skip_test("there is no libstdc++");
	cr_assert_eq(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
	sweep_open(map->l_name);
	for (size_t i = 0; i < sweep.frames.count; i++)
		cr_assert_eq(frames_landing_pads(&sweep.image, &sweep.frames.all[i], pad_check,
						 NULL),
			     0, "%lx", sweep.frames.all[i].start);
	cr_assert_gt(pads, 500);
	cr_assert_eq(wild_pads, 0);
	cr_assert(!sweep.frames.is_damaged);
	sweep_close();
}
