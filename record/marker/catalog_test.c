/* SPDX-License-Identifier: MIT */
#include "record/marker/catalog.h"
#include "base/testing/await.h"

#include "abi/site.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static char words[256];
static const struct detail detail = { words, sizeof(words) };

static inline __attribute__((always_inline)) void inlined(int number)
{
	WAYMARK(catalog, twice, number, WM_FIELD(half, number / 2));
}

static __attribute__((used, noinline)) void marked(int number)
{
	inlined(number);
	if (number > 3)
		inlined(number + 1);
	WAYMARK_SCOPE(catalog, span, "text");
}

static const struct catalog_marker *find(const struct catalog *catalog, const char *name, char kind)
{
	for (size_t i = 0; i < catalog->count; i++)
		if (!strcmp(catalog->markers[i].name, name) && catalog->markers[i].kind == kind)
			return &catalog->markers[i];
	cr_assert_fail("%s is not in the catalog", name);
	return NULL;
}

static void expect_ours(const struct catalog *catalog)
{
	const struct catalog_marker *twice = find(catalog, "catalog:twice", 'm');
	const struct catalog_marker *end = find(catalog, "catalog:span", 'e');

	cr_assert_geq(twice->site_count, 2);
	cr_assert_eq(twice->counts[SITE_IS_DORMANT], twice->site_count);
	cr_assert_eq(twice->types[0], WM_TYPE_I32);
	cr_assert_str_eq(twice->fields, "number, WM_FIELD(half, number / 2)");
	cr_assert_not_null(strstr(twice->sites[0].file, "catalog_test.c"));
	cr_assert_eq(end->counts[SITE_IS_SILENT], end->site_count);
	cr_assert_eq(find(catalog, "catalog:span", 'b')->types[0], WM_TYPE_STR);
}

Test(catalog, add_file_finds_markers_with_all_sites)
{
	struct catalog catalog = { 0 };

	cr_assert_eq(catalog_add_file(&catalog, "/proc/self/exe"), 0);
	catalog_sort(&catalog);
	expect_ours(&catalog);
	catalog_release(&catalog);
}

/* ThreadSanitizer has no shadow memory for code. */
static __attribute__((noinline, no_sanitize("thread"))) void code_write(unsigned char *to,
									unsigned char byte)
{
	*to = byte;
}

/* Read the process into the catalog again, and find the marker. */
static const struct catalog_marker *marker_twice(struct catalog *catalog, pid_t pid)
{
	catalog_release(catalog);
	cr_assert_eq(catalog_add_process(catalog, pid, detail), 0, "%s", words);
	catalog_sort(catalog);
	return find(catalog, "catalog:twice", 'm');
}

Test(catalog, add_process_reports_armed_sites)
{
	struct catalog catalog = { 0 };
	const struct catalog_marker *twice;
	unsigned char *site;
	pid_t child;

	cr_assert_eq(catalog_add_process(&catalog, getpid(), detail), 0, "%s", words);
	catalog_sort(&catalog);
	expect_ours(&catalog);
	site = (unsigned char *)(uintptr_t)find(&catalog, "catalog:twice", 'm')->sites[0].address;
	cr_assert_eq(*site, SITE_DORMANT);

	/* in a child, which has a private copy of the code */
	child = fork();
	if (!child) {
		unsigned char *page = (unsigned char *)((uintptr_t)site & ~(uintptr_t)4095);

		mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
		code_write(site, SITE_ARMED);
		for (;;)
			pause();
	}
	cr_assert(AWAIT(marker_twice(&catalog, child)->counts[SITE_IS_ARMED]));
	twice = find(&catalog, "catalog:twice", 'm');
	cr_assert_eq(twice->counts[SITE_IS_ARMED], 1);
	cr_assert_eq(twice->pid, child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	cr_assert_eq(catalog_add_process(&catalog, child, detail), -ESRCH);
	catalog_release(&catalog);
}

Test(catalog, add_file_without_markers_or_elf_is_checked)
{
	struct catalog catalog = { 0 };

	cr_assert_eq(catalog_add_file(&catalog, "/nowhere"), -ENOENT);
	cr_assert_eq(catalog_add_file(&catalog, "/proc/self/maps"), -WM_E_NOT_ELF);
	cr_assert_eq(catalog_add_file(&catalog, "/bin/true"), 0);
	cr_assert_eq(catalog.count, 0);
	catalog_release(&catalog);
}
