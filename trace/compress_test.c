/* SPDX-License-Identifier: MIT */
/* Traces made smaller, and back; killed meanwhile, and damaged on purpose. */
#include "trace/compress.h"
#include "trace/packed.h"
#include "trace/reader.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define STREAMS 2
#define PACKET_EVENTS 700

static char dir[64];
static uint8_t *plain[STREAMS]; /* what the streams hold, in the reader's order */
static uint64_t plain_bytes[STREAMS];
static char *names[STREAMS];

/* Packets of some 30 KB each; what is in them can be packed, though not to nothing. */
static void make_trace(int packets)
{
	const struct trace_process about = {
		.pid = 10, .exe = "/bin/x", .hostname = "here", .ticks_hz = 1000000000
	};
	struct trace_writer *writer;
	uint64_t seed = 1;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 0, SAMPLE_TYPES(WM_TYPE_U32, WM_TYPE_BYTES),
			"mj\ndb\nrow\na.c\n1\nn, row");
	for (uint32_t stream = 0; stream < STREAMS; stream++) {
		struct sample sample = {
			.head = { .pid = 10, .tid = 11 + stream, .instance = stream, .comm = "x" }
		};

		sample_begin(&sample, 0);
		for (int i = 0; i < packets; i++) {
			for (int j = 0; j < PACKET_EVENTS; j++) {
				uint64_t word[4] = { sample_random(&seed), 5, 6, (uint64_t)j };

				sample_event(&sample, 0, sample.ticks + 10, 0);
				sample_u32(&sample, (uint32_t)j);
				sample_run(&sample, word, sizeof(word));
			}
			cr_assert_eq(sample_write(&sample, writer, 0), 0);
			sample_begin(&sample, sample.ticks);
		}
		sample_release(&sample);
	}
	cr_assert_eq(trace_writer_close(writer), 0);
}

static struct trace_reader *open_reader(void)
{
	struct trace_reader *reader;

	cr_assert_eq(trace_reader_open(&reader, dir), 0);
	return reader;
}

/* Keep what the streams hold now. */
static void keep(void)
{
	struct trace_reader *reader = open_reader();

	cr_assert_eq(reader->stream_count, STREAMS);
	for (uint32_t i = 0; i < STREAMS; i++) {
		struct trace_stream *stream = &reader->streams[i];

		cr_assert_eq(reader_stream_map(reader, stream), 0);
		plain_bytes[i] = stream->bytes;
		plain[i] = malloc(stream->bytes);
		names[i] = strdup(stream->file);
		memcpy(plain[i], stream->map, stream->bytes);
	}
	trace_reader_close(reader);
}

static void end(void)
{
	for (int i = 0; i < STREAMS; i++) {
		free(plain[i]);
		free(names[i]);
	}
	sample_folder_remove(dir);
}

TestSuite(compress, .fini = end, .timeout = 100);

/* All is read as it was, `packed` of the streams from packed files. */
static void expect_all(uint32_t packed)
{
	struct trace_reader *reader = open_reader();
	uint32_t found = 0;

	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
	cr_assert_eq(reader->stream_count, STREAMS);
	for (uint32_t i = 0; i < STREAMS; i++) {
		struct trace_stream *stream = &reader->streams[i];

		cr_assert_eq(reader_stream_map(reader, stream), 0);
		cr_assert_eq(stream->bytes, plain_bytes[i]);
		cr_assert_arr_eq(stream->map, plain[i], plain_bytes[i]);
		found += (uint32_t)stream->is_packed;
	}
	if (packed <= STREAMS)
		cr_assert_eq(found, packed);
	trace_reader_close(reader);
}

/* With the facts, the metadata and the index. */
static unsigned int files(void)
{
	DIR *list = opendir(dir);
	unsigned int count = 0;

	while (readdir(list))
		count++;
	closedir(list);
	return count - 2;
}

static char *path_of(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static char *packed_path(int stream)
{
	char name[256];

	snprintf(name, sizeof(name), "%s.zst", names[stream]);
	return path_of(name);
}

static void write_file(const char *path, const void *bytes, size_t count)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
	close(fd);
}

static size_t read_file(const char *path, uint8_t **bytes)
{
	int fd = open(path, O_RDONLY);
	struct stat about;

	cr_assert_eq(fstat(fd, &about), 0);
	*bytes = malloc((size_t)about.st_size);
	cr_assert_eq(read(fd, *bytes, (size_t)about.st_size), about.st_size);
	close(fd);
	return (size_t)about.st_size;
}

/* The permissions of a stream stay, packed and unpacked again. */
Test(compress, keeps_who_may_read_them)
{
	struct stat about;

	make_trace(2);
	keep();
	cr_assert_eq(chmod(path_of(names[0]), 0640), 0);
	cr_assert_eq(trace_compress(dir, NULL), STREAMS);
	cr_assert_eq(stat(packed_path(0), &about), 0);
	cr_expect_eq(about.st_mode & 0777, 0640u);
	cr_assert_eq(trace_decompress(dir, NULL), STREAMS);
	cr_assert_eq(stat(path_of(names[0]), &about), 0);
	cr_expect_eq(about.st_mode & 0777, 0640u, "%o", about.st_mode);
}

Test(compress, reads_the_same_and_gives_the_same_back)
{
	struct trace_packing packing = { 0 };

	make_trace(120);
	keep();
	cr_assert_gt(plain_bytes[0], 3 * PACKED_FRAME_BYTES, "frames cut packets");
	cr_assert_eq(trace_compress(dir, &packing), STREAMS);
	cr_expect_eq(packing.files, STREAMS);
	cr_expect_eq(packing.before, plain_bytes[0] + plain_bytes[1]);
	cr_expect_lt(packing.after, packing.before / 2);
	expect_all(STREAMS);
	cr_expect_eq(files(), 3 + STREAMS);
	cr_expect_eq(trace_compress(dir, NULL), 0, "twice");
	expect_all(STREAMS);

	packing = (struct trace_packing){ 0 };
	cr_assert_eq(trace_decompress(dir, &packing), STREAMS);
	cr_expect_eq(packing.after, plain_bytes[0] + plain_bytes[1]);
	cr_expect_eq(packing.damaged, 0);
	expect_all(0);
	cr_expect_eq(files(), 3 + STREAMS);
	cr_expect_eq(trace_decompress(dir, NULL), 0, "twice");
}

/* A child that is killed at its nth system call. 1 if it came to its end before. */
static int killed_at(int nth, int (*what)(const char *dir, struct trace_packing *packing))
{
	pid_t child = fork();
	int status;

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(what(dir, NULL) < 0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	for (int i = 0; i < nth && WIFSTOPPED(status); i++) {
		ptrace(PTRACE_SYSCALL, child, 0, 0);
		cr_assert_eq(waitpid(child, &status, 0), child);
	}
	if (WIFEXITED(status)) {
		cr_assert_eq(WEXITSTATUS(status), 0);
		return 1;
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return 0;
}

Test(compress, leaves_a_whole_trace_wherever_it_is_killed)
{
	int is_over = 0, rounds;

	make_trace(3);
	keep();
	for (rounds = 1; !is_over; rounds++) {
		is_over = killed_at(rounds, trace_compress);
		expect_all(STREAMS + 1);
		cr_assert_geq(trace_compress(dir, NULL), 0);
		cr_assert_eq(files(), 3 + STREAMS, "round %d", rounds);
		expect_all(STREAMS);
		cr_assert_eq(trace_decompress(dir, NULL), STREAMS);
	}
	cr_expect_gt(rounds, 50, "%d", rounds);
}

Test(decompress, leaves_a_whole_trace_wherever_it_is_killed, .fini = end, .timeout = 100)
{
	int is_over = 0, rounds;

	make_trace(3);
	keep();
	for (rounds = 1; !is_over; rounds++) {
		cr_assert_geq(trace_compress(dir, NULL), 0);
		is_over = killed_at(rounds, trace_decompress);
		expect_all(STREAMS + 1);
		cr_assert_geq(trace_decompress(dir, NULL), 0);
		cr_assert_eq(files(), 3 + STREAMS, "round %d", rounds);
		expect_all(0);
	}
	cr_expect_gt(rounds, 30, "%d", rounds);
}

Test(compress, leaves_the_original_where_the_disk_is_full)
{
	struct rlimit limit = { 20000, RLIM_INFINITY };

	make_trace(20);
	keep();
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_eq(trace_compress(dir, NULL), -EFBIG);
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_eq(files(), 3 + STREAMS);
	expect_all(0);
}

Test(compress, is_refused_while_the_trace_is_written_or_read)
{
	struct trace_writer *writer;
	struct trace_reader *reader;

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_expect_eq(trace_compress(dir, NULL), -WM_E_TRACE_IN_USE);
	cr_expect_eq(trace_decompress(dir, NULL), -WM_E_TRACE_IN_USE);
	cr_assert_eq(trace_writer_close(writer), 0);
	reader = open_reader();
	cr_expect_eq(trace_compress(dir, NULL), -WM_E_TRACE_IN_USE);
	trace_reader_close(reader);
	cr_expect_eq(trace_compress(dir, NULL), 0);
	cr_expect_eq(trace_compress("/nonexistent", NULL), -ENOENT);
	cr_expect_eq(trace_compress("/etc", NULL), -WM_E_NOT_A_TRACE);
	cr_expect_eq(trace_compress("/etc/passwd", NULL), -WM_E_NOT_A_TRACE);
}

Test(compress, leaves_alone_what_is_no_stream)
{
	make_trace(1);
	keep();
	write_file(path_of("notes"), "by hand", 7);
	cr_expect_eq(trace_compress(dir, NULL), STREAMS);
	cr_expect_eq(access(path_of("notes"), F_OK), 0);
}

Test(packed, gives_way_to_the_plain_file_beside_it, .fini = end)
{
	make_trace(2);
	keep();
	write_file(packed_path(0), "rubbish", 7);
	expect_all(0);
	cr_expect_eq(trace_decompress(dir, NULL), 0);
	expect_all(0);
	write_file(packed_path(0), "rubbish", 7);
	cr_expect_eq(trace_compress(dir, NULL), STREAMS);
	expect_all(STREAMS);
}

/* The readable part is a beginning of the original; how much. */
static uint64_t expect_beginning(uint64_t *damages)
{
	struct trace_reader *reader = open_reader();
	uint64_t bytes = 0;

	*damages = reader->damages_ever;
	for (uint32_t i = 0; i < reader->stream_count; i++) {
		struct trace_stream *stream = &reader->streams[i];

		if (stream->tid != 11)
			continue;
		bytes = stream->bytes;
		cr_assert_leq(bytes, plain_bytes[0]);
		cr_assert_eq(reader_stream_map(reader, stream), 0);
		cr_assert(!bytes || !memcmp(stream->map, plain[0], bytes));
	}
	trace_reader_close(reader);
	return bytes;
}

Test(packed, cut_anywhere_is_read_up_to_there, .fini = end, .timeout = 100)
{
	uint64_t damages, bytes, most = 0;
	uint8_t *file;
	size_t count;

	make_trace(120);
	keep();
	cr_assert_eq(trace_compress(dir, NULL), STREAMS);
	count = read_file(packed_path(0), &file);
	for (size_t cut = 1; cut < count; cut += cut < 2000 ? 97 : 30011) {
		write_file(packed_path(0), file, cut);
		bytes = expect_beginning(&damages);
		cr_assert_geq(bytes, most);
		cr_assert_geq(damages, 1, "%zu of %zu", cut, count);
		most = bytes;
	}
	cr_expect_gt(most, PACKED_FRAME_BYTES);
	write_file(packed_path(0), file, count);
	cr_expect_eq(expect_beginning(&damages), plain_bytes[0]);
	cr_expect_eq(damages, 0, "all frames are there");
	free(file);
}

Test(packed, changed_anywhere_is_never_believed, .fini = end, .timeout = 100)
{
	uint64_t damages, bytes, found = 0;
	uint8_t *file;
	size_t count;

	make_trace(5);
	keep();
	cr_assert_eq(trace_compress(dir, NULL), STREAMS);
	count = read_file(packed_path(0), &file);
	for (size_t at = 0; at < count; at += at < 64 || at > count - 64 ? 1 : 37) {
		file[at] ^= 0x55;
		write_file(packed_path(0), file, count);
		bytes = expect_beginning(&damages);
		cr_assert(damages || bytes == plain_bytes[0], "byte %zu", at);
		found += damages != 0;
		file[at] ^= 0x55;
	}
	cr_expect_gt(found, 50, "%lu", found);
	free(file);
}

static void expect_damage(const char *what)
{
	struct trace_reader *reader = open_reader();

	cr_assert_eq(reader->damages_ever, 1);
	cr_expect_str_eq(reader->damages[0].what, what);
	trace_reader_close(reader);
}

Test(packed, frames_of_hostile_sizes_are_damage, .fini = end)
{
	/* magic; single segment, 8 bytes of size: 1 TiB; an empty last block of it */
	static const uint8_t huge[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0,
					0,    0,    1,	  0,	0,    1, 0, 0 };
	/* no size at all: window descriptor, and the same */
	static const uint8_t unknown[] = { 0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 1, 0, 0 };
	static const uint8_t skips[] = { 0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff, 1 };
	static const uint8_t nothing[] = { 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0 };

	make_trace(1);
	keep();
	cr_assert_eq(trace_compress(dir, NULL), STREAMS);
	write_file(packed_path(0), huge, sizeof(huge));
	expect_damage("a compressed frame of an impossible size");
	write_file(packed_path(0), unknown, sizeof(unknown));
	expect_damage("a compressed frame of an impossible size");
	write_file(packed_path(0), skips, sizeof(skips));
	expect_damage("cut in a compressed frame, or none");
	write_file(packed_path(0), "rubbish", 7);
	expect_damage("cut in a compressed frame, or none");
	write_file(packed_path(0), nothing, sizeof(nothing));
	trace_reader_close(open_reader());
	write_file(packed_path(0), "", 0);
	trace_reader_close(open_reader());
}

Test(packed, takes_no_more_memory_than_it_may, .fini = end)
{
	struct trace_reader *reader;

	make_trace(40);
	keep();
	cr_assert_eq(trace_compress(dir, NULL), STREAMS);
	reader = open_reader();
	reader->mapped_max = plain_bytes[0] + plain_bytes[1] - 1;
	cr_expect_eq(reader_stream_map(reader, &reader->streams[0]), 0);
	cr_expect_eq(reader_stream_map(reader, &reader->streams[1]), -WM_E_TRACE_UNPACKED_SIZE);
	reader_stream_unmap(&reader->streams[0]);
	cr_expect_eq(reader_stream_map(reader, &reader->streams[1]), 0);
	trace_reader_close(reader);
}

Test(decompress, keeps_what_can_not_be_unpacked, .fini = end)
{
	struct trace_packing packing = { 0 };
	uint64_t damages, bytes;
	uint8_t *file, *kept;
	size_t count;
	char name[256];

	make_trace(120);
	keep();
	cr_assert_eq(trace_compress(dir, NULL), STREAMS);
	count = read_file(packed_path(0), &file);
	file[count / 2] ^= 1;
	write_file(packed_path(0), file, count);
	bytes = expect_beginning(&damages);
	cr_expect_geq(damages, 1);
	cr_expect_eq(trace_repair(dir), -WM_E_TRACE_PACKED);
	cr_expect_eq(trace_decompress(dir, &packing), STREAMS);
	cr_expect_eq(packing.damaged, 1);
	cr_expect_eq(expect_beginning(&damages), bytes);
	snprintf(name, sizeof(name), ".cut-%s.zst", names[0]);
	cr_assert_eq(read_file(path_of(name), &kept), count);
	cr_expect_arr_eq(kept, file, count);
	free(kept);
	free(file);
}
