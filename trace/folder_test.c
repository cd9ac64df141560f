/* SPDX-License-Identifier: MIT */
#include "read/pass/testing/canon.h"
#include "trace/compress.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static const struct trace_process about = {
	.pid = 10, .ppid = 1, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
};
static char dir[64];

static char *path_of(const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return path;
}

/* A packet of one event. */
static int write_packet(struct trace_writer *writer, struct sample *sample)
{
	sample_begin(sample, sample->ticks + 1);
	sample_event(sample, 0, sample->ticks + 1, 0);
	sample_string(sample, "value");
	return sample_write(sample, writer, 0);
}

Test(folder, that_another_user_can_change_is_refused)
{
	struct trace_writer *writer;

	sample_folder(dir);
	cr_assert_eq(chmod(dir, 0770), 0);
	cr_assert_eq(trace_writer_open(&writer, dir), -WM_E_OUTPUT_OWNER);
	cr_assert_eq(chmod(dir, 0702), 0);
	cr_assert_eq(trace_writer_open(&writer, dir), -WM_E_OUTPUT_OWNER);
	cr_assert_eq(chmod(dir, 0755), 0);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	trace_writer_close(writer);
	cr_assert_eq(chmod(dir, 0757), 0);
	cr_assert_eq(trace_repair(dir), -WM_E_OUTPUT_OWNER);
	cr_assert_eq(trace_compress(dir, NULL), -WM_E_OUTPUT_OWNER);
	cr_assert_eq(trace_decompress(dir, NULL), -WM_E_OUTPUT_OWNER);
	sample_folder_remove(dir);
}

Test(folder, link_in_its_place_is_refused)
{
	struct trace_writer *writer;
	char link[80], slashed[90];

	sample_folder(dir);
	snprintf(link, sizeof(link), "%s-link", dir);
	snprintf(slashed, sizeof(slashed), "%s//", link);
	cr_assert_eq(symlink(dir, link), 0);
	cr_assert_eq(trace_writer_open(&writer, link), -WM_E_OUTPUT_OWNER);
	cr_assert_eq(trace_writer_open(&writer, slashed), -WM_E_OUTPUT_OWNER);
	cr_assert_eq(access(path_of("metadata"), F_OK), -1);
	unlink(link);
	sample_folder_remove(dir);
}

Test(folder, files_there_already_are_not_opened)
{
	struct sample sample = { .head = { .pid = 10, .tid = 11 } };
	struct trace_writer *writer;
	struct canon canon;
	char precious[80];

	sample_folder(dir);
	snprintf(precious, sizeof(precious), "%s-precious", dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	cr_assert_eq(
		trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_STR), "mj\na\nb\nc.c\n1\ns"), 0);
	cr_assert_eq(symlink(precious, path_of(".metadata.new")), 0);
	cr_assert_eq(write_packet(writer, &sample), -EEXIST);
	cr_assert_eq(unlink(path_of(".metadata.new")), 0);
	cr_assert_eq(symlink(precious, path_of("10-11-0")), 0);
	cr_assert_eq(write_packet(writer, &sample), -EEXIST);
	cr_assert_neq(access(precious, F_OK), 0);
	cr_assert_eq(unlink(path_of("10-11-0")), 0);
	cr_assert_eq(write_packet(writer, &sample), 0);
	trace_writer_close(writer);
	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_assert_eq(canon.count, 1);
	canon_release(&canon);
	sample_release(&sample);
	sample_folder_remove(dir);
}
