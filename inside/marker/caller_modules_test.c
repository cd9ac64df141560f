/* SPDX-License-Identifier: MIT */
/* Which code is a caller's that a condition names, as modules come and go. */
#include "inside/marker/caller_modules.h"
#include "inside/marker/linkmap.h"
#include "inside/marker/marker.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <unistd.h>

static struct text text;

static void begin(void)
{
	cr_assert_eq(text_open(&text), 0);
	cr_assert_eq(linkmap_init(&text), 0);
	caller_modules_init();
	cr_assert_eq(registry_scan(&text), 0);
}

TestSuite(caller_modules, .init = begin);

static int has(const char *glob, uintptr_t address)
{
	const struct caller_modules *modules = caller_modules_find(glob);

	cr_assert(modules, "%s", glob);
	cr_assert_eq(caller_modules_find(glob), modules);
	return caller_modules_have(modules, address);
}

Test(caller_modules, module_has_its_name_and_shorter_ones)
{
	static const char *const names[] = { "libc.so.6", "libc.so", "libc",	    "libc*",
					     "lib?",	  "*",	     "*/libc.so.6", "*.6" };
	static const char *const others[] = { "lib", "libc.so.", "libcc", "c.so.6", "*/libc.s", "" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		cr_expect(has(names[i], (uintptr_t)getppid), "%s", names[i]);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		cr_expect_not(has(others[i], (uintptr_t)getppid), "%s", others[i]);
	cr_expect(has("*_test", (uintptr_t)has));
	cr_expect_not(has("libc", (uintptr_t)has));
	cr_expect_not(has("*", (uintptr_t)&text), "data is no caller");
	cr_expect_not(has("*", 0));
	cr_expect_not(has("*", UINTPTR_MAX));
}

Test(caller_modules, late_module_is_a_caller_until_it_goes)
{
	const struct caller_modules *modules = caller_modules_find("libBrokenLocale");
	uint32_t used = 0;

	cr_assert(modules);
	for (int i = 0; i < 3; i++) {
		void *library = dlopen("libBrokenLocale.so.1", RTLD_NOW);
		uintptr_t code = library ? (uintptr_t)dlsym(library, "__ctype_get_mb_cur_max") : 0;

		if (!code)
			cr_skip_test("no libBrokenLocale.so.1");
		cr_assert_eq(registry_scan(&text), 0);
		cr_expect(caller_modules_have(modules, code));
		cr_expect_not(caller_modules_have(modules, (uintptr_t)getppid));
		used = used ? used : modules->used;
		cr_expect_eq(modules->used, used, "its place is used again");
		dlclose(library);
		cr_assert_eq(registry_scan(&text), 0);
		cr_expect_not(caller_modules_have(modules, code));
	}
}
