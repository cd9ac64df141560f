/* SPDX-License-Identifier: MIT */
#include "record/trail/hardware/kernel_codes.h"
#include "record/trail/testing/kcore.h"
#include "record/trail/testing/perf.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[64], path[128];
static struct kernel_codes *codes;

static void begin(void)
{
	sample_folder(root);
	sample_kcore_put(root);
	snprintf(path, sizeof(path), "%s/proc/kcore", root);
}

static void end(void)
{
	kernel_codes_close(codes);
	sample_folder_remove(root);
}

TestSuite(kernel_codes, .init = begin, .fini = end, .timeout = 60);

Test(kernel_codes, reads_what_the_core_has)
{
	uint8_t bytes[128];

	cr_assert_eq(kernel_codes_open(&codes, root), 0);
	cr_expect_eq(kernel_codes_read(codes, SAMPLE_KERNEL + 0x20, bytes, 15), 15);
	cr_expect(!memcmp(bytes, sample_kernel + 0x20, 15));
	cr_expect_eq(kernel_codes_read(codes, SAMPLE_KERNEL + 0x30, bytes, 128), 16,
		     "up to the end");
	cr_expect_eq(kernel_codes_read(codes, SAMPLE_KERNEL_MODULE, bytes, 15), 15);
	cr_expect_eq(kernel_codes_read(codes, SAMPLE_KERNEL + 0x40, bytes, 15), 0);
	cr_expect_eq(kernel_codes_read(codes, SAMPLE_KERNEL - 1, bytes, 15), 0);
	cr_expect_eq(kernel_codes_read(codes, UINT64_MAX - 4, bytes, 15), 0);
}

/* Write over a piece of it; what opening says then. */
static int broken(long at, const void *bytes, size_t count)
{
	FILE *file;

	sample_kcore_put(root);
	file = fopen(path, "r+");
	cr_assert(file && !fseek(file, at, SEEK_SET) && fwrite(bytes, count, 1, file) == 1);
	fclose(file);
	return kernel_codes_open(&codes, root);
}

Test(kernel_codes, refuses_what_is_no_core)
{
	const uint64_t far = UINT64_MAX / 2;

	cr_expect_eq(broken(0, "nope", 4), -ENOEXEC);
	cr_expect_eq(broken(4, "\1", 1), -ENOEXEC, "32 bits");
	cr_expect_eq(broken(16, "\2", 1), -ENOEXEC, "a program");
	cr_expect_eq(broken(18, "\3", 1), -ENOEXEC, "another machine's");
	cr_expect_eq(broken(32, &far, 8), -ENOEXEC, "headers that are not there");
	cr_expect_eq(broken(54, "\1", 1), -ENOEXEC, "headers of another size");
	cr_expect_eq(broken(56, "\0\0", 2), -ENOEXEC, "none");
	cr_expect_eq(broken(56, "\1\0", 2), -ENOEXEC, "no memory in it");
	cr_expect_eq(broken(56, "\xfe\xff", 2), -ENOEXEC, "more than the file has");
	cr_assert_eq(truncate(path, 10), 0);
	cr_expect_eq(kernel_codes_open(&codes, root), -ENOEXEC);
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(kernel_codes_open(&codes, root), -ENOENT);
	cr_expect_null(codes);
}

/* ---- names ---- */

static char reported[512];

static int module(struct trail_sink *sink, const struct control_module *module, const char *name)
{
	size_t used = strlen(reported);

	(void)sink;
	snprintf(reported + used, sizeof(reported) - used, "%s %lx %u\n", name,
		 (unsigned long)module->base, module->build_id_bytes);
	return 0;
}

static const char *names(void)
{
	static const struct trail_sink_calls calls = { .module = module };
	struct trail_sink sink = { &calls };

	reported[0] = '\0';
	cr_assert_eq(kernel_modules_note(codes, &sink, root), 0);
	return reported;
}

Test(kernel_codes, tells_of_the_kernel_and_its_modules)
{
	cr_assert_eq(kernel_codes_open(&codes, root), 0);
	cr_expect_str_eq(names(), "[kernel] ffffffff81000000 4\n[sample] ffffffffc0000000 0\n");
}

Test(kernel_codes, tells_what_it_can_where_addresses_are_hidden)
{
	sample_machine_put(root, "/proc/kallsyms", "0000000000000000 T _stext\n");
	sample_machine_put(root, "/sys/kernel/notes", "GNU");
	cr_assert_eq(kernel_codes_open(&codes, root), 0);
	cr_expect_str_eq(names(), "[kernel] ffffffff81000000 0\n");
}
