/* SPDX-License-Identifier: MIT */
/*
 * Compares with gdb: where variables are, their sizes, types and values as text. The programs
 * are of each compiler, with each version of debug information, optimised and not. Nothing runs:
 * memory is the file's.
 */
#include "target/code/dwarf.h"
#include "target/code/testing/folder.h"
#include "target/expression/find.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

/* Those of a bit-field can't be had by &. */
static const char *const c_exprs[] = {
	"a_char",
	"escaped",
	"high",
	"quote",
	"small",
	"byte",
	"a_short",
	"ushort_v",
	"counter",
	"uint_v",
	"a_long",
	"ulonglong",
	"yes",
	"no",
	"single",
	"third",
	"real",
	"tenth",
	"whole",
	"extended",
	"quad",
	"odd_quad",
	"third_quad",
	"huge",
	"complex_v",
	"colour",
	"odd_colour",
	"back",
	"mode",
	"modes",
	"odd_mode",
	"no_mode",
	"style",
	"odd_style",
	"point",
	"point.y",
	"fixed",
	"volatile_v",
	"a_place",
	"both",
	"both[1]",
	"both[1].y",
	"bits",
	"-bits.low",
	"-bits.middle",
	"-bits.wide",
	"-bits.far",
	"-bits.flag",
	"-bits.colour",
	"packed",
	"packed.value",
	"-packed.across",
	"-packed.more",
	"tight",
	"-tight.value",
	"either",
	"either.real",
	"either.text[6]",
	"matrix[2]",
	"matrix[1][3]",
	"line",
	"line[2]",
	"line[3].x",
	"text",
	"text[1]",
	"full",
	"zeros",
	"raw",
	"same[11]",
	"third_node",
	"first_node.left",
	"list",
	"*list",
	"list->next->next->number",
	"list->next->where",
	"(*list).where.y",
	"*list->next",
	"list_at[0]->value",
	"(*list_at)->next",
	"(&first_node)->right",
	"lost",
	"anything",
	"*counter_at",
	"counter_at[0]",
	"rows[1][2]",
	"*rows",
	"in_text",
	"apply",
	"table",
	"table[1]",
	"name",
	"*name",
	"name[3]",
	"secret",
	"flexible->count",
	"flexible->items[5]",
	"*other_at",
	"other_at->second",
	"numbers",
	"next_id::last",
	"other_id::last",
	"*(long *)&point",
	"((struct point *)&matrix)->y",
	"((place *)&matrix[1])->y",
	"*(unsigned short int *)counter_at",
	"*(unsigned *)&fixed",
	"((const struct node *)&first_node)->next->number",
	"((struct node *)list_at[0]->next)->where",
	"((struct point *)secret)->x",
	"*(const char **)&name",
	"**(const char **)&name",
	"((int *)anything)[0]",
};

static const char *const cc_exprs[] = {
	"shop::orders",
	"shop::v1::stock",
	"shop::Item::count",
	"shop::Box<int>::last",
	"shop::offer",
	"shop::offer.price",
	"shop::offer.percent",
	"shop::offer.level",
	"shop::offer_at->percent",
	"shop::lent.own",
	"shop::box",
	"shop::box.inside",
	"shop::boxes.inside.inside",
	"*&shop::alias",
	"shop::offer_alias.percent",
	"shop::offer_alias.level",
	"shop::wide",
	"shop::wider",
	"shop::level",
	"((shop::Offer *)shop::item_at)->percent",
	"((shop::Offer *)shop::item_at)->price",
	"((shop::Item *)shop::offer_at)->price",
	"((shop::Item *)&shop::offer)->price",
	"*(shop::Item *)&shop::offer",
	"((shop::Box<long> *)&shop::boxes)->inside",
	"*(int *)(void *)&shop::box",
	"mine",
	"shared_name",
};

/* Its debug symbols are a package of their own. */
static const char *const libc_exprs[] = {
	"main_arena.top",
	"_IO_2_1_stdout_.file._fileno",
	"stdin",
	"environ",
	"program_invocation_name",
	"__libc_argv",
	"mp_.mmap_threshold",
	"_nl_C_locobj.__names[2]",
	"__curbrk",
	"initial.fns[1].flavor",
	"_res.id",
	"stdout",
};

struct way {
	const char *command; /* what it takes */
	const char *build;   /* how it makes the program */
	const char *const *exprs;
	size_t count;
};

#define C_WAY(compiler, flags)                                                                     \
	{                                                                                          \
		compiler " gdb",                                                                   \
			compiler " " flags " -I" SAMPLES "/../../.. -no-pie -o whole " SAMPLES     \
				 "/sample_watch.c " SAMPLES "/sample_watch_twin.c",                \
			c_exprs, sizeof(c_exprs) / sizeof(c_exprs[0])                              \
	}
#define CC_WAY(compiler, flags)                                                                    \
	{                                                                                          \
		compiler " gdb",                                                                   \
			compiler " " flags " -std=gnu++17 -no-pie -o whole " SAMPLES               \
				 "/sample_watch.cc",                                               \
			cc_exprs, sizeof(cc_exprs) / sizeof(cc_exprs[0])                           \
	}

static struct code_module module;

static int memory_read(void *data, uint64_t address, void *buffer, size_t bytes)
{
	(void)data;
	return code_file_read(module.file, address, buffer, bytes);
}

static int symbol_name(void *data, uint64_t address, char *text, size_t bytes)
{
	const struct code_symbols *symbols = code_module_symbols(&module);
	const struct code_function *function = code_function_at(symbols, address);

	(void)data;
	if (!function || !code_file_is_text(module.file, address, 1))
		return 0;
	snprintf(text, bytes, "%s", symbols->all[function->first].name);
	return 1;
}

static void script_write(const struct way *way)
{
	char path[128];
	FILE *script;

	snprintf(path, sizeof(path), "%s/script", folder);
	script = fopen(path, "we");
	cr_assert_not_null(script);
	fputs("set print symbol off\nset print static-members off\n", script);
	for (size_t i = 0; i < way->count; i++) {
		const char *expr = way->exprs[i];
		int is_bits = *expr == '-';

		expr += is_bits;
		if (is_bits)
			fprintf(script, "printf \"0|0|\"\n");
		else
			fprintf(script, "printf \"%%lu|%%lu|\", (unsigned long)&(%s), sizeof(%s)\n",
				expr, expr);
		fprintf(script, "output %s\nprintf \"|\"\nwhatis %s\n", expr, expr);
	}
	cr_assert_eq(fclose(script), 0);
}

/*
 * "(struct node *) 0x4040" is 0x4040 inside of a structure, and so is what we print; what a char *
 * leads to is not known.
 */
static void value_strip(char *value)
{
	char *hex = strstr(value, ") 0x"), *quote, *vtable;

	if (*value == '(' && hex)
		memmove(value, hex + 2, strlen(hex + 2) + 1);
	/* nor are symbols of data */
	vtable = strstr(value, " <vtable for ");
	if (vtable)
		memmove(vtable, strchr(vtable, '>') + 1, strlen(strchr(vtable, '>')));
	quote = strncmp(value, "0x", 2) ? NULL : strchr(value, '"');
	if (quote)
		quote[-1] = 0;
}

static void compare(const char *text, char *line, const char *build)
{
	const struct code_memory memory = { memory_read, NULL };
	const struct watch_style style = { .name = symbol_name };
	struct code_module *const modules[] = { &module };
	struct watch_expr expr;
	struct watch_place place;
	struct watch_trouble trouble;
	char whole[128], ours[WATCH_TEXT_MAX], *rest = line, *value, *type;
	uint64_t address, bytes, at;
	uint8_t content[256];

	address = strtoull(strsep(&rest, "|"), NULL, 10);
	bytes = rest ? strtoull(strsep(&rest, "|"), NULL, 10) : 0;
	type = rest ? strstr(rest, "|type = ") : NULL;
	cr_assert_not_null(type, "gdb says of %s (%s): %s", text, build, line);
	*type = 0;
	type += strlen("|type = ");
	type[strcspn(type, "\n")] = 0;
	value = rest;
	value_strip(value);

	snprintf(whole, sizeof(whole), "watch:%s", text + (*text == '-'));
	cr_assert_eq(expression_parse(&expr, whole, &trouble), 0, "%s", trouble.detail);
	expression_place_find(&place, &expr, modules, 1, &trouble);
	/* what is too large for a watch has its place too */
	cr_assert(!trouble.error || trouble.error == -WM_E_WATCH_LARGE, "%s (%s): %s", whole, build,
		  trouble.detail);
	cr_assert_eq(watch_place_address(&place, &memory, 0, &at, &trouble), 0, "%s (%s): %s",
		     whole, build, trouble.detail);
	if (*text != '-') {
		cr_assert_eq(at, address, "%s (%s) is at %#lx, not %#lx", whole, build, at,
			     address);
		cr_assert_eq(place.bytes, bytes, "%s (%s) has %lu bytes, not %lu", whole, build,
			     place.bytes, bytes);
	}
	cr_assert_str_eq(expression_type_name(&place.type), type, "%s (%s) is a %s, not a %s",
			 whole, build, expression_type_name(&place.type), type);
	cr_assert_leq(place.bytes, sizeof(content));
	cr_assert_eq(code_file_read(module.file, at, content, place.bytes), 0);
	expression_type_text(&place.type, content, &style, ours, sizeof(ours));
	cr_assert_str_eq(ours, value, "%s (%s) is %s, not %s", whole, build, ours, value);
	watch_place_release(&place);
	expression_release(&expr);
}

static void hold_against_gdb(const struct way *way)
{
	char path[128], line[4096];
	struct code_file *file;
	FILE *said;

	folder_make(way->command);
	shell("%s", way->build);
	script_write(way);
	/* an error ends it, and is its last line */
	shell("timeout 60 gdb -nx -batch -x script whole >said 2>&1 </dev/null || :");
	file = folder_open("whole");
	code_module_init(&module, file, 0);
	if (!code_dwarf_of(file))
		cr_skip_test("its debug symbols are not here");
	snprintf(path, sizeof(path), "%s/said", folder);
	said = fopen(path, "re");
	cr_assert_not_null(said);
	for (size_t i = 0; i < way->count; i++) {
		cr_assert_not_null(fgets(line, sizeof(line), said), "gdb says nothing of %s",
				   way->exprs[i]);
		compare(way->exprs[i], line, way->build);
	}
	fclose(said);
	code_module_release(&module);
}

TestSuite(watch_gdb, .fini = folder_remove, .timeout = 120);

Test(watch_gdb, of_gcc_with_dwarf_5)
{
	hold_against_gdb(&(struct way)C_WAY("gcc", "-g -gdwarf-5 -O0"));
}

Test(watch_gdb, of_gcc_with_dwarf_4_optimised)
{
	hold_against_gdb(&(struct way)C_WAY("gcc", "-g -gdwarf-4 -O2"));
}

Test(watch_gdb, of_gcc_with_types_of_their_own)
{
	hold_against_gdb(&(struct way)C_WAY("gcc", "-g -gdwarf-5 -O2 -fdebug-types-section -gz"));
}

Test(watch_gdb, of_clang_with_dwarf_5_optimised)
{
	hold_against_gdb(&(struct way)C_WAY("clang", "-gdwarf-5 -O2"));
}

Test(watch_gdb, of_clang_with_dwarf_4)
{
	hold_against_gdb(&(struct way)C_WAY("clang", "-gdwarf-4 -O0"));
}

Test(watch_gdb, of_gcc_from_cxx)
{
	hold_against_gdb(&(struct way)CC_WAY("g++", "-gdwarf-5 -O0"));
}

Test(watch_gdb, of_gcc_from_cxx_with_dwarf_4_optimised)
{
	hold_against_gdb(&(struct way)CC_WAY("g++", "-gdwarf-4 -O2"));
}

Test(watch_gdb, of_clang_from_cxx)
{
	hold_against_gdb(&(struct way)CC_WAY("clang++", "-gdwarf-5 -fstandalone-debug -O0"));
}

Test(watch_gdb, of_gcc_with_debug_information_that_files_share)
{
	struct way way = C_WAY("gcc", "-g -gdwarf-4 -O2");

	way.command = "gcc gdb dwz objcopy strip";
	way.build = "gcc -g -gdwarf-4 -O2 -I" SAMPLES "/../../.. -no-pie -o whole " SAMPLES
		    "/sample_watch.c " SAMPLES "/sample_watch_twin.c && cp whole other && "
		    "dwz -m shared.debug whole other && readelf -S whole | grep -q gnu_debugaltlink && "
		    "objcopy --only-keep-debug whole whole.debug && strip whole && "
		    "objcopy --add-gnu-debuglink=whole.debug whole";
	hold_against_gdb(&way);
}

Test(watch_gdb, of_gcc_with_dwarf_5_in_files_apart)
{
	hold_against_gdb(&(struct way)C_WAY("gcc", "-g -gdwarf-5 -gsplit-dwarf -O0"));
}

Test(watch_gdb, of_gcc_with_dwarf_4_in_files_apart)
{
	hold_against_gdb(&(struct way)C_WAY("gcc", "-g -gdwarf-4 -gsplit-dwarf -O0"));
}

Test(watch_gdb, of_clang_with_dwarf_5_in_files_apart)
{
	hold_against_gdb(&(struct way)C_WAY("clang", "-g -gdwarf-5 -gsplit-dwarf -O0"));
}

Test(watch_gdb, of_gcc_with_old_compression)
{
	hold_against_gdb(&(struct way)C_WAY("gcc", "-g -gdwarf-4 -gz=zlib-gnu -O0"));
}

Test(watch_gdb, of_libc)
{
	static const struct way way = { "gdb", "ln -s /lib/x86_64-linux-gnu/libc.so.6 whole",
					libc_exprs, sizeof(libc_exprs) / sizeof(libc_exprs[0]) };

	hold_against_gdb(&way);
}
