/* SPDX-License-Identifier: MIT */
/* Compiles sources with the installed compilers and reads the names of their enumerations. */
#include "target/code/enumerator.h"

#include "target/code/parameter.h"
#include "target/code/symbol.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

static struct code_file *file;
static struct code_symbols symbols;
static struct code_parameters parameters;
static char folder[64];

static int compile(const char *compiler, const char *flags, const char *source)
{
	char command[256], path[96];
	FILE *input;

	snprintf(command, sizeof(command), "command -v %s >/dev/null", compiler);
	if (system(command))
		return 0;
	snprintf(folder, sizeof(folder), "/tmp/waymark-enumerator-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/compiled.so", folder);
	snprintf(command, sizeof(command), "%s %s -g -fPIC -shared - -o %s", compiler, flags, path);
	input = popen(command, "we");
	cr_assert_not_null(input);
	fputs(source, input);
	cr_assert_eq(pclose(input), 0);
	cr_assert_eq(code_file_open(&file, path), 0);
	cr_assert_eq(code_symbols_read(&symbols, file), 0);
	return 1;
}

static void clean(void)
{
	char command[128];

	code_symbols_release(&symbols);
	code_file_close(file);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_assert_eq(system(command), 0);
}

static void read_function(const char *name)
{
	for (size_t i = 0; i < symbols.count; i++)
		if (!strcmp(symbols.all[i].name, name)) {
			cr_assert_eq(code_parameters_read(&parameters, file, symbols.all[i].address,
							  name, 0),
				     1);
			return;
		}
	cr_assert_fail("%s is not there", name);
}

static const char *name_of(const struct code_field *field, uint64_t value)
{
	return field->names ? enumeration_name(field->names, value) : NULL;
}

static const struct code_field *field_of(const char *name)
{
	for (unsigned int i = 0; i < parameters.values.count; i++)
		if (!strcmp(parameters.values.all[i].name, name))
			return &parameters.values.all[i];
	cr_assert_fail("%s is not there", name);
	return NULL;
}

static const char *const c_source =
	"enum color { RED, GREEN = 7, BLUE = 200, LAST = 200, FAR = 0xfffffffe };\n"
	"typedef enum { BELOW = -2, ZERO, ABOVE = 200 } side;\n"
	"enum wide { SMALL = 1, HUGE = 0x8000000000000001 };\n"
	"enum low { LOWEST = -0x7fffffffffffffff - 1, MINUS = -1, HIGHEST = 0x7fffffffffffffff };\n"
	"enum flags { READ = 1, WRITE = 4 };\n"
	"struct pair { int n; side s; enum flags f; };\n"
	"side turn(enum color c, const side s, enum wide w, enum low l, enum flags f, int n);\n"
	"side turn(enum color c, const side s, enum wide w, enum low l, enum flags f, int n)\n"
	"{ return s + (int)c + (int)w + (int)l + (int)f + n; }\n"
	"struct pair swap(struct pair p);\n"
	"struct pair swap(struct pair p) { p.n++; return p; }\n";

static void check_c(const char *compiler, const char *flags)
{
	int is_signed;

	if (!compile(compiler, flags, c_source))
		return;
	read_function("turn");
	cr_assert_str_eq(name_of(field_of("c"), 0), "RED");
	cr_assert_str_eq(name_of(field_of("c"), 7), "GREEN");
	cr_assert_str_eq(name_of(field_of("c"), 200), "BLUE");
	/* DWARF 2 does not say whether an enumeration is signed */
	is_signed = field_of("c")->type == WM_TYPE_I32;
	cr_assert_str_eq(name_of(field_of("c"), is_signed ? (uint64_t)-2 : 0xfffffffe), "FAR");
	cr_assert_null(name_of(field_of("c"), 1));
	cr_assert_null(name_of(field_of("c"), 207));
	cr_assert_str_eq(name_of(field_of("s"), (uint64_t)-2), "BELOW");
	cr_assert_str_eq(name_of(field_of("s"), (uint64_t)-1), "ZERO");
	cr_assert_str_eq(name_of(field_of("s"), 200), "ABOVE");
	cr_assert_null(name_of(field_of("s"), (uint64_t)-56));
	cr_assert_str_eq(name_of(field_of("w"), 0x8000000000000001), "HUGE");
	cr_assert_str_eq(name_of(field_of("l"), 0x8000000000000000), "LOWEST");
	cr_assert_str_eq(name_of(field_of("l"), UINT64_MAX), "MINUS");
	cr_assert_str_eq(name_of(field_of("l"), INT64_MAX), "HIGHEST");
	cr_assert_str_eq(name_of(field_of("f"), 4), "WRITE");
	cr_assert_null(name_of(field_of("f"), 5));
	cr_assert_null(name_of(field_of("f"), 0));
	cr_assert_null(field_of("n")->names);
	cr_assert_eq(parameters.return_count, 1);
	cr_assert_str_eq(name_of(&parameters.returns[0], (uint64_t)-2), "BELOW");
	read_function("swap");
	cr_assert_str_eq(name_of(field_of("p.s"), 200), "ABOVE");
	cr_assert_str_eq(name_of(field_of("p.f"), 1), "READ");
	cr_assert_null(field_of("p.n")->names);
	cr_assert_eq(parameters.return_count, 3);
	cr_assert_null(parameters.returns[0].names);
	cr_assert_str_eq(name_of(&parameters.returns[1], 200), "ABOVE");
	cr_assert_str_eq(name_of(&parameters.returns[2], 1), "READ");
	clean();
}

Test(enumerator, c_enumerations_have_their_names)
{
	check_c("gcc", "-O0 -x c");
	check_c("gcc", "-O2 -gdwarf-4 -gstrict-dwarf -x c");
	check_c("gcc", "-O0 -gdwarf-2 -gstrict-dwarf -x c");
	check_c("gcc", "-O0 -fshort-enums -x c");
	check_c("clang", "-O0 -x c");
	check_c("clang", "-O0 -gdwarf-4 -x c");
}

static const char *const cxx_source =
	"#include <cstdint>\n"
	"namespace shop {\n"
	"enum class state : std::int8_t { closed = -128, open = 5, busy = 127 };\n"
	"enum class mask : std::uint8_t { none, all = 255 };\n"
	"enum class word : std::uint64_t { top = UINT64_MAX };\n"
	"enum opaque : int;\n"
	"enum class gr\xc3\xbcn { \xc3\xa4 = 3 };\n"
	"}\n"
	"using alias = const shop::state;\n"
	"extern \"C\" shop::mask turn(alias s, shop::mask m, shop::word w, shop::opaque o, bool b,\n"
	"                           char c, shop::gr\xc3\xbcn g)\n"
	"{ return shop::mask((int)s + (int)m + (int)w + o + b + c + (int)g); }\n";

static void check_cxx(const char *compiler, const char *flags)
{
	if (!compile(compiler, flags, cxx_source))
		return;
	read_function("turn");
	cr_assert_str_eq(name_of(field_of("s"), (uint64_t)-128), "closed");
	cr_assert_str_eq(name_of(field_of("s"), 127), "busy");
	cr_assert_null(name_of(field_of("s"), 128));
	cr_assert_str_eq(name_of(field_of("m"), 255), "all");
	cr_assert_null(name_of(field_of("m"), UINT64_MAX));
	cr_assert_str_eq(name_of(field_of("w"), UINT64_MAX), "top");
	cr_assert_null(field_of("o")->names);
	cr_assert_null(field_of("b")->names);
	cr_assert_null(field_of("c")->names);
	cr_assert_str_eq(name_of(field_of("g"), 3), "\xc3\xa4");
	cr_assert_str_eq(name_of(&parameters.returns[0], 0), "none");
	clean();
}

Test(enumerator, cxx_enumerations_have_their_names)
{
	check_cxx("g++", "-O0 -x c++");
	check_cxx("g++", "-O2 -gdwarf-4 -x c++");
	check_cxx("clang++", "-O0 -x c++");
}

Test(enumerator, too_large_enumeration_has_a_type_and_no_names)
{
	static char source[64 << 10];
	char *at = stpcpy(source, "enum many {");

	for (unsigned int i = 0; i <= ENUMERATION_COUNT_MAX; i++)
		at += sprintf(at, "E%u,", i);
	strcpy(at, "}; int turn(enum many m); int turn(enum many m) { return (int)m; }\n");
	if (!compile("cc", "-O0 -x c", source))
		cr_skip_test("no compiler is here");
	read_function("turn");
	cr_assert_eq(field_of("m")->type, WM_TYPE_U32);
	cr_assert_null(field_of("m")->names);
	clean();
}
