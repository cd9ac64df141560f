/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_modules.h"
#include "record/trail/testing/sink.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static char folder[64], path[96], other[96];
static struct sample_sink sink;
static struct engine_module reported;

/* The module's file is this program; another program's is beside it. */
static void begin(void)
{
	char command[256];
	struct stat about;

	sample_folder(folder);
	snprintf(path, sizeof(path), "%s/plugin.so", folder);
	snprintf(other, sizeof(other), "%s/other.so", folder);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s && cp /bin/true %s", getpid(), path,
		 other);
	cr_assert_eq(system(command), 0);
	cr_assert_eq(stat(path, &about), 0);
	reported = (struct engine_module){
		.entry.kind = ENGINE_ENTRY_MODULE,
		.start = 0x10000000,
		.bytes = 4096,
		.inode = about.st_ino,
		.device = { major(about.st_dev), minor(about.st_dev) },
	};
	sample_sink_init(&sink);
}

static void end(void)
{
	sample_sink_release(&sink);
	sample_folder_remove(folder);
}

TestSuite(soft_modules, .init = begin, .fini = end);

/* How many bytes its build id has, of a process that has ended. 1, a zero: no file's. */
static int build_id_bytes(void)
{
	struct soft_modules modules = { .modules.sink = &sink.sink, .is_gone = 1 };
	int bytes;

	cr_assert_eq(soft_modules_told(&modules, &reported, path), 0);
	cr_assert_eq(modules.modules.count, 1);
	bytes = modules.modules.noted[0].module.build_id_bytes;
	modules_release(&modules.modules);
	return bytes;
}

Test(soft_modules, file_that_was_mapped_names_the_module)
{
	cr_expect_gt(build_id_bytes(), 1);
}

/* Also within one tick of the clock that the file's times are of. */
Test(soft_modules, file_that_replaced_it_does_not_name_the_module)
{
	cr_assert_eq(rename(other, path), 0);
	cr_expect_eq(build_id_bytes(), 1);
}

/* As overlayfs shows it: by the time of the file alone. */
Test(soft_modules, file_of_another_device_names_the_module)
{
	reported.device[0]++;
	reported.inode++;
	cr_expect_gt(build_id_bytes(), 1);
}
