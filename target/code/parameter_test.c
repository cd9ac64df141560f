/* SPDX-License-Identifier: MIT */
/*
 * Parameters are found where the compiler put them: functions are called, and what is found is
 * compared.
 */
#include "target/code/parameter.h"

#include "target/code/symbol.h"
#include "target/code/testing/sample_call.h"

#include <criterion/criterion.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static struct code_file *file;
static struct code_parameters parameters;
static unsigned int functions, fields, members;

static int find_base(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)bytes;
	*(uint64_t *)data = info->dlpi_addr;
	return 1;
}

static void open_self(void)
{
	cr_assert_eq(code_file_open(&file, "/proc/self/exe"), 0);
}

static void read_function(void *function, const char *name)
{
	uint64_t base = 0;

	dl_iterate_phdr(find_base, &base);
	cr_assert_eq(code_parameters_read(&parameters, file, (uint64_t)function - base, name, 0), 1,
		     "%s", name);
}

/* The field's bytes, as they were when the function was entered. */
static uint64_t bits_of(const struct code_field *field)
{
	const struct code_operand *from = &field->from;
	const void *at = NULL;
	uint64_t bits = 0;

	if (from->kind == OPERAND_REGISTER)
		at = (const char *)&sample_call.registers[from->reg] + from->displacement;
	else if (from->kind == OPERAND_VECTOR)
		at = (const char *)sample_call.vectors[from->reg] + from->displacement;
	else if (from->kind == OPERAND_MEMORY && from->reg == 7)
		at = sample_call.stack + from->displacement;
	cr_assert_not_null(at, "%s", field->name);
	memcpy(&bits, at, from->bytes);
	return bits;
}

static double value_of(const struct code_field *field)
{
	uint64_t bits = bits_of(field);
	double f64;
	float f32;

	if (field->type == WM_TYPE_F64) {
		memcpy(&f64, &bits, sizeof(f64));
		return f64;
	}
	if (field->type == WM_TYPE_F32) {
		memcpy(&f32, &bits, sizeof(f32));
		return (double)f32;
	}
	return (double)bits;
}

static void check(void *function, const char *name)
{
	read_function(function, name);
	functions++;
	for (unsigned int i = 0; i < parameters.values.count; i++) {
		const struct code_field *field = &parameters.values.all[i];
		uint8_t position = parameters.values.positions[i];

		if (!strncmp(field->name, "skip", 4) && !strchr(field->name, '.')) {
			int has_members = i + 1 < parameters.values.count &&
					  parameters.values.positions[i + 1] == position;

			cr_assert_eq(field->type, 0, "%s: %s", name, field->name);
			cr_assert_eq(parameters.values.lost_errs[i],
				     has_members ? 0 : -WM_E_PARAMETER_TYPE, "%s: %s", name,
				     field->name);
			members += (unsigned int)has_members;
			continue;
		}
#ifdef __clang__ /* the last one's place is not guaranteed: see place_on_stack() in parameter.c */
		if (!strcmp(name, "odd_ones") && !field->type)
			continue;
#endif
		cr_assert_neq(field->type, 0, "%s: %s", name, field->name);
		if (field->type == WM_TYPE_BOOL)
			cr_assert_eq(value_of(field), 1, "%s: %s", name, field->name);
		else if (value_of(field) != 0) /* a null pointer is one */
			cr_assert_eq(value_of(field), position, "%s: %s is %g", name, field->name,
				     value_of(field));
		fields++;
	}
}

Test(parameter, c_s_are_where_the_compiler_put_them)
{
	open_self();
	sample_calls_c(check);
	cr_assert_eq(functions, 12);
	cr_assert_geq(fields, 75);
	cr_assert_eq(members, 12);
	code_file_close(file);
}

Test(parameter, c_plus_plus_s_are_where_the_compiler_put_them)
{
	open_self();
	sample_calls_cxx(check);
	cr_assert_eq(functions, 4);
	cr_assert_geq(fields, 15);
	cr_assert_eq(members, 2);
	code_file_close(file);
}

static void check_types(void *function, const char *name)
{
	static const uint8_t small[] = { WM_TYPE_BOOL, WM_TYPE_CHAR, WM_TYPE_U32,
					 WM_TYPE_I32,  WM_TYPE_BOOL, WM_TYPE_PTR };
	static const uint8_t integers[] = { WM_TYPE_I8,	 WM_TYPE_U8,  WM_TYPE_I16, WM_TYPE_U16,
					    WM_TYPE_I32, WM_TYPE_I64, WM_TYPE_U64, WM_TYPE_I32 };

	read_function(function, name);
	for (unsigned int i = 0; !strcmp(name, "small") && i < sizeof(small); i++)
		cr_assert_eq(parameters.values.all[i].type, small[i], "%u", i);
	for (unsigned int i = 0; !strcmp(name, "integers") && i < sizeof(integers); i++)
		cr_assert_eq(parameters.values.all[i].type, integers[i], "%u", i);
}

Test(parameter, types_are_those_of_the_source)
{
	open_self();
	sample_calls_c(check_types);
	code_file_close(file);
}

static void check_result(void *function, const char *name)
{
	static const struct {
		const char *name;
		uint8_t type, kind, bytes;
	} results[] = { { "integers", WM_TYPE_I32, OPERAND_REGISTER, 4 },
			{ "floating", WM_TYPE_F64, OPERAND_VECTOR, 8 },
			{ "aggregates", WM_TYPE_I64, OPERAND_REGISTER, 8 },
			{ "in_memory", 0, 0, 0 },
			{ "wide", 0, 0, 0 } };

	read_function(function, name);
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (strcmp(results[i].name, name))
			continue;
		cr_assert_eq(parameters.return_count, results[i].type != 0, "%s", name);
		cr_assert_eq(parameters.returns[0].type, results[i].type, "%s", name);
		cr_assert_eq(parameters.returns[0].from.kind, results[i].kind, "%s", name);
		cr_assert_eq(parameters.returns[0].from.bytes, results[i].bytes, "%s", name);
		cr_assert_eq(parameters.returns[0].from.reg, 0);
		functions++;
	}
}

Test(parameter, results)
{
	open_self();
	sample_calls_c(check_result);
	cr_assert_eq(functions, 5);
	code_file_close(file);
}

Test(parameter, nothing_is_told_of_what_is_no_function)
{
	open_self();
	cr_assert_eq(code_parameters_read(&parameters, file, 1, "x", 0), 0);
	cr_assert_eq(parameters.values.count, 0);
	code_file_close(file);
}

/*
 * LLVM leaves out what a local function doesn't use, and says nothing: here `unused`, so
 * that b and c come in the first two registers.
 */
static const char *const
	changed_source = "#include <stdlib.h>\n"
			 "__attribute__((noinline)) static int victim(int unused, int b, int c)\n"
			 "{ return rand() * b + c; }\n"
			 "int sample_main(int a);\n"
			 "int sample_main(int a) { return victim(1, a, 3) + victim(2, a + 1, a); }\n";

static char folder[64];
static struct code_symbols symbols;

/* Open what a compiler makes of a source; the test is skipped where there is no such compiler. */
static void open_compiled(const char *compiler, const char *flags, const char *source)
{
	char command[256], path[96];
	FILE *input;

	snprintf(command, sizeof(command), "command -v %s >/dev/null", compiler);
	if (system(command))
		cr_skip_test("%s is not here", compiler);
	snprintf(folder, sizeof(folder), "/tmp/waymark-parameter-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/compiled.so", folder);
	snprintf(command, sizeof(command), "%s %s -g -fPIC -shared - -o %s", compiler, flags, path);
	input = popen(command, "we");
	cr_assert_not_null(input);
	fputs(source, input);
	cr_assert_eq(pclose(input), 0);
	cr_assert_eq(code_file_open(&file, path), 0);
	cr_assert_eq(code_symbols_read(&symbols, file), 0);
}

static void close_compiled(void)
{
	char command[128];

	code_symbols_release(&symbols);
	code_file_close(file);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_assert_eq(system(command), 0);
}

static void read_symbol(const char *name, enum code_bind bind)
{
	for (size_t i = 0; i < symbols.count; i++)
		if (!strcmp(symbols.all[i].name, name)) {
			cr_assert_eq(symbols.all[i].bind, bind);
			cr_assert_eq(code_parameters_read(&parameters, file, symbols.all[i].address,
							  name, bind == BIND_LOCAL),
				     1);
			return;
		}
	cr_assert_fail("%s is not there", name);
}

Test(parameter, of_a_function_that_nobody_else_calls_only_what_is_sure)
{
	open_compiled("clang", "-O2 -x c", changed_source);
	read_symbol("victim", BIND_LOCAL);
	cr_assert_eq(parameters.values.count, 3);
	cr_assert_eq(parameters.values.all[0].type, 0);
	cr_assert_eq(parameters.return_count, 0);
	for (unsigned int i = 1; i < 3; i++) /* b in edi, c in esi */
		cr_assert(!parameters.values.all[i].type ||
				  parameters.values.all[i].from.reg == 6 - i,
			  "%u", i);
	close_compiled();
}

/* A file's names may have any bytes, as these that are put into the file. */
Test(parameter, names_of_any_bytes_are_cleaned)
{
	char command[256];

	open_compiled("cc", "-O1 -x c",
		      "struct pair { long one_of_two, other; };\n"
		      "long victim(long pa_ra_me_ter, struct pair pair);\n"
		      "long victim(long pa_ra_me_ter, struct pair pair)\n"
		      "{ return pa_ra_me_ter + pair.one_of_two * pair.other; }\n");
	code_symbols_release(&symbols);
	code_file_close(file);
	snprintf(command, sizeof(command),
		 "LC_ALL=C sed -i 's/pa_ra_me_ter/pa\"ra,me\\nter/; s/one_of_two/one\\\\of two/' "
		 "%s/compiled.so",
		 folder);
	cr_assert_eq(system(command), 0);
	snprintf(command, sizeof(command), "%s/compiled.so", folder);
	cr_assert_eq(code_file_open(&file, command), 0);
	cr_assert_eq(code_symbols_read(&symbols, file), 0);
	read_symbol("victim", BIND_GLOBAL);
	cr_assert_eq(parameters.values.count, 4);
	cr_expect_str_eq(parameters.values.all[0].name, "pa_ra_me_ter");
	cr_expect_str_eq(parameters.values.all[2].name, "pair.one_of_two");
	close_compiled();
}

/* The callers in the same unit pass anything for `unused`; b and c are where they ever were. */
static const char
	*const unused_source = "#include <stdlib.h>\n"
			       "__attribute__((noinline)) int victim(int unused, int b, int c)\n"
			       "{ return rand() * b + c; }\n"
			       "int caller(int a) { return victim(1, a, 3); }\n";

Test(parameter, one_that_llvm_has_nowhere_is_lost)
{
	open_compiled("clang", "-O2 -x c", unused_source);
	read_symbol("victim", BIND_GLOBAL);
	cr_assert_eq(parameters.values.count, 3);
	cr_assert_eq(parameters.values.all[0].type, 0);
	cr_assert_eq(parameters.values.all[1].from.reg, 4);
	cr_assert_eq(parameters.values.all[2].from.reg, 1);
	close_compiled();
}

static const char *const
	variants_source = "struct top { int a; top(int a) : a(a) {} virtual ~top(); };\n"
			  "struct part : virtual top { int b; part(int x, int y); ~part(); };\n"
			  "part::part(int x, int y) : top(x), b(y) {}\n"
			  "part::~part() { b = 0; }\n";

static void expect_parameters(const char *function, const char *const *names)
{
	static const uint8_t registers[] = { 5, 4, 1, 2 };

	read_symbol(function, BIND_GLOBAL);
	for (unsigned int i = 0; i < parameters.values.count; i++) {
		cr_assert_not_null(names[i], "%s: %s", function, parameters.values.all[i].name);
		cr_assert_str_eq(parameters.values.all[i].name, names[i], "%s", function);
		cr_assert_neq(parameters.values.all[i].type, 0, "%s: %s", function, names[i]);
		cr_assert_eq(parameters.values.all[i].from.kind, OPERAND_REGISTER);
		cr_assert_eq(parameters.values.all[i].from.reg, registers[i], "%s: %s", function,
			     names[i]);
	}
	cr_assert_null(names[parameters.values.count], "%s", function);
}

static void check_variants(const char *flags)
{
	open_compiled("g++", flags, variants_source);
	expect_parameters("_ZN4partC1Eii", (const char *[]){ "this", "x", "y", NULL });
	expect_parameters("_ZN4partC2Eii",
			  (const char *[]){ "this", "__vtt_parm", "x", "y", NULL });
	expect_parameters("_ZN4partD0Ev", (const char *[]){ "this", NULL });
	expect_parameters("_ZN4partD1Ev", (const char *[]){ "this", NULL });
	expect_parameters("_ZN4partD2Ev", (const char *[]){ "this", "__vtt_parm", NULL });
	close_compiled();
}

Test(parameter, constructors_have_those_of_their_variant)
{
	check_variants("-O0 -x c++");
	check_variants("-O2 -x c++");
}

/* A parameter in doubt makes only those uncertain that it may displace. */
static const char *const unsure_source =
	"typedef int wide __attribute__((vector_size(32)));\n"
	"long after_vector(int a, wide b, int c, double d, long e, long f, long g, long h, long i);\n"
	"long after_vector(int a, wide b, int c, double d, long e, long f, long g, long h, long i)\n"
	"{ return a + b[0] + c + (long)d + e + f + g + h + i; }\n"
	"long after_pair(long a, long b, long c, long d, long e, __int128 f, double g, long h, long i);\n"
	"long after_pair(long a, long b, long c, long d, long e, __int128 f, double g, long h, long i)\n"
	"{ return a + b + c + d + e + (long)f + (long)g + h + i; }\n"
	"struct inner { int a : 5; };\n"
	"struct outer { short a; struct inner b; short c; } __attribute__((packed));\n"
	"long after_bits(long a, struct outer b, long c);\n"
	"long after_bits(long a, struct outer b, long c) { return a + b.a + b.b.a + b.c + c; }\n"
	"typedef union { int *a; float *b; } either __attribute__((transparent_union));\n"
	"int after_union(int a, either b, int c);\n"
	"int after_union(int a, either b, int c) { return a + *b.a + c; }\n"
	"int without_prototype(a, b, c) float a, b; int c; { return (int)(a + b) + c; }\n";

/* '-': unknown; 0 to 9: a register; a to h: xmm0 to xmm7; s and beyond: on the stack, in words. */
static void expect_places(const char *function, const char *places)
{
	read_symbol(function, BIND_GLOBAL);
	cr_assert_eq(parameters.values.count, strlen(places), "%s", function);
	for (unsigned int i = 0; i < parameters.values.count; i++) {
		const struct code_field *field = &parameters.values.all[i];
		const struct code_operand *from = &field->from;
		char is = (char)(!field->type			  ? '-'
				 : from->kind == OPERAND_REGISTER ? '0' + from->reg
				 : from->kind == OPERAND_VECTOR	  ? 'a' + from->reg
								: 's' + from->displacement / 8 - 1);

		cr_assert_eq(is, places[i], "%s: %s is in %c", function, field->name, is);
	}
}

Test(parameter, behind_an_unsure_one_those_that_are_sure_are_told)
{
	open_compiled("gcc", "-O0 -x c", unsure_source);
	expect_places("after_vector", "5-4-1289-");
	expect_places("after_pair", "54128-a9u");
	expect_places("after_bits", "5--");
	expect_places("after_union", "5--");
	expect_places("without_prototype", "--5");
	close_compiled();
	open_compiled("clang", "-O0 -x c", unsure_source);
	expect_places("after_vector", "5-4-1289-");
	expect_places("after_pair", "54128-a--");
	expect_places("after_bits", "5--");
	expect_places("after_union", "5-441");
	close_compiled();
}

/*
 * A function uses one of a structure's two registers: LLVM's callers in the same unit leave the
 * other unset.
 */
static const char *const
	half_source = "struct two { long a, b; };\n"
		      "__attribute__((noinline)) long half(struct two t, int k) { return t.a + k; }\n"
		      "long caller(long a) { return half((struct two){ a, a + 1 }, 3); }\n";

Test(parameter, of_a_structure_llvm_passes_the_part_that_is_used)
{
	open_compiled("gcc", "-O2 -x c", half_source);
	expect_places("half", "-541"); /* t, t.a, t.b, k */
	close_compiled();
	open_compiled("clang", "-O2 -x c", half_source);
	expect_places("half", "-51");
	close_compiled();
}

static const char *const fortran_source = "function scaled(a, n, text)\n"
					  "complex(8) :: scaled, a\n"
					  "integer, value :: n\n"
					  "character(len=*) :: text\n"
					  "scaled = a * n + len(text)\n"
					  "end function\n"
					  "function three(n)\n"
					  "integer :: three(3)\n"
					  "integer, value :: n\n"
					  "three = n\n"
					  "end function\n";

static void check_fortran(const char *flags, const char *three)
{
	open_compiled("gfortran", flags, fortran_source);
	expect_places("scaled_", "5412"); /* a, n, text, its length */
	cr_assert_eq(parameters.values.all[0].type, WM_TYPE_PTR);
	cr_assert_eq(parameters.values.all[1].type, WM_TYPE_I32);
	cr_assert_eq(parameters.values.all[2].type, WM_TYPE_PTR);
	expect_places("three_", three); /* room for the result, n */
	close_compiled();
}

Test(parameter, fortran_s_come_by_reference_where_their_place_is_pointed_to)
{
	check_fortran("-O0 -x f95", "--");
	check_fortran("-O2 -x f95", "-4");
}

/* A million blocks, each in the one before. */
static const char *const
	nested_source = ".text\n"
			".globl victim\n"
			".type victim,@function\n"
			"victim:\n"
			"endbr64\n"
			"mov %edi,%eax\n"
			"add $100000,%eax\n"
			"ret\n"
			".size victim,.-victim\n"
			".Lend:\n"
			".section .debug_abbrev,\"\",@progbits\n"
			".La:\n"
			".uleb128 1; .uleb128 0x11; .byte 1; .uleb128 0x13; .uleb128 0xb;\n"
			".uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 7; .byte 0,0\n"
			".uleb128 2; .uleb128 0x2e; .byte 1; .uleb128 3; .uleb128 8; .uleb128 0x27;\n"
			".uleb128 0x19; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 7;\n"
			".uleb128 0x3f; .uleb128 0x19; .byte 0,0\n"
			".uleb128 3; .uleb128 0x0b; .byte 1, 0, 0\n"
			".byte 0\n"
			".section .debug_info,\"\",@progbits\n"
			".Lu:\n"
			".long .Lue-.Lus\n"
			".Lus:\n"
			".short 4\n"
			".long .La\n"
			".byte 8\n"
			".uleb128 1; .byte 12; .quad victim; .quad .Lend-victim\n"
			".uleb128 2; .asciz \"victim\"; .quad victim; .quad .Lend-victim\n"
			".fill 1000000, 1, 3\n"
			".fill 1000000, 1, 0\n"
			".byte 0\n"
			".byte 0\n"
			".Lue:\n"
			".section .note.GNU-stack,\"\",@progbits\n";

Test(parameter, nesting_without_end_neither_crashes_nor_takes_for_ever)
{
	open_compiled("cc", "-x assembler -nostdlib", nested_source);
	read_symbol("victim", BIND_GLOBAL);
	cr_assert_eq(parameters.values.count, 0);
	close_compiled();
}
