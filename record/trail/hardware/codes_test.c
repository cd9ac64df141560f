/* SPDX-License-Identifier: MIT */
/* Code that lay at one address, one after the other. */
#include "record/trail/hardware/codes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u
#define BASE UINT64_C(0x7e0000000000)

static char paths[2][64];
static struct codes_piece pieces[2];
static struct process_codes codes;

/* Files of one byte over and over: 'a', 'b'. */
static void begin(void)
{
	for (int i = 0; i < 2; i++) {
		struct stat about;
		char page[PAGE];
		int fd;

		snprintf(paths[i], sizeof(paths[i]), "/tmp/waymark-codes-XXXXXX");
		memset(page, 'a' + i, sizeof(page));
		fd = mkstemp(paths[i]);
		cr_assert(fd >= 0 && write(fd, page, sizeof(page)) == sizeof(page));
		cr_assert_eq(fstat(fd, &about), 0);
		close(fd);
		pieces[i] = (struct codes_piece){ .start = BASE,
						  .end = BASE + PAGE,
						  .inode = about.st_ino,
						  .device = about.st_dev };
	}
	codes_of_process_init(&codes, getpid(), NULL);
}

static void end(void)
{
	codes_of_process_release(&codes);
	unlink(paths[0]);
	unlink(paths[1]);
}

TestSuite(codes, .init = begin, .fini = end, .timeout = 60);

static void mapped(int which, uint64_t ticks)
{
	cr_assert_eq(codes_of_process_mapped(&codes, &pieces[which], paths[which], ticks), 0);
}

/* The code that ran there between these times; '-': unknown. */
static char at(uint64_t from, uint64_t to)
{
	uint8_t byte;

	codes.codes.time(&codes.codes, from, to);
	return codes.codes.read(&codes.codes, BASE + 8, &byte, 1) ? (char)byte : '-';
}

Test(codes, are_those_of_their_time)
{
	mapped(0, 100);
	mapped(1, 200);
	mapped(0, 300);
	cr_expect_eq(at(110, 190), 'a');
	cr_expect_eq(at(210, 290), 'b');
	cr_expect_eq(at(310, 390), 'a');
	cr_expect_eq(at(0, 0), 'a', "now");
	cr_expect_eq(at(10, 20), '-', "before there were any");
}

Test(codes, are_not_guessed_where_they_changed_meanwhile)
{
	mapped(0, 100);
	mapped(1, 200);
	cr_expect_eq(at(110, 210), '-');
	cr_expect_eq(at(190, 200), '-');
	cr_expect_eq(at(200, 210), 'b');
	cr_expect_eq(at(50, 150), 'a', "there was but one");
}

Test(codes, that_are_mapped_again_are_the_same)
{
	mapped(0, 100);
	mapped(0, 200);
	cr_expect_eq(codes.count, 1);
	cr_expect_eq(at(150, 250), 'a');
}

/* Records may come after the process's map was read. */
Test(codes, have_the_time_that_is_told_later)
{
	mapped(0, 100);
	mapped(1, 300);
	codes.pieces[1].is_late = 1;
	mapped(1, 200);
	cr_expect_eq(codes.count, 2);
	cr_expect_eq(at(210, 290), 'b');
}

Test(codes, have_another_generation_when_they_are_others)
{
	uint64_t generation;

	mapped(0, 100);
	mapped(1, 200);
	at(110, 120);
	generation = codes.codes.generation;
	at(130, 140);
	cr_expect_eq(codes.codes.generation, generation);
	at(210, 220);
	cr_expect_gt(codes.codes.generation, generation);
}

Test(codes, of_no_file_are_read_while_they_are_there)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct codes_piece made = { .start = (uint64_t)(uintptr_t)page,
				    .end = (uint64_t)(uintptr_t)page + PAGE };
	uint8_t bytes[4];

	memset(page, 'm', PAGE);
	cr_assert_eq(codes_of_process_mapped(&codes, &made, NULL, 100), 0);
	codes.codes.time(&codes.codes, 110, 120);
	cr_expect_eq(codes.codes.read(&codes.codes, made.start, bytes, 4), 4);
	cr_expect_eq(bytes[0], 'm');
	pieces[0].start = made.start;
	pieces[0].end = made.end;
	mapped(0, 200);
	codes.codes.time(&codes.codes, 110, 120);
	cr_expect_eq(codes.codes.read(&codes.codes, made.start, bytes, 4), 0, "it is gone");
	munmap(page, PAGE);
}

/* By truncate(2), which anyone does who may write to the file. */
Test(codes, of_a_file_that_is_cut_short_are_gone)
{
	mapped(0, 100);
	cr_assert_eq(truncate(paths[0], 0), 0);
	cr_expect_eq(at(0, 0), '-');
}
