/* SPDX-License-Identifier: MIT */
/* Where local variables lie: the debug information's words, against the program's own. */
#include "target/expression/local_frame.h"

#include "target/expression/testing/find.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define NOT_SAID (-1000000L)

/* Each function prints its variable's offset from its CFA, by __builtin_dwarf_cfa(). */
static void build(const char *compiler, const char *flags)
{
	folder_make("gcc");
	shell("cat >f.c <<'END'\n"
	      "#include <stdio.h>\n"
	      "#define SHOW(v) printf(\"%%s %%ld\\n\", #v, (long)((char *)&(v) - (char *)__builtin_dwarf_cfa()))\n"
	      "struct s { int a; int b; };\n"
	      "__attribute__((noinline)) int f(int n, int a2, int a3, int a4, int a5, int a6, int seventh)\n"
	      "{ volatile int one = n; struct s two = { n, 2 }; char more[n]; int row[4] = { n };\n"
	      "  SHOW(one); SHOW(two.b); SHOW(row[2]); SHOW(seventh); more[0] = 1;\n"
	      "  { long inner = n; SHOW(inner); } return one + more[0] + a2 + a3 + a4 + a5 + a6; }\n"
	      "__attribute__((noinline)) int aligned(int n)\n"
	      "{ volatile int wide[16] __attribute__((aligned(64))) = { n }; return wide[n & 15]; }\n"
	      "static inline __attribute__((always_inline)) int in(int n) { volatile int gone = n; return gone; }\n"
	      "int main(int argc, char **argv) { (void)argv; return f(argc, 2, 3, 4, 5, 6, 7) + aligned(argc) + in(argc) < 0; }\n"
	      "END\n%s -g %s -o whole f.c && ./whole >said",
	      compiler, flags);
	module_open("whole");
}

static long said(const char *name)
{
	char path[512], word[64];
	FILE *file;
	long offset = 0, found = NOT_SAID;

	snprintf(path, sizeof(path), "%s/said", folder);
	file = fopen(path, "r");
	while (file && fscanf(file, "%63s %ld", word, &offset) == 2)
		if (!strcmp(word, name))
			found = offset;
	if (file)
		fclose(file);
	return found;
}

static void is_where(const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), "f::%s", name);
	cr_assert_eq(find(text), 0, "%s: %s", text, trouble.detail);
	cr_assert_eq(place.base, WATCH_IN_FRAME, "%s", text);
	cr_assert_neq(said(name), NOT_SAID, "%s", name);
	cr_assert_eq((long)place.start, said(name), "%s: %ld, not %ld", text, (long)place.start,
		     said(name));
}

static void all_are_where_they_say(void)
{
	is_where("one");
	is_where("two.b");
	is_where("row[2]");
	is_where("inner");
}

TestSuite(watch_frame, .fini = find_end, .timeout = 60);

Test(watch_frame, places_are_those_of_the_program)
{
	build("gcc", "-O0");
	all_are_where_they_say();
	is_where("seventh");
	cr_assert_eq(place.frame->code_count, 1);
	cr_assert_eq(place.frame->entry, place.frame->code[0].start);
}

Test(watch_frame, optimised_they_are_too)
{
	build("gcc", "-O2");
	all_are_where_they_say();
}

Test(watch_frame, a_frame_without_its_pointer_has_them_too)
{
	build("gcc", "-O1 -fomit-frame-pointer");
	all_are_where_they_say();
}

Test(watch_frame, an_inner_block_is_where_its_variable_is_valid)
{
	uint64_t bytes;

	build("gcc", "-O0");
	cr_assert_eq(find("f::inner"), 0, "%s", trouble.detail);
	cr_assert_eq(place.frame->valid_count, 1);
	bytes = place.frame->valid[0].end - place.frame->valid[0].start;
	cr_assert_gt(bytes, 0);
	cr_assert_lt(bytes, place.frame->code[0].end - place.frame->code[0].start);
	cr_assert_eq(find("f::one"), 0);
	cr_assert_eq(place.frame->valid[0].end - place.frame->valid[0].start,
		     place.frame->code[0].end - place.frame->code[0].start);
}

Test(watch_frame, what_has_no_place_in_a_frame_is_refused_by_name)
{
	build("gcc", "-O0");
	refused("in::gone", -WM_E_WATCH_LOCAL, "inlined");
	refused("f::more", -WM_E_WATCH_LOCAL, "to which a pointer in the frame leads");
	refused("*main::argv", -WM_E_WATCH_LOCAL, "watch the pointer itself");
	cr_assert_eq(watch_place_address(&place, NULL, 0, &(uint64_t){ 0 }, &trouble),
		     find("f::one") ? 0 : -WM_E_WATCH_LOCAL);
}

Test(watch_frame, a_register_is_none)
{
	build("gcc", "-O2");
	refused("f::a2", -WM_E_WATCH_REGISTER, "f::a2");
}

/* A loop's counter is 0 at first, then in a register: the compiler made no constant of it. */
Test(watch_frame, counter_of_a_loop_is_refused_as_in_a_register)
{
	folder_make("gcc");
	shell("echo 'volatile int sink; __attribute__((noinline)) int f(int n) {' "
	      "'for (int count = 0; count < n; count++) sink += count; return n; }' "
	      "'__attribute__((noinline)) int g(int n) { int twice = 2 * n; sink = n; '"
	      "'sink = twice;' "
	      "'return n; } int main(int c, char **v) { return f(c) + g(c); }' >l.c && "
	      "gcc -g -O2 -no-pie -o whole l.c");
	module_open("whole");
	refused("f::count", -WM_E_WATCH_REGISTER, "f::count");
	refused("g::twice", -WM_E_WATCH_REGISTER, "g::twice");
}

Test(watch_frame, counter_that_is_unrolled_is_refused_as_removed)
{
	folder_make("gcc");
	shell("echo 'volatile int sink; __attribute__((noinline)) int f(int n) {' "
	      "'for (int count = 0; count < 4; count++) sink += n; return n; }' "
	      "'int main(int c, char **v) { return f(c); }' >l.c && "
	      "gcc -g -O3 -no-pie -o whole l.c");
	module_open("whole");
	refused("f::count", -WM_E_WATCH_OPTIMISED, "the code has its values as constants");
}
