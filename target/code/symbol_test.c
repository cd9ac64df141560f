/* SPDX-License-Identifier: MIT */
#include "target/code/symbol.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct code_file *file;
static struct code_symbols symbols;
static struct {
	char name[CODE_NAME_MAX + 1], unit[64];
	const struct code_function *function;
	int is_ifunc;
} found[4];
static int found_count;

static void open_sample(void)
{
	cr_assert_eq(code_file_open(&file, SAMPLE_MODULE), 0);
	cr_assert_eq(code_symbols_read(&symbols, file), 0);
}

static void close_sample(void)
{
	code_symbols_release(&symbols);
	code_file_close(file);
}

static int take(const struct code_function *function, const struct code_symbol *symbol, void *data)
{
	(void)data;
	if (found_count < 4) {
		strncpy(found[found_count].name, symbol->name, CODE_NAME_MAX);
		strncpy(found[found_count].unit, symbol->unit, 63);
		found[found_count].function = function;
		found[found_count].is_ifunc = symbol->is_ifunc;
	}
	found_count++;
	return 0;
}

static int match(const char *pattern)
{
	found_count = 0;
	cr_assert_eq(code_symbols_match(&symbols, pattern, take, NULL), found_count);
	return found_count;
}

Test(symbol, by_exact_name, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(match("sample_global"), 1);
	cr_assert_gt(found[0].function->bytes, 0);
	cr_assert_eq(found[0].function->count, 2);
	cr_assert_eq(match("sample_alias"), 1);
	cr_assert_str_eq(found[0].name, "sample_alias");
	cr_assert_eq(match("sample_gl"), 0);
	cr_assert_eq(match("Sample_global"), 0);
}

Test(symbol, static_functions_of_one_name_are_told_apart, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(match("same"), 2);
	cr_assert_str_neq(found[0].unit, found[1].unit);
	cr_assert_neq(found[0].function, found[1].function);
}

Test(symbol, a_copy_of_a_whole_function_is_the_function, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(match("sample_copied"), 1);
	cr_assert_str_eq(found[0].name, "sample_copied.constprop.0");
	cr_assert_eq(match("sample_copied.constprop.0"), 1);
	cr_assert_eq(match("sample_global.cold"), 0);
	cr_assert_eq(match("*.cold*"), 0);
}

Test(symbol, names_as_the_source_has_them, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(match("shop::Order::add"), 2);
	cr_assert_eq(match("shop::Order::add(double)"), 1);
	cr_assert_str_eq(found[0].name, "_ZN4shop5Order3addEd");
	cr_assert_eq(match("shop::Order::add(char)"), 0);
	cr_assert_eq(match("_ZN4shop5Order3addEi"), 1);
	cr_assert_eq(match("shop::*"), 4);
	cr_assert_eq(match("add"), 0);
	cr_assert_eq(match("shop::Order::operator()"), 1);
	cr_assert_eq(match("shop::Order::operator()(int)"), 1);
	cr_assert_eq(match("shop::(anonymous namespace)::hidden"), 1);
	cr_assert_eq(match("main::{lambda(int)#1}::operator()"), 1);
	cr_assert_eq(match("mybox::open"), 1);
	cr_assert_eq(match("mycrate::run"), 1);
}

Test(symbol, parts_of_a_written_name_may_be_left_out, .init = open_sample, .fini = close_sample)
{
	static const char *const names[][9] = {
		{ "_Z5twiceIlET_S0_", "twice<long>", "twice<long>(long)", "long twice<long>(long)",
		  "long twice<long>", "twice<long >( long )", "twice<*>(long)", "*ce<*>" },
		{ "_Z6taggedB5cxx11i", "tagged", "tagged(int)", "tagged[abi:cxx11]",
		  "tagged[abi:cxx11](int)", "tag*" },
		{ "_ZN3BoxIiEmlEi", "Box<int>::operator*", "Box<int>::operator*(int)" },
		{ "_ZN3BoxIiEmLEi", "Box<int>::operator*=", "Box<int>::operator*=(int)" },
		{ "_ZNK3BoxIiEixEi", "Box<int>::operator[]", "Box<int>::operator[](int)",
		  "Box<int>::operator[](int) const" },
		{ "_ZNK3BoxIiEcviEv", "Box<int>::operator int", "Box<int>::operator int()",
		  "Box<int>::operator int() const" },
		{ "_Z3ptrPcPFiiE", "ptr(char*, int (*)(int))", "ptr(char *,int(*)(int))" },
		{ "_Z3ptrc", "ptr(char)" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		for (size_t k = 0; k < 9 && names[i][k]; k++) {
			cr_expect_eq(match(names[i][k]), 1, "%s: %d", names[i][k], found_count);
			cr_expect_str_eq(found[0].name, names[i][0], "%s", names[i][k]);
			cr_expect(code_name_fits(names[i][k], names[i][0]), "%s", names[i][k]);
		}
	}
	cr_expect_eq(match("ptr"), 2);
	cr_expect_eq(match("Box<int>::*"), 4);
	cr_expect_eq(match("twice<int>(long)"), 0);
	cr_expect_eq(match("int twice<long>(long)"), 0);
	cr_expect_not(code_name_fits("twice<int>", "_Z5twiceIlET_S0_"));
}

/* As sources have it; the demangler writes char const*. */
Test(symbol, const_before_its_type_is_found)
{
	static const char *const names[][4] = {
		{ "_Z5plainPKc", "plain(const char*)", "plain(const char *)",
		  "plain(char const*)" },
		{ "_Z3idtIPKcET_S2_", "idt<const char*>", "idt<const char*>(const char*)",
		  "const char* idt<const char*>(const char*)" },
		{ "_Z1fRKSt4pairIKiPKcEmPFvRS3_E",
		  "f(const std::pair<const int, const char*>&, unsigned long, "
		  "void (*)(std::pair<const int, const char *>&))" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (size_t k = 1; k < 4 && names[i][k]; k++)
			cr_expect(code_name_fits(names[i][k], names[i][0]), "%s", names[i][k]);
	cr_expect(code_name_fits("f(const A<const B*>&)", "_Z1fRK1AIPK1BE"));
	cr_expect_not(code_name_fits("plain(char)", "_Z5plainPKc"));
	cr_expect_not(code_name_fits("plain(const char&)", "_Z5plainPKc"));
	cr_expect_not(code_name_fits(" const ", "_Z5plainPKc"));
}

Test(symbol, globs_take_each_function_once, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(match("sample_[ag]l*"), 1);
	cr_assert_eq(match("*"), (int)symbols.function_count - 1); /* without the cold piece */
	cr_assert_eq(match("sample_glob?l"), 1);
}

Test(symbol, a_function_that_chooses_is_one, .init = open_sample, .fini = close_sample)
{
	cr_assert_eq(match("sample_chosen"), 1);
	cr_assert(found[0].is_ifunc);
	cr_assert_eq(match("choose"), 1);
	cr_assert_not(found[0].is_ifunc);
}

Test(symbol, the_function_at_an_address, .init = open_sample, .fini = close_sample)
{
	const struct code_function *function;

	cr_assert_eq(match("sample_calls_same"), 1);
	function = found[0].function;
	cr_assert_eq(code_function_at(&symbols, function->address), function);
	cr_assert_eq(code_function_at(&symbols, function->address + function->bytes - 1), function);
	cr_assert_neq(code_function_at(&symbols, function->address + function->bytes), function);
	cr_assert_null(code_function_at(&symbols, 0));
}

Test(symbol, near_names_help, .init = open_sample, .fini = close_sample)
{
	const char *near[3];

	cr_assert_geq(code_symbols_near(&symbols, "sample_gloabl", near, 3), 1);
	cr_assert_str_eq(near[0], "sample_global");
	cr_assert_eq(code_symbols_near(&symbols, "shop::Order::ad", near, 3), 1);
	cr_assert_str_eq(near[0], "shop::Order::add");
	cr_assert_eq(code_symbols_near(&symbols, "Order::add", near, 3), 1);
	cr_assert_str_eq(near[0], "shop::Order::add");
	cr_assert_eq(code_symbols_near(&symbols, "hidden", near, 3), 1);
	cr_assert_str_eq(near[0], "shop::(anonymous namespace)::hidden");
	cr_assert_eq(code_symbols_near(&symbols, "zzzzzzzzzzzz", near, 3), 0);
}

Test(symbol, data_has_an_address_too, .init = open_sample, .fini = close_sample)
{
	uint64_t address;
	int value = 0;

	cr_assert_eq(code_symbol_value(file, "sample_counter", &address), 0);
	cr_assert_eq(code_file_read(file, address, &value, sizeof(value)), 0);
	cr_assert_eq(value, 42);
	cr_assert_eq(code_symbol_value(file, "nothing_of_this_name", &address), -ENOENT);
	cr_assert_eq(code_symbol_value(file, "same", &address), -ENOTUNIQ);
}
