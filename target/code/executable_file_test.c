/* SPDX-License-Identifier: MIT */
#include "target/code/file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <waymark/error.h>

static struct code_file *file, *other;

/* Memory that can't be read is an error, as it is in another process. */
static int read_self(void *data, uint64_t address, void *buffer, size_t bytes)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ssize_t got = pread(fd, buffer, bytes, (off_t)address);

	(void)data;
	close(fd);
	return got == (ssize_t)bytes ? 0 : -EFAULT;
}

static const struct code_memory memory = { .read = read_self };

/* Map a file as a loader would its first segment. */
static uint64_t map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

	close(fd);
	cr_assert_neq(at, MAP_FAILED);
	return (uint64_t)(uintptr_t)at;
}

static void copy(const char *from, const char *to)
{
	char command[512];

	snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
	cr_assert_eq(system(command), 0);
}

Test(origin, a_file_by_its_path, .timeout = 20)
{
	uint64_t start = map(SAMPLE_MODULE);

	cr_assert_eq(code_file_open_process(&file, getpid(), start, SAMPLE_MODULE, &memory), 0);
	cr_assert_str_eq(file->path, SAMPLE_MODULE);
	cr_assert_str_eq(file->name, "sample_module");
	code_file_close(file);
}

Test(origin, one_that_was_deleted_or_replaced)
{
	char path[] = "/tmp/waymark-origin-XXXXXX";
	uint64_t start;
	int fd = mkstemp(path), err;

	cr_assert_geq(fd, 0);
	close(fd);
	copy(SAMPLE_MODULE, path);
	start = map(path);
	cr_assert_eq(unlink(path), 0);
	err = code_file_open_process(&file, getpid(), start, path, &memory);
	/* The kernel still has it, for those who may ask. */
	cr_assert(err == 0 || err == -ENOENT, "%d", err);
	code_file_close(file);

	copy("/bin/true", path);
	cr_assert_eq(code_file_open(&other, "/bin/true"), 0);
	err = code_file_open_process(&file, getpid(), start, path, &memory);
	cr_assert(err == 0 || err == -WM_E_FILE_REPLACED, "%d", err);
	if (!err)
		cr_assert_neq(file->file_bytes, other->file_bytes);
	code_file_close(file);
	code_file_close(other);
	unlink(path);
}

Test(origin, what_is_mapped_must_be_what_is_opened)
{
	uint64_t start = map("/bin/true");

	/* A wrong path, and no mapping there: only the path is left to find the file by. */
	(void)munmap((void *)(uintptr_t)(start + 4096), 0);
	cr_assert_eq(code_file_open_process(&file, getpid(), start + 0x10000000, SAMPLE_MODULE,
					    &memory),
		     -WM_E_FILE_REPLACED);
	cr_assert_null(file);
}

Test(origin, the_vdso_is_copied_from_memory)
{
	uint64_t start = getauxval(AT_SYSINFO_EHDR);

	if (!start)
		cr_skip_test("the kernel gave us no vdso");
	cr_assert_eq(code_file_open_process(&file, getpid(), start, "[vdso]", &memory), 0);
	cr_assert(file->is_vdso);
	code_file_close(file);
}
