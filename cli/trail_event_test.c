/* SPDX-License-Identifier: MIT */
/* Lines of events, of trails that anyone has written. */
#include "cli/trail.h"

#include "cli/cli.h"
#include "trace/testing/packets.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 80
#define EVENTS 60

/* "cmp %eax,(%rdi); je 0x1000", "mov $1,%eax; syscall", "jmp *%rax". */
static const struct trail_entry blocks[] = {
	{ 0x1000, 0x1000, 4, 2, 2, TRAIL_BRANCH, 0 },
	{ 0x1040, 0, 7, 5, 2, TRAIL_SYSCALL, 0 },
	{ 0x2000, 0, 2, 0, 1, TRAIL_JUMP_INDIRECT, 0 },
};
static const char *const codes[] = { "\x39\x07\x74\xfc", "\xb8\1\0\0\0\x0f\5", "\xff\xe0" };

static struct sample_trail sample;
static struct out out;
static char text[1 << 16];
static unsigned int events;

static void begin(void)
{
	sample_trail_begin(&sample);
	sample_trail_thread(&sample, 101, "loops");
}

static void ran(unsigned int block)
{
	sample_trail_ran(&sample, &blocks[block], codes[block]);
}

static void done(void)
{
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
}

static void end(void)
{
	sample_trail_remove(&sample);
}

static int put(struct trail_show *show, const struct trail_path *path, struct image *image)
{
	struct trail_cursor cursor = { .path = path };
	struct trail_item item;

	while (trail_next(&cursor, &item)) {
		if (item.block)
			continue;
		events++;
		trail_put_event(show, path, image, &item);
	}
	return 0;
}

/* All events as lines, into text[] if there is room. Returns an exit status. */
static int show_all(int json)
{
	struct trail_show show = { .options = { .dir = sample.folder, .json = json }, .out = &out };
	char path[] = "/tmp/trail_event_XXXXXX";
	int status, fd = mkstemp(path);
	ssize_t bytes;

	cr_assert_geq(fd, 0);
	unlink(path);
	events = 0;
	out_init(&out, fd);
	rows_begin(&show.rows, &out, ROWS_JSON_LINES);
	status = trail_view_open(&show.view, sample.folder, &show.options.image);
	if (status == CLI_FINE) {
		cr_assert_eq(instruction_format_open(&show.format, INSTRUCTION_ATT), 0);
		cr_assert_eq(trail_each_path(&show, put), 0);
		instruction_format_close(show.format);
	}
	cr_assert_eq(out_flush(&out), 0);
	status = trail_view_close(&show.view, status);
	bytes = pread(fd, text, sizeof(text) - 1, 0);
	text[bytes > 0 ? bytes : 0] = 0;
	close(fd);
	return status;
}

static void expect_text(const char *part)
{
	cr_expect(strstr(text, part), "%s is not in %s", part, text);
}

TestSuite(trail_event, .fini = end, .timeout = 60);

Test(trail_event, instruction_that_faulted_is_shown)
{
	begin();
	ran(0);
	ran(0);
	sample_trail_event(&sample, TRAIL_SIGNAL, 0x1000, 2, 11, 0x1000);
	ran(0);
	sample_trail_event(&sample, TRAIL_SIGNAL, 0x1002, 1, 10, 0x1040);
	ran(1);
	sample_trail_event(&sample, TRAIL_SYSCALLED, 0x1047, 0, 1, (uint64_t)-9);
	sample_trail_event(&sample, TRAIL_END, 0, 0, TRAIL_EXITED, 3);
	done();
	cr_assert_eq(show_all(0), CLI_FINE);
	expect_text("loops-101 (process 100)");
	expect_text("SIGSEGV");
	expect_text("0x1000: cmp");
	expect_text("0x1002: je");
	cr_assert_eq(show_all(1), CLI_FINE);
	expect_text("{\"type\":\"trail_thread\"");
	expect_text("\"type\":\"trail_event\"");
	expect_text("\"instruction\":\"cmp");
	cr_expect_eq(events, 4);
}

Test(trail_event, jump_to_nothing_names_the_instruction_that_led_there)
{
	begin();
	ran(2);
	sample_trail_event(&sample, TRAIL_END, 0xdead0000, 0, TRAIL_KILLED, 11);
	done();
	cr_assert_eq(show_all(0), CLI_FINE);
	expect_text("killed by SIGSEGV");
	expect_text(", which was jumped to at 0x2000");
	expect_text("jmp");
	cr_assert_eq(show_all(1), CLI_FINE);
	expect_text("\"from_address\":\"0x");
}

/* An event with any fields, behind a block; the reader refuses those that can't be. */
Test(trail_event, any_fields_are_a_line)
{
	static const uint64_t edges[] = { 0, 1, UINT64_MAX, INT64_MAX, 0x1000, 0x1002, 0x2001 };
	uint64_t seed = 12;
	unsigned int shown = 0;

	cr_assert_not_null(freopen("/dev/null", "w", stderr));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t random = sample_random(&seed);

		if (i)
			end();
		begin();
		ran((unsigned int)random % 3);
		sample_trail_event(
			&sample, (enum trail_event)((random >> 12) % TRAIL_EVENTS),
			random & 0x100 ? edges[(random >> 16) % 7] : sample_random(&seed),
			(uint32_t)(random >> 20 & 3 ? 0 : random >> 61),
			random & 0x200 ? edges[(random >> 24) % 7] : random >> 58,
			random & 0x400 ? edges[(random >> 28) % 7] : sample_random(&seed));
		done();
		show_all(0);
		shown += events;
		show_all(1);
		shown += events;
	}
	cr_expect_gt(shown, ROUNDS / 5, "%u", shown);
}

/* ---- files of any bytes ---- */

static uint8_t kept[1 << 16], changed[1 << 16];
static char paths[8][320];
static unsigned int path_count;

static void list_files(void)
{
	DIR *dir = opendir(sample.folder);
	const struct dirent *entry;

	cr_assert_not_null(dir);
	while ((entry = readdir(dir)) && path_count < 8)
		if (entry->d_type == DT_REG)
			snprintf(paths[path_count++], sizeof(paths[0]), "%s/%s", sample.folder,
				 entry->d_name);
	closedir(dir);
	cr_assert_geq(path_count, 2);
}

static void file_write(const char *path, const uint8_t *bytes, size_t count)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
	close(fd);
}

Test(trail_event, files_of_any_bytes_are_shown_or_refused)
{
	uint64_t seed = 13;
	unsigned int shown = 0;

	begin();
	for (unsigned int i = 0; i < EVENTS; i++) {
		ran(i % 3);
		if (i % 3 == 1)
			sample_trail_event(&sample, TRAIL_SYSCALLED, 0x1047, 0, i, i);
		sample_trail_event(&sample, TRAIL_LOST, 0, 0, i, 0);
	}
	done();
	list_files();
	cr_assert_not_null(freopen("/dev/null", "w", stderr));
	for (unsigned int i = 0; i < ROUNDS; i++) {
		const char *path = paths[sample_random(&seed) % path_count];
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t bytes = read(fd, kept, sizeof(kept));

		close(fd);
		cr_assert(bytes > 0 && (size_t)bytes < sizeof(kept));
		memcpy(changed, kept, (size_t)bytes);
		for (uint64_t j = 1 + sample_random(&seed) % 6; j--;)
			changed[sample_random(&seed) % (uint64_t)bytes] = (uint8_t)sample_random(
				&seed);
		file_write(path, changed,
			   sample_random(&seed) % 5 ? (size_t)bytes
						    : sample_random(&seed) % (uint64_t)bytes);
		show_all(i % 2);
		shown += events > 0;
		file_write(path, kept, (size_t)bytes);
	}
	cr_expect_gt(shown, 0);
	cr_assert_eq(show_all(0), CLI_FINE);
	cr_expect_eq(events, EVENTS + EVENTS / 3);
}
