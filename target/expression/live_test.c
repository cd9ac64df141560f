/* SPDX-License-Identifier: MIT */
/* Where variables lie in a program that runs, by its own word. */
#include "target/code/testing/folder.h"
#include "target/expression/tls_block.h"
#include "target/expression/find.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define MODULES_MAX 16
static struct code_module all[MODULES_MAX], *modules[MODULES_MAX];
static size_t module_count;
static uint64_t thread_pointer;
static pid_t pid;
static int mem = -1, asks[2] = { -1, -1 };
static FILE *said;
static struct watch_trouble trouble;

static int memory_read(void *data, uint64_t address, void *buffer, size_t bytes)
{
	ssize_t count = pread(mem, buffer, bytes, (off_t)address);

	(void)data;
	return count == (ssize_t)bytes ? 0 : count < 0 ? -errno : -EFAULT;
}

/* Run the program, as far as its own words. */
static void start(void)
{
	char path[128];
	int says[2];

	cr_assert_eq(pipe2(says, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(asks, O_CLOEXEC), 0);
	snprintf(path, sizeof(path), "%s/live", folder);
	pid = fork();
	if (!pid) {
		dup2(asks[0], 0);
		dup2(says[1], 1);
		execl(path, path, NULL);
		_exit(127);
	}
	close(says[1]);
	said = fdopen(says[0], "r");
}

/* Once the program runs: before its execl(), the memory is our own. */
static void memory_open(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(mem, 0);
}

static void module_add(uint64_t base, const char *path)
{
	struct code_file *file;

	if (module_count == MODULES_MAX || code_file_open(&file, path))
		return; /* the vdso */
	code_module_init(&all[module_count], file, base);
	modules[module_count] = &all[module_count];
	module_count++;
}

static int address_of(const char *text, uint64_t *address, const struct watch_trouble **why)
{
	const struct code_memory memory = { memory_read, NULL };
	const struct code_process process = { memory, modules, module_count };
	struct watch_place place = { 0 };
	struct watch_expr expr;
	char whole[256];
	uint64_t base;
	int err;

	*why = &trouble;
	snprintf(whole, sizeof(whole), "watch:%s", text);
	err = expression_parse(&expr, whole, &trouble);
	expr.options.thread = pid;
	if (!err)
		err = expression_place_find(&place, &expr, modules, module_count, &trouble);
	base = thread_pointer;
	if (!err && place.base == WATCH_IN_BLOCK)
		err = expression_block_find(&base, &process, place.module, thread_pointer,
					    &trouble);
	if (!err)
		err = watch_place_address(&place, &memory, base, address, &trouble);
	watch_place_release(&place);
	expression_release(&expr);
	return err;
}

/* Hold each of its lines, or that of `only`, against what we find. Returns how many there were. */
static int compare_only(const char *only)
{
	const struct watch_trouble *why;
	char line[512], *space;
	int count = 0;

	while (fgets(line, sizeof(line), said) && strcmp(line, "end\n") != 0) {
		uint64_t reported, found = 0;

		line[strcspn(line, "\n")] = 0;
		space = strchr(line, ' ');
		if (!space) { /* its number */
			memory_open();
			continue;
		}
		reported = strtoull(space + 1, &space, 0);
		if (!strncmp(line, "base ", 5)) {
			module_add(reported, space + 1);
			continue;
		}
		*strchr(line, ' ') = 0;
		if (!strcmp(line, "thread_pointer")) {
			thread_pointer = reported;
			continue;
		}
		if (only && strcmp(line, only) != 0)
			continue;
		cr_assert_eq(address_of(line, &found, &why), 0, "%s: %s: %s", line,
			     wm_error_text(why->error), why->detail);
		cr_assert_eq(found, reported, "%s is at %#lx, not %#lx", line, reported, found);
		count++;
	}
	return count;
}

static int compare(void)
{
	return compare_only(NULL);
}

static void refused(const char *text, int error, const char *words)
{
	const struct watch_trouble *why;
	uint64_t address;

	cr_assert_eq(address_of(text, &address, &why), error, "%s", text);
	cr_assert_str_eq(why->detail, words);
}

static void finish(void)
{
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	for (size_t i = 0; i < module_count; i++)
		code_module_release(&all[i]);
	folder_remove();
}

static void build(const char *compiler, const char *flags)
{
	folder_make(compiler);
	shell("%s -D_GNU_SOURCE -I" SAMPLES
	      "/../../.. -g %s -shared -fPIC -o libwatched.so %s/sample_watch_library.c",
	      compiler, flags, SAMPLES);
	shell("%s -D_GNU_SOURCE -I" SAMPLES
	      "/../../.. -g %s -o live %s/sample_watch_live.c -L. -lwatched -Wl,-rpath,'$ORIGIN'",
	      compiler, flags, SAMPLES);
}

static void build_and_compare(const char *compiler, const char *flags)
{
	build(compiler, flags);
	start();
	cr_assert_eq(compare(), 19);
}

TestSuite(watch_live, .fini = finish, .timeout = 60);

Test(watch_live, of_gcc)
{
	build_and_compare("gcc", "-O0");
}

Test(watch_live, of_gcc_not_position_independent_with_a_librarys_variable_copied)
{
	build_and_compare("gcc", "-O2 -gdwarf-4 -no-pie -fno-pie");
}

Test(watch_live, of_clang)
{
	build_and_compare("clang", "-O2");
}

Test(watch_live, what_was_stripped_is_found_in_debug_files)
{
	build("gcc", "-O1");
	shell("for it in live libwatched.so; do objcopy --only-keep-debug $it $it.debug && strip $it && "
	      "objcopy --add-gnu-debuglink=$it.debug $it || exit 1; done");
	start();
	cr_assert_eq(compare(), 19);
}

Test(watch_live, a_program_that_tells_nothing_has_the_copy_all_the_same)
{
	build("gcc", "-O1 -no-pie -fno-pie");
	shell("strip live");
	start();
	cr_assert_eq(compare_only("exported"), 1);
}

Test(watch_live, pointers_that_lead_nowhere_are_told)
{
	build("gcc", "-O0");
	start();
	compare();
	refused("broken->next->value", -WM_E_WATCH_UNMAPPED, "broken->next would lie at 0x1000");
	refused("nothing->value", -WM_E_WATCH_NULL, "nothing");
	refused("(*&nothing)->next->value", -WM_E_WATCH_NULL, "(*&nothing)");
	refused("head->next->next->next->next->next", 0, "");
	refused("*(head->bytes)/8", 0, "");
	refused("**&head->next->value", -WM_E_WATCH_TYPE,
		"*&head->next->value is of type int: only a pointer can be followed");
	refused("*0x7fffffffffff/1", -WM_E_WATCH_UNMAPPED,
		"0x7fffffffffff is not one of the program's");
	refused("exported@nothing.so", -WM_E_NO_MODULE, "nothing.so");
}
