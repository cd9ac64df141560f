/* SPDX-License-Identifier: MIT */
#include "trace/kernel_names.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* In no order; a module's function is behind a tab, as the kernel writes it. */
static const char list[] = "ffffffff81000000 T _stext\n"
			   "ffffffff81000000 t first\n"
			   "ffffffff81000000 T also_first\n"
			   "ffffffff81000400 t third\n"
			   "ffffffff81000200 T second\n"
			   "ffffffff81000800 D data\n"
			   "ffffffffc0001000 t of_module\t[nf_core]\n"
			   "ffffffffc0001040 t last\t[nf_core]\n"
			   "nonsense\n"
			   "12\n"
			   "ffffffff81000";

static char dir[64], root[128];
static int folder;

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void begin(void)
{
	char path[256];

	sample_folder(dir);
	folder = open(dir, O_RDONLY | O_DIRECTORY);
	snprintf(root, sizeof(root), "%s.root", dir);
	mkdir(root, 0700);
	snprintf(path, sizeof(path), "%s/proc", root);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/proc/kallsyms", root);
	put(path, list);
}

static void end(void)
{
	char path[256];

	unlinkat(folder, KERNEL_NAMES_FILE, 0);
	close(folder);
	sample_folder_remove(dir);
	snprintf(path, sizeof(path), "%s/proc/kallsyms", root);
	unlink(path);
	snprintf(path, sizeof(path), "%s/proc", root);
	rmdir(path);
	rmdir(root);
}

TestSuite(kernel_names, .init = begin, .fini = end);

/* The file's text; NULL: no file. */
static const char *written(void)
{
	static char text[4096];
	int fd = openat(folder, KERNEL_NAMES_FILE, O_RDONLY);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	return fd < 0 ? NULL : text;
}

Test(kernel_names, addresses_in_any_order_name_each_function_once)
{
	uint64_t addresses[] = { 0xffffffff81000410, 0xffffffffc0001001, 0xffffffff81000000,
				 0xffffffff810001ff, 0xffffffff81000410, 0xffffffff810007ff,
				 0xffffffff81000900, 0xffffffffc0001050, 0xffffffffc0003000 };

	cr_assert_eq(kernel_names_write(folder, root, addresses, 9), 0);
	cr_assert_str_eq(written(),
			 "ffffffff81000000 200 also_first\n"
			 "ffffffff81000400 400 third\n"
			 "ffffffffc0001000 40 of_module [nf_core]\n"
			 "ffffffffc0001040 1000 last [nf_core]\n",
			 "%s", written());
}

Test(kernel_names, hidden_addresses_make_no_file)
{
	uint64_t addresses[] = { 0xffffffff81000410 };
	char path[256];

	snprintf(path, sizeof(path), "%s/proc/kallsyms", root);
	put(path, "0000000000000000 T _stext\n0000000000000000 t first\n");
	cr_assert_eq(kernel_names_write(folder, root, addresses, 1), 0);
	cr_assert_null(written());
	cr_assert_eq(kernel_names_write(folder, "/absent", addresses, 1), 0);
	cr_assert_null(written());
	cr_assert_eq(kernel_names_write(folder, root, addresses, 0), 0);
	cr_assert_null(written());
}

Test(kernel_names, file_that_is_there_is_not_followed)
{
	uint64_t addresses[] = { 0xffffffff81000410 };

	cr_assert_eq(symlinkat("/tmp/elsewhere", folder, KERNEL_NAMES_FILE), 0);
	cr_assert_eq(kernel_names_write(folder, root, addresses, 1), -EEXIST);
	cr_assert_eq(access("/tmp/elsewhere", F_OK), -1);
}

Test(kernel_names, full_disk_leaves_no_file)
{
	uint64_t addresses[] = { 0xffffffff81000410 };

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 4, 4 });
	cr_assert_eq(kernel_names_write(folder, root, addresses, 1), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){ RLIM_INFINITY, RLIM_INFINITY });
	cr_assert_null(written());
}
