/* SPDX-License-Identifier: MIT */
#include "inside/patch/batch.h"

#include "abi/site.h"
#include "inside/patch/sort.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define SITES 600
#define BREAKPOINT 0xcc

/* Code of our own making: sites in a read-only page, as the program's text is. */
static unsigned char *code;
static struct batch_site sites[SITES];
static struct text text = { .fd = -1 };
static int stopping;
static unsigned int writes, lost, brought_back;

static void make_sites(size_t count, size_t gap)
{
	code = mmap(NULL, 16 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	cr_assert_neq(code, MAP_FAILED);
	memset(code, 0x90, 16 * PAGE_BYTES);
	for (size_t i = 0; i < count; i++) {
		unsigned char *at = code + 16 + i * (SITE_BYTES + gap);

		sites[i] = (struct batch_site){ .address = (uintptr_t)at,
						.displacement = (int32_t)(1000 + i),
						.prot = PROT_READ | PROT_EXEC };
		batch_bytes(&sites[i], 0, at);
	}
	cr_assert(!mprotect(code, 16 * PAGE_BYTES, PROT_READ | PROT_EXEC));
	cr_assert_eq(text_open(&text), 0);
}

static void expect_form(size_t count, int armed)
{
	for (size_t i = 0; i < count; i++) {
		unsigned char want[5];

		batch_bytes(&sites[i], armed, want);
		cr_assert(!memcmp((void *)sites[i].address, want, 5), "site %zu", i);
	}
}

/* Everything that is no site's first byte is as it was. */
static void expect_rest_untouched(size_t count)
{
	static unsigned char want[16 * PAGE_BYTES];

	memset(want, 0x90, sizeof want);
	for (size_t i = 0; i < count; i++)
		batch_bytes(&sites[i], code[sites[i].address - (uintptr_t)code] == SITE_ARMED,
			    want + (sites[i].address - (uintptr_t)code));
	cr_assert(!memcmp(code, want, sizeof want));
}

static void arm_and_disarm(size_t count, size_t gap)
{
	make_sites(count, gap);
	cr_assert_eq(batch_check(&text, sites, count, 1), 0);
	cr_assert_eq(batch_commit(&text, sites, count, 1), 0);
	expect_form(count, 1);
	expect_rest_untouched(count);
	cr_assert_eq(batch_check(&text, sites, count, 0), 0);
	cr_assert_eq(batch_commit(&text, sites, count, 0), 0);
	expect_form(count, 0);
	expect_rest_untouched(count);
}

Test(batch, arms_and_disarms_sites_that_touch)
{
	arm_and_disarm(SITES, 0);
}

Test(batch, arms_and_disarms_sites_with_code_between)
{
	arm_and_disarm(SITES, 1);
}

Test(batch, arms_and_disarms_sites_that_are_far_apart)
{
	arm_and_disarm(SITES, 95);
}

Test(batch, arms_and_disarms_one)
{
	arm_and_disarm(1, 0);
}

Test(batch, arms_nothing_at_all)
{
	make_sites(1, 0);
	cr_assert_eq(batch_check(&text, sites, 0, 1), 0);
	cr_assert_eq(batch_commit(&text, sites, 0, 1), 0);
	expect_form(1, 0);
}

Test(batch, works_by_mprotect_too)
{
	struct text before = { .fd = -1 };

	text_limit_way(WAY_MPROTECT);
	cr_assert_eq(text_open(&before), 0);
	cr_assert_eq(text_way(), WAY_MPROTECT);
	text_release(&before);
	arm_and_disarm(SITES, 7);
}

Test(batch, leaves_the_protection_as_it_was)
{
	char line[256] = "";
	FILE *maps;
	int found = 0;

	text_limit_way(WAY_MPROTECT);
	arm_and_disarm(8, 3000);
	maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps)) {
		unsigned long start, end;
		char prot[8];

		cr_assert_eq(sscanf(line, "%lx-%lx %7s", &start, &end, prot), 3);
		if (start < (uintptr_t)code + 16 * PAGE_BYTES && end > (uintptr_t)code) {
			cr_assert_str_eq(prot, "r-xp");
			found++;
		}
	}
	fclose(maps);
	cr_assert(found);
}

Test(batch, refuses_where_nothing_can_be_written)
{
	text_limit_way(WAY_NONE);
	make_sites(2, 0);
	cr_assert_eq(text_way(), WAY_NONE);
	cr_assert_eq(batch_check(&text, sites, 2, 1), 2);
	cr_assert_eq(sites[0].error, -WM_E_NO_TEXT_WRITE);
	expect_form(2, 0);
}

static void change(size_t site, size_t offset, unsigned char byte)
{
	cr_assert(!mprotect(code, 16 * PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC));
	((unsigned char *)sites[site].address)[offset] = byte;
	cr_assert(!mprotect(code, 16 * PAGE_BYTES, PROT_READ | PROT_EXEC));
}

Test(batch, refuses_a_site_that_was_changed_and_says_what_stands_there)
{
	make_sites(10, 3);
	change(4, 0, 0xcc);
	change(7, 2, 0x55);
	cr_assert_eq(batch_check(&text, sites, 10, 1), 2);
	cr_assert_eq(sites[4].error, -WM_E_SITE_CHANGED);
	cr_assert_eq(sites[4].found[0], 0xcc);
	cr_assert_eq(sites[7].error, -WM_E_SITE_CHANGED);
	cr_assert_eq(sites[7].found[2], 0x55);
	cr_assert_eq(sites[5].error, 0);
}

Test(batch, takes_a_site_that_is_armed_already)
{
	make_sites(2, 0);
	change(1, 0, SITE_ARMED);
	cr_assert_eq(batch_check(&text, sites, 2, 1), 0);
	cr_assert_eq(batch_commit(&text, sites, 2, 1), 0);
	expect_form(2, 1);
}

/*
 * Breakpoints come on `armed` sites between check and commit: of sites that touch, and of others.
 */
static void commit_beside_breakpoints(int armed)
{
	static const size_t changed[] = { 0, 5, 6, SITES - 1 };
	size_t next = 0;

	cr_assert_eq(batch_check(&text, sites, SITES, !armed), 0);
	for (size_t i = 0; i < 4; i++)
		change(changed[i], 0, BREAKPOINT);
	change(9, 3, 0x55);
	cr_assert_eq(batch_commit(&text, sites, SITES, !armed), 0);
	for (size_t i = 0; i < SITES; i++) {
		const unsigned char *at = (const unsigned char *)sites[i].address;

		if (next < 4 && i == changed[next]) {
			cr_assert_eq(*at, BREAKPOINT, "site %zu", i);
			cr_assert_eq(sites[i].error, -WM_E_SITE_CHANGED);
			cr_assert_eq(sites[i].found[0], BREAKPOINT);
			next++;
		} else if (i == 9) {
			cr_assert_eq(*at, armed ? SITE_ARMED : SITE_DORMANT);
			cr_assert_eq(sites[i].error, -WM_E_SITE_CHANGED);
		} else {
			cr_assert_eq(*at, armed ? SITE_DORMANT : SITE_ARMED, "site %zu", i);
			cr_assert_eq(sites[i].error, 0);
		}
	}
}

Test(batch, commit_leaves_site_that_changed_since_check)
{
	for (size_t gap = 0; gap < 40; gap += 13) {
		make_sites(SITES, gap);
		commit_beside_breakpoints(0);
		make_sites(SITES, gap);
		cr_assert_eq(batch_commit(&text, sites, SITES, 1), 0);
		commit_beside_breakpoints(1);
	}
}

static void write_byte(const struct text *own, uintptr_t at, unsigned char byte)
{
	cr_assert_eq(text_write_code(own, at, &byte, 1, PROT_READ | PROT_EXEC), 0);
}

/* One breakpoint after the other, as a debugger would, but without stopping anybody. */
static void *write_between(void *unused)
{
	struct text own;

	cr_assert_eq(text_open(&own), 0);
	for (size_t i = 0; !__atomic_load_n(&stopping, __ATOMIC_ACQUIRE); i = (i + 50) % SITES) {
		uintptr_t at = sites[i].address + 50;

		/* the naps are the pace of a debugger that comes and goes */
		write_byte(&own, at, BREAKPOINT);
		usleep(20);
		lost += *(volatile unsigned char *)at != BREAKPOINT;
		write_byte(&own, at, 0x90);
		usleep(20);
		brought_back += *(volatile unsigned char *)at != 0x90;
		__atomic_add_fetch(&writes, 1, __ATOMIC_RELAXED);
	}
	text_release(&own);
	return unused;
}

Test(batch, commit_leaves_breakpoints_between_sites)
{
	pthread_t thread;

	make_sites(SITES, 95);
	cr_assert(!pthread_create(&thread, NULL, write_between, NULL));
	while (__atomic_load_n(&writes, __ATOMIC_RELAXED) < 3000) {
		cr_assert_eq(batch_commit(&text, sites, SITES, 1), 0);
		cr_assert_eq(batch_commit(&text, sites, SITES, 0), 0);
	}
	__atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	cr_assert_eq(lost + brought_back, 0, "%u lost and %u brought back of %u", lost,
		     brought_back, writes);
	expect_form(SITES, 0);
	expect_rest_untouched(SITES);
}

Test(batch, takes_back_what_it_wrote_when_a_page_is_gone)
{
	make_sites(40, 1000);
	cr_assert_eq(batch_check(&text, sites, 40, 1), 0);
	cr_assert(!munmap(code + 8 * PAGE_BYTES, PAGE_BYTES));
	cr_assert_eq(batch_commit(&text, sites, 40, 1), -EFAULT);
	for (size_t i = 0; i < 40; i++) {
		if (sites[i].address + 5 < (uintptr_t)code + 8 * PAGE_BYTES)
			cr_assert_eq(*(unsigned char *)sites[i].address, SITE_DORMANT, "site %zu",
				     i);
	}
}

Test(batch, an_unmapped_site_is_an_error_and_no_fault)
{
	make_sites(4, 5000);
	cr_assert(!munmap(code + PAGE_BYTES, PAGE_BYTES));
	cr_assert_eq(batch_check(&text, sites, 4, 1), 1);
	cr_assert_eq(sites[1].error, -EFAULT);
}

Test(batch, sets_the_flag_of_portable_sites)
{
	static uint32_t flags[2];
	struct batch_site portable[2] = { { .address = (uintptr_t)&flags[0], .portable = 1 },
					  { .address = (uintptr_t)&flags[1], .portable = 1 } };

	text_limit_way(WAY_NONE);
	cr_assert_eq(text_open(&text), 0);
	cr_assert_eq(batch_check(&text, portable, 2, 1), 0);
	cr_assert_eq(batch_commit(&text, portable, 2, 1), 0);
	cr_assert(flags[0] == 1 && flags[1] == 1);
	cr_assert_eq(batch_commit(&text, portable, 2, 0), 0);
	cr_assert(flags[0] == 0 && flags[1] == 0);
}

Test(batch, sorts_by_address)
{
	static struct batch_site mixed[1000];
	uint64_t seed = 1;

	for (size_t i = 0; i < 1000; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		mixed[i].address = seed >> 32;
		mixed[i].owner = (void *)(uintptr_t)(seed >> 32);
	}
	cr_assert_eq(sort_by_address(mixed, 1000, sizeof mixed[0]), 0);
	for (size_t i = 0; i < 1000; i++) {
		cr_assert_eq((uintptr_t)mixed[i].owner, mixed[i].address);
		cr_assert(!i || mixed[i - 1].address <= mixed[i].address);
	}
	cr_assert_eq(sort_by_address(mixed, 1, sizeof mixed[0]), 0);
	cr_assert_eq(sort_by_address(mixed, 0, sizeof mixed[0]), 0);
}
