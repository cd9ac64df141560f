/* SPDX-License-Identifier: MIT */
/* What can't be watched is refused by its own name; what can takes its registers. */
#include "target/expression/find.h"

#include "target/expression/testing/find.h"
#include "target/expression/variable.h"

#include <criterion/criterion.h>
#include <string.h>
#include <waymark/error.h>

static void build(const char *flags)
{
	folder_make("gcc");
	shell("gcc %s -I%s/../../.. -no-pie -o whole %s/sample_watch.c %s/sample_watch_twin.c",
	      flags, SAMPLES, SAMPLES, SAMPLES);
	module_open("whole");
}

TestSuite(watch_find, .fini = find_end, .timeout = 60);

Test(watch_find, what_cant_be_is_refused_by_name)
{
	build("-g -O0");
	refused("cuonter", -WM_E_WATCH_VARIABLE, "cuonter");
	refused("other.c::counter", -WM_E_WATCH_VARIABLE, "other.c::counter");
	refused("nested", -WM_E_WATCH_VARIABLE, "nested");
	refused("counter@libc.so.6", -WM_E_NO_MODULE, "libc.so.6");
	refused("shared", -WM_E_WATCH_SEVERAL, "sample_watch_twin.c:14 (0x");
	refused("pinned", -WM_E_WATCH_REGISTER, "pinned, at ");
	refused("per_thread", -WM_E_WATCH_THREAD, "per_thread");
	refused("first_node.nxet", -WM_E_WATCH_MEMBER,
		"struct node has no nxet; did you mean next?");
	refused("list->zzz", -WM_E_WATCH_MEMBER, "struct node has no zzz");
	refused("list.value", -WM_E_WATCH_TYPE, "list is of type struct node *: only structures");
	refused("counter.x", -WM_E_WATCH_TYPE, "counter is of type int");
	refused("bits.low.x", -WM_E_WATCH_TYPE, "bits.low is of type unsigned int");
	refused("counter->x", -WM_E_WATCH_TYPE, "counter is of type int: only a pointer can be");
	refused("point->x", -WM_E_WATCH_TYPE, "point is of type struct point");
	refused("*counter", -WM_E_WATCH_TYPE, "counter is of type int");
	refused("**counter_at", -WM_E_WATCH_TYPE, "*counter_at is of type int");
	refused("point[0]", -WM_E_WATCH_TYPE, "point is of type struct point: only arrays");
	refused("matrix[0][0][0]", -WM_E_WATCH_TYPE, "matrix[0][0] is of type int");
	refused("matrix[3]", -WM_E_WATCH_MEMBER, "matrix is of type int [3][4]");
	refused("matrix[2][4]", -WM_E_WATCH_MEMBER, "matrix[2] is of type int [4]");
	refused("text[-1]", -WM_E_WATCH_MEMBER, "text is of type char [8]");
	refused("counter_at[9223372036854775807]", -WM_E_WATCH_MEMBER, "");
	refused("*anything", -WM_E_WATCH_TYPE, "*anything has no type: give the length");
	refused("anything[1]", -WM_E_WATCH_TYPE, "");
	refused("empty", -WM_E_WATCH_SYNTAX, "empty is of type struct {...}, which has no bytes");
	refused("*secret", -WM_E_NO_DEBUG,
		"*secret is of type struct hidden, which is declared, but");
	refused("secret->x", -WM_E_NO_DEBUG, "secret is of type struct hidden");
	refused("secret[1]", -WM_E_NO_DEBUG, "");
	refused("flexible->items", -WM_E_NO_DEBUG, "of type int []");
	refused("add", -WM_E_WATCH_TYPE, "add: this is a function");
	refused("*apply", -WM_E_WATCH_TYPE,
		"*apply is of type int (int, const char *): this is a function");
	refused("counter:x", -WM_E_WATCH_TYPE, "counter is of type int: this is data");
	refused("apply:x", -WM_E_WATCH_TYPE, "apply is of type operation");
	refused("bits.low:x", -WM_E_WATCH_TYPE, "bits.low");
	refused("&&counter", -WM_E_WATCH_SYNTAX, "&counter is of type int *");
	refused("&bits.low", -WM_E_WATCH_SYNTAX, "bits.low");
	refused("nothing:x", -WM_E_NO_FUNCTION, "nothing");
	refused("0x10/8@whole", -WM_E_WATCH_UNMAPPED, "0x10/8");
}

Test(watch_find, follow_takes_a_register_for_each_pointer)
{
	build("-g -O0");
	cr_assert_eq(find("list->next->number/follow/"), 0, "%s", trouble.detail);
	cr_assert_eq(place.follow_count, 2);
	refused("list->next->next->next->number/follow/", -WM_E_WATCH_LARGE,
		"list, list->next, list->next->next, list->next->next->next take a register each, "
		"with the value 5 debug registers in all");
	refused("counter/follow/", -WM_E_WATCH_OPTION, "no pointer is on the way");
}

Test(watch_find, what_is_too_large_has_its_place_all_the_same)
{
	build("-g -O0");
	refused("same", -WM_E_WATCH_LARGE, "48 bytes take 6 registers of 4");
	cr_assert_eq(place.bytes, 48);
	cr_assert_eq(place.type.nodes[0].bytes, 48);
	refused("matrix", -WM_E_WATCH_LARGE, "");
	refused("packed", 0, ""); /* 9 bytes, in two */
	refused("third_node", 0, "");
}

/* In bytes, from where in what it is a member of. */
static void bits_lie(const char *text, uint64_t offset, uint64_t bytes, const char *record)
{
	uint64_t start;

	cr_assert_eq(find(text), 0, "%s: %s", text, trouble.detail);
	start = place.start;
	cr_assert_eq(place.bytes, bytes, "%s has %lu bytes", text, place.bytes);
	cr_assert_eq(place.type.nodes[0].bytes, bytes);
	cr_assert_eq(find(record), 0);
	cr_assert_eq(start - place.start, offset, "%s lies at %lu", text, start - place.start);
}

Test(watch_find, bits_are_watched_by_the_least_that_holds_them)
{
	build("-g -O0");
	bits_lie("bits.low", 0, 1, "bits");
	bits_lie("bits.middle", 0, 1, "bits");
	bits_lie("bits.wide", 0, 4, "bits");
	bits_lie("bits.far", 8, 8, "bits");
	bits_lie("bits.flag", 13, 1, "bits");
	bits_lie("packed.across", 4, 4, "packed");
	bits_lie("packed.more", 6, 3, "packed");
	/* what would hold it all is longer than the structure */
	bits_lie("tight.value", 1, 2, "tight");
}

Test(watch_find, who_runs_code_is_watched_too)
{
	build("-g -O0");
	cr_assert_eq(find("add:x"), 0);
	cr_assert_eq(place.base, WATCH_IN_MODULE);
	cr_assert_eq(place.kind, WATCH_EXECUTE);
	cr_assert_eq(place.type.nodes[0].class, WATCH_CODE);
	cr_assert_eq(find("sample_watch_twin.c::main:x"), 0);
	cr_assert_eq(find("*table[0]:x"), 0);
	cr_assert_eq(place.follow_count, 1);
}

Test(watch_find, what_optimising_leaves_is_told)
{
	folder_make("gcc");
	shell("printf 'static const int fixed = 5; static int gone; static int split[2]; int (*p)(void);\\n"
	      "int f(void) { return fixed + split[0]; } int main(void) { return f() - 5; }' >o.c && "
	      "gcc -g -O2 -o whole o.c");
	module_open("whole");
	refused("gone", -WM_E_WATCH_OPTIMISED, "gone, at ");
	refused("fixed", -WM_E_WATCH_CONSTANT, "fixed, at ");
	modules_close();
	shell("printf 'int dropped = 1; int main(void) { return 0; }\\n' >d.c && "
	      "gcc -g -fdata-sections -Wl,--gc-sections -o whole d.c");
	module_open("whole");
	refused("dropped", -WM_E_WATCH_OPTIMISED, "dropped, at ");
	modules_close();
	shell("printf 'namespace n { constexpr int most = 7; struct S { static const int few = 2; }; }\\n"
	      "int f() { n::S s; return n::most + n::S::few + sizeof(s); } int main() { return f(); }' >c.cc && "
	      "g++ -g -O0 -o whole c.cc");
	module_open("whole");
	refused("n::S::few", -WM_E_WATCH_CONSTANT, "n::S::few, at ");
}

Test(watch_find, without_debug_information_symbols_and_lengths_do)
{
	build("-g0");
	refused("counter", -WM_E_NO_DEBUG, "counter; its symbol has 4 bytes");
	refused("cuonter", -WM_E_WATCH_VARIABLE, "cuonter; the file has no debug information");
	refused("cuonter/4", -WM_E_WATCH_VARIABLE, "cuonter");
	refused("add", -WM_E_WATCH_TYPE, "add: this is a function");
	refused("shared/4", -WM_E_WATCH_SEVERAL, "shared, as the linker knows it");
	cr_assert_eq(find("counter/4"), 0, "%s", trouble.detail);
	cr_assert_eq(place.bytes, 4);
	cr_assert_str_eq(place.variable, "counter");
	cr_assert_str_eq(expression_type_name(&place.type), "4 bytes");
	cr_assert_eq(find("text+3/1"), 0);
	cr_assert_eq(find("*list/8"), 0, "%s", trouble.detail);
	cr_assert_eq(find("add:x"), 0);
	refused("list->value", -WM_E_NO_DEBUG, "list; its symbol has 8 bytes");
}

Test(watch_find, a_symbol_of_cxx_is_known_by_its_written_name)
{
	uint64_t start;

	folder_make("g++");
	shell("printf 'namespace a { namespace b { int x = 1; } } static volatile int y = 2; int main() { return y; }' >x.cc && "
	      "g++ -g -o told x.cc && g++ -o plain x.cc");
	module_open("told");
	cr_assert_eq(find("a::b::x"), 0);
	start = place.start;
	modules_close();
	module_open("plain");
	cr_assert_eq(find("a::b::x/4"), 0, "%s", trouble.detail);
	cr_assert_eq(place.start, start);
}

Test(watch_find, names_of_cxx_may_leave_out_what_has_no_name)
{
	uint64_t start;

	folder_make("g++");
	shell("g++ -g -std=gnu++17 -o whole %s/sample_watch.cc", SAMPLES);
	module_open("whole");
	cr_assert_eq(find("shop::v1::stock"), 0, "%s", trouble.detail);
	start = place.start;
	cr_assert_eq(find("shop::stock"), 0, "%s", trouble.detail);
	cr_assert_eq(place.start, start);
	cr_assert_eq(find("shop::till"), 0, "%s", trouble.detail);
	start = place.start;
	cr_assert_eq(find("shop::(anonymous namespace)::till"), 0, "%s", trouble.detail);
	cr_assert_eq(place.start, start);
	cr_assert_str_eq(place.variable, "shop::till");
	cr_assert_eq(find("sample_watch.cc::shop::Box< int >::last"), 0, "%s", trouble.detail);
	cr_assert_eq(find("shop::Counter::next::calls"), 0, "%s", trouble.detail);
	cr_assert_eq(find("shop::member"), 0, "%s", trouble.detail);
	cr_assert_eq(place.bytes, 8);
	cr_assert_eq(find("shop::lent.price"), 0, "%s", trouble.detail);
	refused("f::kept", -WM_E_WATCH_SEVERAL, "f::kept, at ");
	cr_assert_eq(find("f(int)::kept"), 0, "%s", trouble.detail);
	cr_assert_eq(place.bytes, 4);
	cr_assert_eq(find("f( double )::kept"), 0, "%s", trouble.detail);
	cr_assert_eq(place.bytes, 8);
	refused("f(long)::kept", -WM_E_WATCH_VARIABLE, "f(long)::kept");
	refused("shop::nothing", -WM_E_WATCH_TYPE, "decltype(nullptr)");
	refused("orders", -WM_E_WATCH_VARIABLE, "orders");
}

static void build_two(const char *program, const char *one, const char *other)
{
	folder_make("gcc");
	shell("echo '%s' >p.c && echo '%s' >a.c && echo '%s' >b.c", program, one, other);
	shell("gcc -g -shared -fPIC -o liba.so a.c && gcc -g -shared -fPIC -o libb.so b.c && "
	      "gcc -g -fPIC -o whole p.c -Wl,--unresolved-symbols=ignore-all");
	module_open("liba.so");
	module_open("whole");
	module_open("libb.so");
}

Test(watch_find, of_several_modules_the_program_goes_first)
{
	build_two("int x = 1; int main(void) { return x; }",
		  "int x = 2; int y = 3; static int z = 4;"
		  "int f(void) { return z++; }",
		  "int y = 5; int w = 6;");
	cr_assert_eq(find("x"), 0);
	cr_assert_eq(place.module, modules[1]);
	cr_assert_eq(find("x@liba.so"), 0);
	cr_assert_eq(place.module, modules[0]);
	cr_assert_eq(find("w"), 0);
	cr_assert_eq(place.module, modules[2]);
	cr_assert_eq(find("z"), 0);
	cr_assert_eq(place.module, modules[0]);
	refused("y", -WM_E_WATCH_SEVERAL, "liba.so, ");
	cr_assert_eq(find("y@libb"), 0);
	cr_assert_eq(find("x/4"), 0);
	cr_assert_eq(place.module, modules[1]);
	cr_assert_eq(find("0x10/4@lib?.so"), -WM_E_WATCH_SEVERAL);
}

Test(watch_find, what_is_declared_alone_is_sought_where_it_is_defined)
{
	build_two("extern int x; extern int v; int main(void) { return x + v; }", "int x = 2;",
		  "int u = 6;");
	cr_assert_eq(find("x"), 0, "%s", trouble.detail);
	cr_assert_eq(place.module, modules[0]);
	refused("v", -WM_E_WATCH_EXTERN, "/p.c:1");
	refused("x@whole", -WM_E_WATCH_EXTERN, "/p.c:1");
}

static size_t pieces_of(uint64_t address, uint64_t bytes, const char *widths)
{
	struct watch_piece pieces[WATCH_REGISTERS] = { 0 };
	size_t count = expression_pieces(address, bytes, pieces);
	char text[8] = "";

	for (size_t i = 0; i < count && i < WATCH_REGISTERS; i++) {
		cr_assert_eq(pieces[i].address % pieces[i].bytes, 0);
		cr_assert_eq(pieces[i].address, address);
		address += pieces[i].bytes;
		text[i] = (char)('0' + pieces[i].bytes);
	}
	cr_assert_str_eq(text, widths);
	return count;
}

Test(watch_find, an_object_is_split_into_aligned_pieces)
{
	cr_assert_eq(pieces_of(0x1000, 0, ""), 0);
	cr_assert_eq(pieces_of(0x1000, 1, "1"), 1);
	cr_assert_eq(pieces_of(0x1001, 2, "11"), 2);
	cr_assert_eq(pieces_of(0x1002, 4, "22"), 2);
	cr_assert_eq(pieces_of(0x1004, 4, "4"), 1);
	cr_assert_eq(pieces_of(0x1001, 8, "1241"), 4);
	cr_assert_eq(pieces_of(0x1000, 3, "21"), 2);
	cr_assert_eq(pieces_of(0x1008, 32, "8888"), 4);
	cr_assert_eq(pieces_of(0x1004, 32, "4888"), 5);
	cr_assert_eq(pieces_of(0x1000, 1ull << 40, "8888"), 1ull << 37);
	cr_assert_eq(pieces_of(0x1001, (1ull << 40) + 3, "1248"), (1ull << 37) + 4 - 1);
	cr_assert_eq(expression_pieces_check(0x1001, 8, &trouble), 0);
	cr_assert_eq(expression_pieces_check(0x1001, 16, &trouble), -WM_E_WATCH_LARGE);
	cr_assert_str_eq(trouble.detail, "16 bytes, as they are aligned, take 5 registers of 4");
}

static int name_count(const char *name, void *data)
{
	*(int *)data += !strcmp(name, "counter") || !strcmp(name, "other_id::nested") ||
			!strcmp(name, "next_id::last");
	return strcmp(name, "list") == 0 && *(int *)data < 0;
}

Test(watch_find, names_are_told_for_who_mistyped_one)
{
	int count = 0;

	build("-g -O0");
	cr_assert_eq(expression_names(modules[0], name_count, &count), 0);
	cr_assert_geq(count, 3);
	count = -100;
	cr_assert_eq(expression_names(modules[0], name_count, &count), 1);
}

Test(watch_find, split_debug_information_that_is_not_read_is_named)
{
	build("-g -O0 -gsplit-dwarf");
	shell("rm *.dwo");
	refused("point", -WM_E_NO_DEBUG, "sample_watch.dwo, with debug information, was not read");
	refused("next_id::last", -WM_E_WATCH_VARIABLE,
		".dwo, with debug information, was not read");
}

/* Whoever can write to the file could name a FIFO in it. */
Test(watch_find, split_debug_information_of_a_file_that_all_can_write_is_not_read)
{
	folder_make("gcc");
	shell("gcc -g -gsplit-dwarf -I%s/../../.. -o whole %s/sample_watch.c %s/sample_watch_twin.c && "
	      "chmod o+w whole",
	      SAMPLES, SAMPLES, SAMPLES);
	module_open("whole");
	refused("next_id::last", -WM_E_WATCH_VARIABLE,
		".dwo, with debug information, was not read");
}
