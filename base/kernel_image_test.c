/* SPDX-License-Identifier: MIT */
#include "base/kernel_image.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[] = "/tmp/waymark-kernel-XXXXXX";

static void put(const char *path, const void *content, size_t bytes)
{
	char full[128];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	file = fopen(full, "w");
	cr_assert(file && fwrite(content, 1, bytes, file) == bytes);
	fclose(file);
}

static void put_text(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

static void begin(void)
{
	static const char *const folders[] = { "/proc", "/sys", "/sys/kernel" };
	char full[128];

	cr_assert_not_null(mkdtemp(root));
	for (size_t i = 0; i < 3; i++) {
		snprintf(full, sizeof(full), "%s%s", root, folders[i]);
		cr_assert_eq(mkdir(full, 0755), 0);
	}
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(kernel_image, .init = begin, .fini = end, .timeout = 60);

Test(kernel_image, finds_where_its_text_begins)
{
	cr_expect_eq(kernel_image_start(root), 0, "no file");
	put_text("/proc/kallsyms", "0000000000000000 A first\nffffffff81000000 t a\t[b]\n"
				   "ffffffff82000000 T _stext\n");
	cr_expect_eq(kernel_image_start(root), UINT64_C(0xffffffff82000000));
	put_text("/proc/kallsyms", "0000000000000000 T _stext\n");
	cr_expect_eq(kernel_image_start(root), 0, "not shown");
	put_text("/proc/kallsyms", "not a list of symbols");
	cr_expect_eq(kernel_image_start(root), 0);
}

#define NOTE(name, content, type) name "\0\0\0" content "\0\0\0" type "\0\0\0"

Test(kernel_image, finds_its_build_id_among_notes)
{
	static const char notes[] = NOTE(
		"\4", "\5", "\1") "abc\0"
				  "12345\0\0\0" NOTE("\4", "\2", "\3") "GNU\0\xca\xfe\0";
	uint8_t id[KERNEL_IMAGE_ID_BYTES];

	put("/sys/kernel/notes", notes, sizeof(notes));
	cr_expect_eq(kernel_image_build_id(root, id), 2);
	cr_expect(!memcmp(id, "\xca\xfe", 2));
}

Test(kernel_image, takes_no_build_id_that_is_none)
{
	uint8_t id[KERNEL_IMAGE_ID_BYTES];

	cr_expect_eq(kernel_image_build_id(root, id), 0, "no file");
	put("/sys/kernel/notes", NOTE("\4", "\2", "\3") "GNU\0", 16);
	cr_expect_eq(kernel_image_build_id(root, id), 0, "cut");
	put("/sys/kernel/notes", NOTE("\xff", "\xff", "\3") "GNU\0", 16);
	cr_expect_eq(kernel_image_build_id(root, id), 0, "larger than all");
	put("/sys/kernel/notes",
	    NOTE("\4", "\x18", "\3") "GNU\0" NOTE("\4", "\x18", "\3") NOTE("\4", "\x18", "\3"), 40);
	cr_expect_eq(kernel_image_build_id(root, id), 0, "of 24 bytes");
}

static char listed[256];

static int each(const char *name, uint64_t address, void *data)
{
	size_t used = strlen(listed);

	snprintf(listed + used, sizeof(listed) - used, "%s %lx\n", name, (unsigned long)address);
	return *(int *)data;
}

Test(kernel_image, names_its_modules)
{
	int stops = 0;

	cr_expect_eq(kernel_image_modules(root, each, &stops), 0, "no file");
	put_text("/proc/modules", "one 4096 1 - Live 0xffffffffc0000000 (OE)\n"
				  "hidden 4096 1 - Live 0x0000000000000000\n"
				  "two 4096 2 one, Live 0xffffffffc0001000\n");
	cr_expect_eq(kernel_image_modules(root, each, &stops), 0);
	cr_expect_str_eq(listed, "one ffffffffc0000000\ntwo ffffffffc0001000\n");
	stops = 5;
	cr_expect_eq(kernel_image_modules(root, each, &stops), 5);
}
