/* SPDX-License-Identifier: MIT */
#include "trace/jitdump.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint8_t dump[4096];
static size_t used;
static char lines[4096];

static void put(const void *bytes, size_t count)
{
	memcpy(dump + used, bytes, count);
	used += count;
}

static void put32(uint32_t value)
{
	put(&value, sizeof(value));
}

static void put64(uint64_t value)
{
	put(&value, sizeof(value));
}

static void begin(void)
{
	used = 0;
	put32(0x4A695444);
	put32(1);
	put32(48); /* 8 bytes more than we know of */
	put32(62);
	put64(0);
	put64(0);
	put64(0);
	put64(0);
}

static void put_load(uint64_t address, uint64_t bytes, const char *name)
{
	put32(0);
	put32((uint32_t)(56 + strlen(name) + 1 + 4));
	for (int i = 0; i < 2; i++)
		put64(0);
	put64(address);
	put64(address);
	put64(bytes);
	put64(1);
	put(name, strlen(name) + 1);
	put32(0x90909090);
}

/* The lines of the dump, as far as there is room. */
static const char *written(uint64_t room)
{
	int from = memfd_create("from", 0), to = memfd_create("to", 0);
	ssize_t got;

	cr_assert_eq(write(from, dump, used), (ssize_t)used);
	cr_assert_eq(jitdump_write(from, to, &room), 0);
	got = pread(to, lines, sizeof(lines) - 1, 0);
	lines[got > 0 ? got : 0] = '\0';
	close(from);
	close(to);
	return lines;
}

Test(jitdump, files_have_names)
{
	cr_expect(jitdump_is_name("/home/me/.debug/jit/jit-12.dump"));
	cr_expect_not(jitdump_is_name("/tmp/jit-.dump"));
	cr_expect_not(jitdump_is_name("/tmp/jit-12.dump.so"));
	cr_expect_not(jitdump_is_name("jit-12.dump"));
}

Test(jitdump, loads_become_lines)
{
	begin();
	put_load(0x1000, 0x20, "one two");
	put32(2); /* lines of source */
	put32(24);
	put64(0);
	put64(0);
	put_load(0x2000, 0x30, "three\nfour");
	put_load(0x3000, 0, "empty");
	cr_expect_str_eq(written(1000), "\n1000 20 one two\n2000 30 three four\n");
	cr_expect_str_eq(written(20), "\n1000 20 one two\n");
	cr_expect_str_eq(written(0), "");
}

Test(jitdump, hostile_files_end)
{
	begin();
	put_load(0x1000, 0x20, "one");
	put32(0);
	put32(8); /* less than its own head */
	put64(0);
	put_load(0x2000, 0x20, "behind");
	cr_expect_str_eq(written(1000), "\n1000 20 one\n");
	begin();
	put_load(0x1000, 0x20, "cut");
	for (size_t whole = used; used > 1; used--)
		cr_expect_leq(strlen(written(1000)), sizeof("\n1000 20 cut\n") - 1, "of %zu",
			      whole);
	begin();
	dump[0] = 'J'; /* of another byte order */
	put_load(0x1000, 0x20, "one");
	cr_expect_str_eq(written(1000), "");
}
