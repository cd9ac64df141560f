/* SPDX-License-Identifier: MIT */
/* The modules of this very process, as they come and go. */
#include "record/trail/modules.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char file[512];
static int came, went;
static uint64_t came_base, went_base;

/* Count the reports of the one file. */
static int report(struct trail_sink *sink, const struct control_module *module, const char *path)
{
	(void)sink;
	if (strcmp(path, file) != 0)
		return 0;
	if (module->gone) {
		went++;
		went_base = module->base;
	} else {
		came++;
		came_base = module->base;
	}
	return 0;
}

static const struct trail_sink_calls calls = { .module = report };
static struct trail_sink sink = { .calls = &calls };
static struct modules modules = { .sink = &sink };

Test(modules, are_told_when_they_come_and_when_they_are_gone)
{
	int fd;
	void *at;

	snprintf(file, sizeof(file), "/tmp/waymark-modules-%d", (int)getpid());
	fd = open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, 4096), 0);
	at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	cr_assert_neq(at, MAP_FAILED);

	cr_assert_eq(modules_note(&modules, getpid()), 0);
	cr_assert_eq(modules_note(&modules, getpid()), 0);
	cr_expect_eq(came, 1, "reported %d times", came);
	cr_expect_eq(went, 0);
	cr_expect_eq(came_base, (uint64_t)(uintptr_t)at);

	unlink(file); /* it stays what it is */
	cr_assert_eq(modules_note(&modules, getpid()), 0);
	cr_expect_eq(came, 1);
	cr_expect_eq(went, 0);

	munmap(at, 4096);
	cr_assert_eq(modules_note(&modules, getpid()), 0);
	cr_assert_eq(modules_note(&modules, getpid()), 0);
	cr_expect_eq(went, 1, "gone %d times", went);
	cr_expect_eq(went_base, came_base);

	at = mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_eq(modules_note(&modules, getpid()), 0);
	cr_expect_eq(came, 1);
	modules_release(&modules);
}

Test(modules, another_build_at_the_same_place_is_another_module)
{
	size_t at = 0;

	cr_assert_eq(modules_note(&modules, getpid()), 0);
	while (at < modules.count && !modules.noted[at].module.build_id_bytes)
		at++;
	cr_assert_lt(at, modules.count);
	snprintf(file, sizeof(file), "%s", modules.noted[at].path);
	cr_assert_eq(modules_note(&modules, getpid()), 0);
	cr_expect_eq(went, 0);
	modules.noted[at].module.build_id[0] ^= 1;
	cr_assert_eq(modules_note(&modules, getpid()), 0);
	cr_expect_eq(went, 1);
	cr_expect_eq(came, 1);
	modules_release(&modules);
}
