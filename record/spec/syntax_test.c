/* SPDX-License-Identifier: MIT */
/* The grammar of specs: what each kind refuses, in one form; names that are like options. */
#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

static struct spec spec;
static char words[512];

static int parse(const char *text)
{
	spec_release(&spec);
	return spec_read(&spec, text, (struct detail){ words, sizeof(words) });
}

/* A right spec of each kind that has options, and one of these. */
static const struct {
	const char *name, *option;
} kinds[] = {
	{ "marker:net:rx", "count=cs" },
	{ "net:rx", "count=cs" },
	{ "usdt:a:b", "args" },
	{ "func:f", "ret" },
	{ "addr:libz.so+16", "safe" },
	{ "addr:main.c:12", "safe" },
	{ "trail", "soft" },
	{ "watch:counter", "bt" },
	{ "sample:cpu-clock", "addr" },
	{ "fault", "callchain" },
};

static void refused(const char *name, const char *options, const char *expected)
{
	char text[256];

	snprintf(text, sizeof(text), "%s%s", name, options);
	cr_expect_eq(parse(text), -WM_E_SPEC, "%s: %s", text, words);
	cr_expect(strstr(words, expected), "%s: %s", text, words);
	cr_expect(strstr(words, "column "), "%s: %s", text, words);
}

Test(syntax, each_kind_refuses_same_mistakes_in_one_form)
{
	char options[128], expected[128];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const char *name = kinds[i].name, *option = kinds[i].option;
		size_t column = strlen(name) + 1;

		snprintf(options, sizeof(options), "/%s/", option);
		cr_expect_eq(parse(strcat(strcpy(expected, name), options)), 0, "%s: %s", expected,
			     words);
		snprintf(options, sizeof(options), "/%s", option);
		snprintf(expected, sizeof(expected), "\"/%s\" (column %zu) has no slash behind it",
			 option, column);
		refused(name, options, expected);
		snprintf(options, sizeof(options), "/%s,/", option);
		snprintf(expected, sizeof(expected), "column %zu: an option is empty",
			 column + 2 + strlen(option));
		refused(name, options, expected);
		refused(name, "//", "an option is empty");
		refused(name, "/", "opens options, and there are none");
		snprintf(expected, sizeof(expected), "\"zork=3\" (column %zu) is no option of ",
			 column + 1);
		refused(name, "/zork=3/", expected);
		if (strncmp(option, "count", 5) != 0) {
			snprintf(options, sizeof(options), "/%s,%s/", option, option);
			refused(name, options, "is there twice");
			snprintf(options, sizeof(options), "/%s=/", option);
			cr_expect_eq(parse(strcat(strcpy(expected, name), options)), -WM_E_SPEC);
		}
	}
}

Test(syntax, option_of_another_kind_is_named)
{
	refused("func:f", "/count=cs/", "is an option of marker, and not of func, which has ret");
	refused("usdt:a:b", "/ret/", "\"ret\" (column 10) is an option of func, and not of usdt");
	refused("addr:x+1", "/last=64M/", "is an option of trail, and not of addr");
	refused("net:rx", "/callchain/", "is an option of switch, and not of marker");
	refused("marker:net:rx", "/signal=STOP/", "is an option of watch, and not of marker");
	refused("trail", "/freq=99/", "is an option of sample, and not of trail");
	refused("watch:x", "/last=64M/", "is an option of trail, and not of watch");
	refused("sample:cpu-clock", "/signal=9/", "is an option of watch, and not of sample");
	refused("fault", "/addr/", "is an option of sample, and not of fault");
	refused("switch", "/freq=99/",
		"\"freq=99\" (column 8) is an option of sample, and not of switch, which has callchain");
}

Test(syntax, wrong_values_are_refused_with_what_is_allowed)
{
	refused("sample:cpu-clock", "/freq/", "\"freq\" (column 18) needs a value: freq=N");
	refused("sample:cpu-clock", "/freq=/", "needs a value: freq=N");
	refused("sample:cpu-clock", "/freq=x/", "takes a number from 1 to 1000000");
	refused("sample:cpu-clock", "/freq=0/", "takes a number from 1 to 1000000");
	refused("sample:cpu-clock", "/freq=1000001/", "takes a number from 1 to 1000000");
	refused("sample:cpu-clock", "/freq=9,period=3/", "freq or period, not both");
	refused("trail", "/last/", "needs a value: last=SIZE");
	refused("trail", "/last=1K/", "takes a size from 64K to 64G");
	refused("trail", "/only=/", "needs a value: only=NAME");
	refused("net:rx", "/sum/", "needs a value: sum=FIELD+FIELD");
	refused("net:rx", "/count=cs+/", "has an empty value: count=NAME+NAME");
	refused("func:f", "/ret=x/", "takes no value: write ret");
	cr_expect_eq(parse("func:f/ret:strange/"), -WM_E_FIELD_TYPE);
	cr_expect_str_eq(words, "\"strange\" (column 12) is no type");
	cr_expect_eq(parse("func:f/ret:u8/"), 0);
}

Test(syntax, kinds_near_a_known_one_are_named)
{
	refused("trial", "", "is no kind of event; did you mean trail?");
	refused("trial", "/soft/", "did you mean trail?");
	refused("markr:net:rx", "", "did you mean marker?");
	refused("wacth:a->b", "",
		"is no EVENT and no glob: marker:SUBSYSTEM:EVENT; did you mean watch?");
	refused("fucn:malloc", "/ret/", "is an option of func, and not of marker");
	refused("zork", "",
		"is no kind of event, which are marker, usdt, func, addr, trail, watch, "
		"switch, fault, sample, count, tracepoint, kprobe");
	refused("func", "", "\"func\" (column 1) needs a name: func:NAME[@FILE]");
	refused("trail:x", "", "\":x\" (column 6) is wrong: trail takes no name");
	cr_expect_eq(parse("switches:x"), 0, "a marker");
	cr_expect_eq(parse("marker:trail:x"), 0);
	cr_expect_str_eq(spec.glob, "trail:x");
}

Test(syntax, slashes_and_commas_of_names_are_no_options)
{
	static const struct {
		const char *text, *name, *module;
		unsigned int fields;
	} names[] = {
		{ "func:std::map<int, long>::at", "std::map<int, long>::at", NULL, 0 },
		{ "func:std::map<int, long>::at/arg1,key/", "std::map<int, long>::at", NULL, 2 },
		{ "func:ns::operator/", "ns::operator/", NULL, 0 },
		{ "func:ns::operator//arg1/", "ns::operator/", NULL, 1 },
		{ "func:ns::operator/(A const&, int)", "ns::operator/(A const&, int)", NULL, 0 },
		{ "func:ns::operator/(A const&)/arg1/", "ns::operator/(A const&)", NULL, 1 },
		{ "func:f@/usr/lib/libx.so/rdi/", "f", "/usr/lib/libx.so", 1 },
		{ "func:*@[vdso]", "*", "[vdso]", 0 },
		{ "func:__vdso_*@[vdso]/rdi/", "__vdso_*", "[vdso]", 1 },
		{ "usdt:lib[ab]:*@/opt/x*/lib.so", "lib[ab]:*", "/opt/x*/lib.so", 0 },
		{ "addr:/usr/bin/cat+0x10", NULL, "/usr/bin/cat", 0 },
		{ "addr:/usr/bin/cat+0x10/rdi,esi:i32/", NULL, "/usr/bin/cat", 2 },
		{ "addr:[vdso]+0x10", NULL, "[vdso]", 0 },
		{ "addr:src/a,b.c:12", "src/a,b.c", NULL, 0 },
		{ "addr:src/main.c:12/rdi/", "src/main.c", NULL, 1 },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		cr_assert_eq(parse(names[i].text), 0, "%s: %s", names[i].text, words);
		if (names[i].name)
			cr_expect_str_eq(spec.request->name, names[i].name, "%s", names[i].text);
		if (names[i].module)
			cr_expect_str_eq(spec.request->module, names[i].module, "%s",
					 names[i].text);
		cr_expect_eq(spec.request->wish_count, names[i].fields, "%s", names[i].text);
	}
	cr_assert_eq(parse("watch:Box<std::pair<int, long>>::last[2]/8@[vdso]:rw/bt,count/"), 0,
		     "%s", words);
	cr_expect_str_eq(spec.watch->words, "Box<std::pair<int, long>>::last[2]/8");
	cr_expect_str_eq(spec.watch->module, "[vdso]");
	cr_assert_eq(parse("watch:x@/usr/lib/libfoo.so"), 0, "%s", words);
	cr_expect_str_eq(spec.watch->module, "/usr/lib/libfoo.so");
}

Test(syntax, column_counts_characters)
{
	refused("func:gr\xc3\xb6\xc3\x9f"
		"e",
		"/ret,ret/", "\"ret\" (column 16) is there twice");
}
