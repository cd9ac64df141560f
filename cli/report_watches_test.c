/* SPDX-License-Identifier: MIT */
/* Watches of traces that anyone has written. */
#include "cli/report.h"

#include "abi/watch.h"
#include "trace/reader.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/marker.h>

#define HITS 200
#define ROUNDS 300

static char dir[64];
static struct trace_reader *reader;
static struct report_watches watches;

static void make(const uint8_t types[16], const char *text)
{
	static const struct trace_process about = {
		.pid = 10, .ppid = 1, .exe = "/bin/x", .hostname = "here", .ticks_hz = 1000000000
	};
	struct sample sample = { .head = { .pid = 10, .tid = 20, .instance = 1, .comm = "x" } };
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	cr_assert_eq(trace_event_add(writer, 0, 1, types, text), 0);
	sample_begin(&sample, 100);
	for (uint32_t i = 0; i < HITS; i++) {
		sample_event(&sample, 1, 101 + i, 0);
		sample_u64(&sample, 0x1000 + i % 3); /* ip */
		sample_u64(&sample, i);
		sample_u64(&sample, i + 1);
		sample_u8(&sample, i % 4 ? 0 : WATCH_READ);
		sample_u8(&sample, 0);
	}
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	cr_assert_eq(trace_watch_add(writer, "watch:x"), 0);
	trace_figure_add(writer, 0, "hits", 200);
	trace_figure_add(writer, 0, "registers", UINT32_MAX);
	cr_assert_eq(trace_watch_add(writer, "watch:z\x1b[2J"), 1);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
}

static void make_hits(void)
{
	make(SAMPLE_TYPES(WM_TYPE_PTR, WM_TYPE_U64, WM_TYPE_U64, WM_TYPE_U16),
	     "md\nwatch\nx\n?\n0\nip,old,new,how");
}

static int report(void)
{
	struct pass_observer *observer = &watches.observer;
	struct watch_wheres *wheres = NULL;
	struct images images;
	int err = trace_reader_open(&reader, dir);

	if (err)
		return err;
	err = images_open(&images, reader, NULL);
	if (!err)
		err = watch_wheres_read(&wheres, &images);
	if (!err)
		err = report_watches(&watches, reader, wheres);
	if (!err && watches.writers)
		err = pass_read(reader, &observer, 1);
	watch_wheres_free(wheres);
	images_close(&images);
	trace_reader_close(reader);
	return err;
}

static void end(void)
{
	sample_folder_remove(dir);
}

TestSuite(report_watches, .fini = end, .timeout = 60);

Test(report_watches, hits_are_counted_by_their_places)
{
	make_hits();
	cr_assert_eq(report(), 0);
	cr_assert_eq(watches.count, 2);
	cr_expect_eq(watches.all[0].watched.counts.hits, HITS);
	cr_expect_str_eq(watches.all[1].watched.text, "watch:z\x1b[2J");
	cr_expect_eq(writers_hits(watches.writers), HITS);
	report_watches_release(&watches);
}

/* The same bytes, called something else. */
Test(report_watches, event_of_other_fields_is_no_hit)
{
	make(SAMPLE_TYPES(WM_TYPE_U64, WM_TYPE_U64, WM_TYPE_U64, WM_TYPE_U16),
	     "md\nwatch\nx\n?\n0\nip,old,new,how");
	cr_assert_eq(report(), 0);
	cr_expect_null(watches.writers);
	report_watches_release(&watches);
	end();
	make(SAMPLE_TYPES(WM_TYPE_PTR, WM_TYPE_U64, WM_TYPE_U64, WM_TYPE_U8, WM_TYPE_U8),
	     "md\nwatch\nx\n?\n0\nip,old,new,how,how");
	cr_assert_eq(report(), 0);
	cr_expect_eq(writers_hits(watches.writers), HITS, "without what the instruction did");
	report_watches_release(&watches);
}

/* Change some bytes of a file, at random; put() has it as it was. */
static uint8_t kept[1 << 16];
static size_t kept_bytes;
static char path[128];

static void keep(const char *name)
{
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0, "%s", path);
	kept_bytes = (size_t)read(fd, kept, sizeof(kept));
	close(fd);
	cr_assert(kept_bytes && kept_bytes < sizeof(kept));
}

static void put(uint64_t *seed)
{
	static uint8_t bytes[sizeof(kept)];
	size_t count = seed && !(sample_random(seed) % 4) ? sample_random(seed) % kept_bytes
							  : kept_bytes;
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	memcpy(bytes, kept, kept_bytes);
	for (uint64_t i = seed ? 1 + sample_random(seed) % 8 : 0; i--;)
		bytes[sample_random(seed) % kept_bytes] = (uint8_t)sample_random(seed);
	cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
	close(fd);
}

static void damage(const char *name, uint64_t seed)
{
	unsigned int fine = 0;

	make_hits();
	keep(name);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		put(&seed);
		if (!report()) {
			fine++;
			if (watches.writers)
				cr_assert_leq(writers_hits(watches.writers), HITS);
		}
		report_watches_release(&watches);
		watches = (struct report_watches){ 0 };
	}
	put(NULL);
	cr_assert_eq(report(), 0);
	cr_assert_eq(writers_hits(watches.writers), HITS);
	report_watches_release(&watches);
	cr_expect_gt(fine, 0);
}

Test(report_watches, stream_of_any_bytes_has_no_more_hits)
{
	damage("10-20-0", 21);
}

Test(report_watches, facts_of_any_bytes_have_no_more_hits)
{
	damage(FACTS_FILE, 22);
}
