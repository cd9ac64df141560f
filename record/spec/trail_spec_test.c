/* SPDX-License-Identifier: MIT */
#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

static struct trail_request request;
static char words[512];

static int parse(const char *text)
{
	struct spec spec;
	int err = spec_read(&spec, text, (struct detail){ words, sizeof(words) });

	if (err)
		return err;
	cr_assert_not_null(spec.trail, "%s", text);
	request = *spec.trail;
	spec_release(&spec);
	return 0;
}

Test(trail_spec, names_an_origin_or_leaves_it_open)
{
	static const struct {
		const char *text;
		enum origin origin;
	} origins[] = { { "trail/pt/", ORIGIN_PT },
			{ "trail/bts/", ORIGIN_BTS },
			{ "trail/soft/", ORIGIN_SOFT } };

	for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
		cr_assert_eq(parse(origins[i].text), 0, "%s", origins[i].text);
		cr_assert_eq(request.origin, origins[i].origin);
		cr_assert_not(request.is_auto);
	}
	cr_assert_eq(parse("trail"), 0);
	cr_assert(request.is_auto);
	cr_assert_eq(parse("trail/auto/"), 0);
	cr_assert(request.is_auto);
	cr_assert_eq(request.last_bytes, 0);
}

Test(trail_spec, keeps_the_newest_where_a_size_is_said)
{
	cr_assert_eq(parse("trail/last=64M/"), 0);
	cr_assert_eq(parse("trail/last=64MiB/"), 0);
	cr_assert(request.is_auto);
	cr_assert_eq(request.last_bytes, UINT64_C(64) << 20);
	cr_assert_eq(parse("trail/soft,last=65536/"), 0);
	cr_assert_eq(request.last_bytes, 65536);
	cr_assert_eq(parse("trail/last=1G,soft/"), 0);
	cr_assert_eq(request.last_bytes, UINT64_C(1) << 30);
	cr_assert_eq(request.origin, ORIGIN_SOFT);
}

Test(trail_spec, may_ask_for_the_kernel)
{
	cr_assert_eq(parse("trail/pt,kernel/"), 0);
	cr_assert(request.has_kernel);
	cr_assert_eq(parse("trail/kernel/"), 0);
	cr_assert(request.is_auto && request.has_kernel);
	cr_assert_eq(parse("trail/pt/"), 0);
	cr_assert_not(request.has_kernel);
}

Test(trail_spec, may_choose_modules)
{
	cr_assert_eq(parse("trail/soft,only=libfoo.so,main/"), 0);
	cr_assert_eq(request.origin, ORIGIN_SOFT);
	cr_assert_eq(request.only.count, 2);
	cr_expect_str_eq(request.only.names[0], "libfoo.so");
	cr_expect_str_eq(request.only.names[1], "main");
	cr_assert_eq(parse("trail/only=soft,only=a b,last=64M,main,soft/"), 0);
	cr_assert_eq(request.origin, ORIGIN_SOFT);
	cr_assert_eq(request.last_bytes, UINT64_C(64) << 20);
	cr_assert_eq(request.only.count, 3);
	cr_expect_str_eq(request.only.names[0], "soft");
	cr_expect_str_eq(request.only.names[1], "a b");
	cr_assert_eq(parse("trail/soft/"), 0);
	cr_assert_eq(request.only.count, 0);
}

Test(trail_spec, refuses_what_is_no_list_of_modules)
{
	char many[32 + 4 * (ONLY_NAMES_MAX + 1)] = "trail/soft";

	cr_assert_eq(parse("trail/only=/"), -WM_E_SPEC);
	cr_assert_eq(parse("trail/only=main,main/"), -WM_E_SPEC);
	cr_expect(strstr(words, "\"main\" (column 17) is there twice: name each module once"), "%s",
		  words);
	cr_assert_eq(parse("trail/only=main,last=64X/"), -WM_E_SPEC);
	cr_assert_eq(parse("trail/only=main,lost=64M/"), -WM_E_SPEC);
	cr_assert_eq(parse("trail/libfoo.so,only=main/"), -WM_E_SPEC);
	for (int i = 0; i <= ONLY_NAMES_MAX; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "%s%c",
			 i ? "," : ",only=", 'a' + i);
	strcat(many, "/");
	cr_assert_eq(parse(many), -WM_E_SPEC);
	cr_expect(strstr(words, "\"q\" (column 49) is one too many: only takes 16"), "%s", words);
}

Test(trail_spec, last_takes_each_form_of_a_size)
{
	static const char *const sizes[] = { "67108864", "64M",	    "64m",     "64MB",
					     "64MiB",	 "0.0625G", "65536KiB" };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char text[64];

		snprintf(text, sizeof(text), "trail/last=%s/", sizes[i]);
		cr_expect_eq(parse(text), 0, "%s: %s", text, words);
		cr_expect_eq(request.last_bytes, 64u << 20, "%s", text);
	}
}

Test(trail_spec, refuses_what_is_no_size)
{
	static const char *const sizes[] = { "trail/last=/",
					     "trail/last=M/",
					     "trail/last=-1/",
					     "trail/last=64X/",
					     "trail/last=64MBB/",
					     "trail/last=65535/",
					     "trail/last=0/",
					     "trail/last=65G/",
					     "trail/last=99999999999999999999/",
					     "trail/last=18014398509481985K/",
					     "trail/last=17179869185G/" };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_assert_eq(parse(sizes[i]), -WM_E_SPEC, "%s", sizes[i]);
		cr_assert(strstr(words, i ? "(column 7) takes a size from 64K to 64G"
					  : "(column 7) needs a value: last=SIZE"),
			  "%s", words);
	}
}

Test(trail_spec, says_which_option_and_what_was_meant)
{
	cr_assert_eq(parse("trail/softt/"), -WM_E_SPEC);
	cr_assert_str_eq(words, "\"softt\" (column 7) is no option of trail; did you mean soft?");
	cr_assert_eq(parse("trail/soft,lats=64M/"), -WM_E_SPEC);
	cr_assert(strstr(words, "did you mean last or bts?"), "%s", words);
	cr_assert_eq(parse("trail/nonsense/"), -WM_E_SPEC);
	cr_assert(strstr(words,
			 "\"nonsense\" (column 7) is no option of trail, which has auto, soft, "),
		  "%s", words);
	cr_assert_eq(parse("trail/lbr/"), -WM_E_SPEC);
	cr_assert_eq(parse("trail/branches/"), -WM_E_SPEC);
}

Test(trail_spec, refuses_what_can_not_be_read)
{
	static const char *const specs[] = { "trail/",
					     "trail//",
					     "trail:x",
					     "trail/,soft/",
					     "trail/soft,/",
					     "trail/soft,,last=64M/",
					     "trail/soft/pt/",
					     "trail/soft,pt/",
					     "trail/soft,soft/",
					     "trail/soft,auto/",
					     "trail/last=64M,last=64M/",
					     "trail/pt,kernel,kernel/" };
	char longest[256];

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		cr_assert_eq(parse(specs[i]), -WM_E_SPEC, "%s", specs[i]);
	cr_assert_eq(parse("trail/soft"), -WM_E_SPEC);
	cr_assert(strstr(words, "has no slash behind it"), "%s", words);
	memset(longest, 'x', sizeof(longest));
	memcpy(longest, "trail/", 6);
	strcpy(longest + sizeof(longest) - 2, "/");
	cr_assert_eq(parse(longest), -WM_E_SPEC);
}
