/* SPDX-License-Identifier: MIT */
#include "trace/testing/babeltrace.h"
#include "read/pass/testing/canon.h"
#include "trace/metadata.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/marker.h>

#define PAGE 4096u
#define PROCESSES 40

static char dir[64];

static char *load(size_t *bytes)
{
	static char content[1 << 20];
	char path[128];
	ssize_t count;
	int fd;

	snprintf(path, sizeof(path), "%s/metadata", dir);
	fd = open(path, O_RDONLY);
	count = read(fd, content, sizeof(content) - 1);
	close(fd);
	cr_assert_gt(count, 0);
	cr_assert_lt(count, (ssize_t)sizeof(content) - 1);
	*bytes = (size_t)count;
	content[count] = '\0';
	return content;
}

static ino_t inode(void)
{
	struct stat found;
	char path[128];

	snprintf(path, sizeof(path), "%s/metadata", dir);
	cr_assert_eq(stat(path, &found), 0);
	return found.st_ino;
}

/* A process with a module, an event and a packet that has it. */
static void add_process(struct trace_writer *writer, struct sample *sample, uint32_t pid)
{
	const struct trace_process about = {
		.pid = pid, .ppid = 1, .exe = "/bin/x", .hostname = "here", .ticks_hz = 2000000000
	};
	const struct control_module module = { .base = 0x1000 };
	char text[64];
	int number = trace_process_add(writer, &about);

	cr_assert_geq(number, 0);
	snprintf(text, sizeof(text), "mj\na\nb%u\nc.c\n1\ns", pid);
	cr_assert_eq(trace_module_add(writer, number, &module, "/usr/lib/libexample.so", 0), 0);
	cr_assert_eq(trace_event_add(writer, number, 0, SAMPLE_TYPES(WM_TYPE_STR), text), 0);
	sample->head.pid = sample->head.tid = pid;
	sample->head.instance = pid;
	sample_begin(sample, sample->ticks + 1);
	sample_event(sample, 0, sample->ticks + 1, 0);
	sample_string(sample, "text");
	cr_assert_eq(sample_write(sample, writer, number), 0);
}

static void expect_events(uint32_t count)
{
	struct babeltrace theirs;
	struct canon canon;

	cr_assert_eq(canon_read(&canon, dir), 0);
	cr_assert_eq(canon.damages, 0);
	cr_assert_eq(canon.count, count, "%u events", canon.count);
	canon_release(&canon);
	if (babeltrace_read(&theirs, dir))
		return;
	cr_assert_not(theirs.failed);
	cr_assert_eq(theirs.count, count);
	babeltrace_release(&theirs);
}

static unsigned int count_of(const char *text, const char *word)
{
	unsigned int count = 0;

	while ((text = strstr(text, word))) {
		text += strlen(word);
		count++;
	}
	return count;
}

/* The processes that are declared; also, nothing is cut. */
static uint32_t processes_in(const char *text, size_t bytes)
{
	size_t cut = bytes;

	while (cut && (text[cut - 1] == '\n' || text[cut - 1] == ' '))
		cut--;
	cr_assert_gt(cut, 2);
	cr_assert(text[cut - 1] == ';' && text[cut - 2] != '"', "cut at %zu", bytes);
	cr_assert(!memcmp(text + cut - 2, "};", 2) || memmem(text + cut - 32, 32, ":= ", 3),
		  "cut at %zu", bytes);
	return count_of(text, "stream {") - 1; /* one is the facts' */
}

Test(metadata, new_declarations_are_appended_and_read_while_live, .timeout = 60)
{
	struct sample sample = { 0 };
	struct trace_writer *writer;
	ino_t first;
	size_t bytes;
	char *text;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	add_process(writer, &sample, 100);
	first = inode();
	for (uint32_t i = 1; i < PROCESSES; i++) {
		add_process(writer, &sample, 100 + i);
		cr_assert_eq(inode(), first, "replaced at process %u", i);
	}
	expect_events(PROCESSES);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(inode(), first);
	text = load(&bytes);
	cr_assert_eq(processes_in(text, bytes), PROCESSES);
	expect_events(PROCESSES);
	sample_release(&sample);
	sample_folder_remove(dir);
}

/* SIGKILL and a reader may see an append up to any page's end, and nothing between two. */
Test(metadata, file_cut_at_any_appended_page_has_whole_declarations, .timeout = 60)
{
	struct sample sample = { 0 };
	struct trace_writer *writer;
	size_t first, bytes, cuts = 0;
	uint32_t before = 0;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	add_process(writer, &sample, 100);
	load(&first);
	for (uint32_t i = 1; i < PROCESSES; i++)
		add_process(writer, &sample, 100 + i);
	load(&bytes);
	for (size_t at = first - first % PAGE + PAGE; at < bytes; at += PAGE) {
		char *text = load(&bytes);
		uint32_t count;

		text[at] = '\0';
		count = processes_in(text, at);
		cr_assert_geq(count, before);
		before = count;
		cuts++;
	}
	cr_assert_gt(cuts, 5);
	cr_assert_gt(before, PROCESSES / 2);
	cr_assert_eq(trace_writer_close(writer), 0);
	sample_release(&sample);
	sample_folder_remove(dir);
}

Test(metadata, declaration_larger_than_a_page_replaces_the_file)
{
	struct sample sample = { 0 };
	struct trace_writer *writer;
	struct text text = { 0 };
	ino_t first;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	add_process(writer, &sample, 100);
	first = inode();
	text_format(&text, "mj\na\n%0*d\nc.c\n1\n", (int)PAGE, 1);
	cr_assert_eq(trace_event_add(writer, 0, 9, SAMPLE_TYPES(0), text.at), 0);
	add_process(writer, &sample, 101);
	cr_assert_neq(inode(), first);
	expect_events(2);
	cr_assert_eq(trace_writer_close(writer), 0);
	text_release(&text);
	sample_release(&sample);
	sample_folder_remove(dir);
}

/* The limit lets a write end in the middle of a page. */
Test(metadata, append_without_room_leaves_the_file_as_before)
{
	static const char body[] = "stream {\n\tid = 0;\n};\n\n";
	struct rlimit limit = { .rlim_cur = 200, .rlim_max = RLIM_INFINITY };
	struct text head = { 0 }, none = { 0 }, more = { 0 };
	struct metadata metadata = { .fd = -1 };
	size_t bytes;
	int folder;

	signal(SIGXFSZ, SIG_IGN);
	sample_folder(dir);
	folder = open(dir, O_RDONLY | O_DIRECTORY);
	text_format(&head, "%0100d", 1);
	cr_assert_eq(metadata_replace(&metadata, folder, &head, &none), 0);
	text_add(&more, body, sizeof(body) - 1);
	cr_assert_eq(metadata_append(&metadata, &more), 0);
	load(&bytes);
	cr_assert_eq(bytes, 100 + more.bytes);
	for (unsigned int i = 0; i < 20; i++)
		text_add(&more, body, sizeof(body) - 1);
	setrlimit(RLIMIT_FSIZE, &limit);
	cr_assert_eq(metadata_append(&metadata, &more), -EFBIG);
	load(&bytes);
	cr_assert_eq(bytes, 100 + sizeof(body) - 1);
	cr_assert_lt(metadata.fd, 0);
	metadata_release(&metadata);
	close(folder);
	text_release(&head);
	text_release(&more);
	sample_folder_remove(dir);
}
