/* SPDX-License-Identifier: MIT */
#include "base/elf.h"
#include "abi/site.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

struct seen {
	int sites, scopes;
	char text[4][256];
};

static __attribute__((used, noinline)) void marked(int number, const char *text)
{
	WAYMARK(elf, first, number, text);
	WAYMARK_SCOPE(elf, second, number);
}

static int site_see(const struct elf_site *site, void *data)
{
	struct seen *seen = data;

	if (seen->sites < 4)
		snprintf(seen->text[seen->sites], 256, "%s", site->text);
	seen->scopes += !site->site;
	seen->sites++;
	return 0;
}

static void expect_ours(const struct elf *elf)
{
	struct seen seen = { 0 };

	cr_assert_eq(elf_sites(elf, site_see, &seen), 0);
	cr_assert_eq(seen.sites, 3);
	cr_assert_eq(seen.scopes, 1);
	cr_assert_eq(strncmp(seen.text[0], "mj\nelf\nfirst\n", 13), 0, "%s", seen.text[0]);
	cr_assert(strstr(seen.text[0], "\nnumber, text"), "%s", seen.text[0]);
}

/* What opening a device does can't be tested here, but a pipe says whether it was opened. */
Test(elf, pipe_is_refused_without_opening_it)
{
	char path[] = "/tmp/waymark-test-XXXXXX", pipe[64], event[512];
	int seen = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct elf elf;

	cr_assert(mkdtemp(path));
	snprintf(pipe, sizeof(pipe), "%s/pipe", path);
	cr_assert_eq(mkfifo(pipe, 0600), 0);
	cr_assert_geq(inotify_add_watch(seen, pipe, IN_OPEN), 0);
	cr_expect_eq(elf_open(&elf, pipe), -WM_E_NOT_ELF);
	elf_release(&elf);
	cr_expect_eq(read(seen, event, sizeof(event)), -1);
	cr_expect_eq(errno, EAGAIN);
	close(seen);
	unlink(pipe);
	rmdir(path);
}

Test(elf, our_own_sites_are_found_in_the_file)
{
	uint8_t id[ELF_BUILD_ID_BYTES];
	struct elf elf;

	cr_assert_eq(elf_open(&elf, "/proc/self/exe"), 0);
	expect_ours(&elf);
	cr_assert_not_null(elf_segment(&elf, PT_INTERP));
	elf_build_id(&elf, id);
	elf_release(&elf);
}

Test(elf, our_own_sites_are_found_in_memory)
{
	extern const char __ehdr_start[];
	int mem = open("/proc/self/mem", O_RDONLY);
	struct elf elf;

	cr_assert_eq(elf_open_memory(&elf, mem, (uint64_t)(uintptr_t)__ehdr_start), 0);
	expect_ours(&elf);
	elf_release(&elf);
	close(mem);
}

Test(elf, symbols_are_found_where_the_loader_finds_them)
{
	uint64_t value;
	struct elf elf;

	cr_assert_eq(elf_open(&elf, "/lib/x86_64-linux-gnu/libc.so.6"), 0);
	cr_assert_eq(elf_symbol(&elf, "pthread_create", &value), 0);
	cr_assert_not_null(elf_segment_at(&elf, value));
	cr_assert_eq(elf_symbol(&elf, "no_such_function", &value), -ENOENT);
	elf_release(&elf);
}

static int open_bytes(struct elf *elf, const void *bytes, size_t count)
{
	char path[] = "/tmp/waymark-elf-XXXXXX";
	int fd = mkstemp(path), err;

	cr_assert_eq(write(fd, bytes, count), (ssize_t)count);
	close(fd);
	err = elf_open(elf, path);
	unlink(path);
	return err;
}

Test(elf, other_files_are_refused_for_what_they_are)
{
	struct elf elf;
	char header[64] = ELFMAG;

	cr_assert_eq(open_bytes(&elf, "#!/bin/sh\n", 10), -WM_E_NOT_ELF);
	elf_release(&elf);
	cr_assert_eq(open_bytes(&elf, "", 0), -WM_E_NOT_ELF);
	elf_release(&elf);
	header[EI_CLASS] = ELFCLASS32;
	cr_assert_eq(open_bytes(&elf, header, 52), -WM_E_FOREIGN_ARCH);
	elf_release(&elf);
	header[EI_CLASS] = ELFCLASS64;
	header[EI_DATA] = ELFDATA2LSB;
	header[18] = (char)EM_AARCH64;
	cr_assert_eq(open_bytes(&elf, header, 64), -WM_E_FOREIGN_ARCH);
	elf_release(&elf);
	cr_assert_eq(elf_open(&elf, "/tmp"), -EISDIR);
	elf_release(&elf);
	cr_assert_eq(elf_open(&elf, "/nowhere"), -ENOENT);
	elf_release(&elf);
	cr_assert_eq(elf_open(&elf, "/dev/null"), -WM_E_NOT_ELF);
	elf_release(&elf);
}

/*
 * As after patchelf, which moves the note: its words, relative to itself, no longer lead to the
 * table.
 */
Test(elf, sites_whose_note_was_moved_are_found)
{
	static const int32_t ways[] = { 4, -4096, 1 << 20 };
	static unsigned char bytes[1 << 22];
	FILE *self = fopen("/proc/self/exe", "re");
	size_t count = fread(bytes, 1, sizeof(bytes), self);
	static const uint32_t head[] = { 8, sizeof(struct wm_site_note), SITE_NOTE_TYPE };
	unsigned char *note = memmem(bytes, count, head, sizeof(head));
	int32_t words[4];
	struct elf elf;

	fclose(self);
	cr_assert_not_null(note);
	note += sizeof(head) + sizeof(SITE_NOTE_OWNER);
	memcpy(words, note, sizeof(words));
	for (size_t i = 0; i < 3; i++) {
		int32_t moved[4];

		for (int j = 0; j < 4; j++)
			moved[j] = words[j] + ways[i];
		memcpy(note, moved, sizeof(moved));
		cr_assert_eq(open_bytes(&elf, bytes, count), 0);
		expect_ours(&elf);
		elf_release(&elf);
	}
	/* the markers alone: no table has this distance from them */
	words[2] += 8;
	words[3] += 8;
	memcpy(note, words, sizeof(words));
	cr_assert_eq(open_bytes(&elf, bytes, count), 0);
	cr_assert_eq(elf_sites(&elf, site_see, &(struct seen){ 0 }), -WM_E_MODULE_DAMAGED);
	elf_release(&elf);
}

static int site_count(const struct elf_site *site, void *data)
{
	cr_assert_lt(strlen(site->text), ELF_TEXT_BYTES);
	return ++*(int *)data > 1000000;
}

/* For any file contents, reading ends, in an error or in something of bounded size. */
Test(elf, damaged_files_do_no_harm, .timeout = 60)
{
	static unsigned char bytes[1 << 22];
	FILE *self = fopen("/proc/self/exe", "re");
	size_t count = fread(bytes, 1, sizeof(bytes), self);
	unsigned int seed = 7;

	fclose(self);
	for (int round = 0; round < 400; round++) {
		unsigned char kept[64];
		size_t at[64];
		uint8_t id[ELF_BUILD_ID_BYTES];
		uint64_t value;
		struct elf elf;
		int sites = 0;

		/* the header and the tables behind it are where damage matters most */
		for (int i = 0; i < 64; i++) {
			at[i] = (size_t)rand_r(&seed) % (i % 2 ? 4096 : count);
			kept[i] = bytes[at[i]];
			bytes[at[i]] = (unsigned char)rand_r(&seed);
		}
		memcpy(bytes, ELFMAG "\2\1\1", 7);
		if (!open_bytes(&elf, bytes, round % 5 ? count : (size_t)rand_r(&seed) % count)) {
			elf_build_id(&elf, id);
			elf_symbol(&elf, "main", &value);
			elf_sites(&elf, site_count, &sites);
		}
		elf_release(&elf);
		for (int i = 63; i >= 0; i--)
			bytes[at[i]] = kept[i];
	}
}
