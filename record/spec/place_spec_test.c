/* SPDX-License-Identifier: MIT */
#include "record/spec/spec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static struct spec spec;
static struct code_request request; /* the last one that was right */
static char wrong_words[512];

static int parse(const char *text)
{
	int err;

	spec_release(&spec);
	err = spec_read(&spec, text, (struct detail){ wrong_words, sizeof(wrong_words) });
	if (spec.request)
		request = *spec.request;
	return err ? err : spec.request ? 0 : -WM_E_SPEC;
}

Test(place_spec, a_usdt_probe)
{
	cr_assert_eq(parse("usdt:postgresql:query__*"), 0);
	cr_assert_eq(request.kind, REQUEST_USDT);
	cr_assert_str_eq(request.name, "postgresql:query__*");
	cr_assert_null(request.module);
	cr_assert_not(request.wants_all);
	cr_assert_eq(parse("usdt:a:b@libx.so/arg1:str,arg3/"), 0);
	cr_assert_str_eq(request.name, "a:b");
	cr_assert_str_eq(request.module, "libx.so");
	cr_assert_eq(request.wish_count, 2);
	cr_assert_eq(request.wishes[0].type, WM_TYPE_STR);
	cr_assert_str_eq(request.wishes[1].name, "arg3");
	cr_assert_eq(request.wishes[1].type, 0);
}

Test(place_spec, a_function)
{
	cr_assert_eq(parse("func:malloc"), 0);
	cr_assert_eq(request.kind, REQUEST_FUNCTION);
	cr_assert_not(request.wants_return);
	cr_assert_eq(parse("func:malloc@/lib/libc.so.6/ret:x,arg1:u32/"), 0);
	cr_assert_str_eq(request.name, "malloc");
	cr_assert_str_eq(request.module, "/lib/libc.so.6");
	cr_assert(request.wants_return);
	cr_assert_eq(request.return_type, WM_TYPE_PTR);
	cr_assert_eq(request.wish_count, 1);
	cr_assert_eq(parse("func:*@libz/args,ret/"), 0);
	cr_assert(request.wants_all);
	cr_assert_eq(parse("func:shop::Order::add(int, char const*)/rdi/"), 0);
	cr_assert_str_eq(request.name, "shop::Order::add(int, char const*)");
	cr_assert_eq(parse("func:ns::operator/"), 0);
	cr_assert_str_eq(request.name, "ns::operator/");
	cr_assert_eq(parse("func:ns::operator//arg1/"), 0);
	cr_assert_str_eq(request.name, "ns::operator/");
	cr_assert_eq(request.wish_count, 1);
}

Test(place_spec, a_function_behind_its_file_is_refused)
{
	cr_expect_eq(parse("func:libc:malloc/arg1/"), -WM_E_SPEC);
	cr_expect(strstr(wrong_words, "write malloc@libc"), "%s", wrong_words);
	cr_expect_eq(parse("func:/usr/lib/libc.so.6:str*"), -WM_E_SPEC);
	cr_expect(strstr(wrong_words, "write str*@/usr/lib/libc.so.6"), "%s", wrong_words);
	cr_expect_eq(parse("func:a::b"), 0);
	cr_expect_eq(parse("func:*::b"), 0);
	cr_expect_eq(parse("func:-[Box open:]"), 0);
	cr_expect_eq(parse("func:a:b@libx"), 0);
}

Test(place_spec, a_place_that_must_be_safe)
{
	cr_assert_eq(parse("func:malloc"), 0);
	cr_assert_not(request.is_safe);
	cr_assert_eq(parse("func:malloc/safe/"), 0);
	cr_assert(request.is_safe);
	cr_assert_eq(request.wish_count, 0);
	cr_assert_eq(parse("usdt:a:b/arg1,safe,arg2/"), 0);
	cr_assert(request.is_safe);
	cr_assert_eq(request.wish_count, 2);
	cr_assert_eq(parse("addr:x+1/safe/"), 0);
	cr_assert(request.is_safe);
}

Test(place_spec, fields_without_their_last_slash_are_no_name)
{
	static const char *const lacking[] = {
		"func:add/arg1:str",  "func:add/ret", "func:f@libx.so/ret,args",
		"usdt:a:b/arg1,arg2", "func:f/count", "func:f@/usr/lib/libx/safe",
	};
	static const char *const fine[] = {
		"func:f@/usr/lib/libx",		 "func:ns::operator/(shop::Order const&)",
		"func:github.com/ours/list.Add", "addr:src/main.c:12",
		"addr:/usr/bin/cat+0x10",
	};

	for (size_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++) {
		cr_expect_eq(parse(lacking[i]), -WM_E_SPEC, "%s", lacking[i]);
		cr_expect(strstr(wrong_words, "has no slash behind it"), "%s", wrong_words);
	}
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		cr_expect_eq(parse(fine[i]), 0, "%s", fine[i]);
}

Test(place_spec, an_event_and_its_fields_have_given_names)
{
	cr_assert_eq(parse("func:f/name=db:query,id=arg1,text=arg2:str,at_x=at.x:f64,key/"), 0,
		     "%s", wrong_words);
	cr_expect_str_eq(request.subsystem, "db");
	cr_expect_str_eq(request.event, "query");
	cr_assert_eq(request.wish_count, 4);
	cr_expect_str_eq(request.wishes[0].name, "id");
	cr_expect_str_eq(request.wishes[0].value, "arg1");
	cr_expect_eq(request.wishes[0].type, 0);
	cr_expect_str_eq(request.wishes[1].name, "text");
	cr_expect_str_eq(request.wishes[1].value, "arg2");
	cr_expect_eq(request.wishes[1].type, WM_TYPE_STR);
	cr_expect_str_eq(request.wishes[2].value, "at.x");
	cr_expect_eq(request.wishes[2].type, WM_TYPE_F64);
	cr_expect_str_eq(request.wishes[3].name, "key");
	cr_expect_str_eq(request.wishes[3].value, "key");
	cr_assert_eq(parse("usdt:a:b/name=a:c,thread=arg1,count=arg2/"), 0, "%s", wrong_words);
	cr_expect_str_eq(request.wishes[0].name, "thread");
	cr_expect_str_eq(request.wishes[1].name, "count");
	cr_expect_not(request.sums.is_wanted);
	cr_assert_eq(parse("func:f/name,name:str/"), -WM_E_SPEC, "a parameter called so");
	cr_expect(strstr(wrong_words, "\"name:str\" (column 13) is there twice"), "%s",
		  wrong_words);

	cr_assert_eq(parse("func:f/rows=ret:i32,id=arg1,if=arg1>3,if=ret<0/"), 0, "%s",
		     wrong_words);
	cr_expect(request.wants_return);
	cr_expect_eq(request.return_type, WM_TYPE_I32);
	cr_expect_str_eq(request.return_name, "rows");
	cr_assert_eq(request.wish_count, 1);
	cr_expect_str_eq(request.predicates[0].name, "id");
	cr_expect_str_eq(request.predicates[1].name, "rows");
	cr_assert_eq(parse("func:f/rows=ret,id=arg1,sum=ret,by=arg1/"), 0, "%s", wrong_words);
	cr_expect_str_eq(request.sums.fields[0].name, "id");
	cr_expect_str_eq(request.sums.fields[1].name, "rows");
	/* what a field is called counts first */
	cr_assert_eq(parse("func:f/arg1=rdi,x=arg1,if=arg1>3/"), 0, "%s", wrong_words);
	cr_expect_str_eq(request.predicates[0].name, "arg1");
}

Test(place_spec, option_with_a_slip_is_refused_and_named)
{
	static const char *const wrong[][2] = {
		{ "func:f/hsit=arg1/", "did you mean hist=FIELD?" },
		{ "usdt:a:b/histt=arg1/", "did you mean hist=FIELD?" },
		{ "addr:x+1/sm=rdi/", "did you mean sum=FIELD+FIELD?" },
		{ "func:f/namee=arg1/", "did you mean name=SUBSYSTEM:EVENT?" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect_eq(parse(wrong[i][0]), -WM_E_SPEC, "%s", wrong[i][0]);
		cr_expect(strstr(wrong_words, wrong[i][1]), "%s: %s", wrong[i][0], wrong_words);
	}
	cr_assert_eq(parse("func:f/hits=arg1:u64,num=arg2,host=arg3,id=arg4,yb=arg5/"), 0, "%s",
		     wrong_words);
	cr_expect_eq(request.wish_count, 5);
}

Test(place_spec, slash_without_fields_is_refused)
{
	static const char *const texts[] = { "func:f@app/", "func:f/", "usdt:a:b/", "addr:x+16/",
					     "func:f//" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_assert_eq(parse(texts[i]), -WM_E_SPEC, "%s", texts[i]);
	cr_assert_eq(parse("func:ns::operator/"), 0);
	cr_assert_str_eq(request.name, "ns::operator/");
}

Test(place_spec, an_address)
{
	cr_assert_eq(parse("addr:/usr/bin/x+0x1a40/rdi,esi:i32/"), 0);
	cr_assert_eq(request.kind, REQUEST_OFFSET);
	cr_assert_str_eq(request.module, "/usr/bin/x");
	cr_assert_eq(request.offset, 0x1a40);
	cr_assert_eq(request.wish_count, 2);
	cr_assert_eq(parse("addr:libstdc++.so.6+0100"), 0);
	cr_assert_str_eq(request.module, "libstdc++.so.6");
	cr_assert_eq(request.offset, 100);
	cr_assert_eq(parse("addr:[vdso]+0x10"), 0);
	cr_assert_eq(parse("addr:src/main.c:42"), 0);
	cr_assert_eq(request.kind, REQUEST_LINE);
	cr_assert_str_eq(request.name, "src/main.c");
	cr_assert_eq(request.line, 42);
}

Test(place_spec, nonsense_is_refused)
{
	static const char *const texts[] = {
		"",
		"func",
		"func:",
		"func:@x",
		"func:a@",
		"func:/a/",
		"func:a//",
		"func:a/arg1,/",
		"func:a/,/",
		"func:a/1x/",
		"func:a/a b/",
		"func:a/ret,ret/",
		"func:a/breakpoint=1/",
		"func:a/x,x/",
		"func:a/args:u8/",
		"func:a/safe,safe/",
		"func:a/safe:u8/",
		"func:a\n",
		"func:a\tb",
		"usdt:",
		"usdt:a",
		"usdt:a:",
		"usdt::b",
		"usdt:a:b:c",
		"usdt:a b:c",
		"usdt:a:b/ret x/",
		"addr:",
		"addr:x",
		"addr:+1",
		"addr:x+",
		"addr:x+g",
		"addr:x+0x",
		"addr:x+-1",
		"addr:x+1 ",
		"addr:x:",
		"addr::1",
		"addr:x:0",
		"addr:x:99999999999",
		"addr:x+0x10000000000000000",
		"addr:x+1/args/",
		"other:x",
		"func:a/a1,a2,a3,a4,a5,a6,a7,a8,a9,a10,a11,a12,a13,a14,a15,a16,a17/",
	};
	char longest[2 * SPEC_BYTES_MAX];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_assert_eq(parse(texts[i]), -WM_E_SPEC, "%s", texts[i]);
	cr_assert_eq(parse("func:a/arg1:int/"), -WM_E_FIELD_TYPE);
	cr_assert_eq(parse("func:a/arg1:/"), -WM_E_FIELD_TYPE);
	cr_assert_eq(parse("usdt:a:b/ret/"), -WM_E_SPEC);
	cr_assert(strstr(wrong_words, "is an option of func, and not of usdt"), "%s", wrong_words);
	cr_assert_eq(parse("addr:x+1/ret/"), -WM_E_SPEC);
	cr_assert_eq(parse("addr:x.c:1/arg1,ret:u8/"), -WM_E_SPEC);
	memset(longest, 'a', sizeof(longest) - 1);
	memcpy(longest, "func:", 5);
	longest[sizeof(longest) - 1] = 0;
	cr_assert_eq(parse(longest), -WM_E_SPEC);
}

Test(place_spec, wrong_part_is_named)
{
	static const struct {
		const char *text, *words;
	} wrong[] = {
		{ "func:f/ret,breakpoint=1/",
		  "\"breakpoint=1\" (column 12) is no option of func, which has ret, args, "
		  "name=SUBSYSTEM:EVENT, bt=N, if=CONDITION, count, sum=FIELD+FIELD, "
		  "min=FIELD+FIELD, max=FIELD+FIELD, avg=FIELD+FIELD, hist=FIELD, by=FIELD+FIELD, "
		  "safe, NAME, NAME:TYPE and FIELD=NAME" },
		{ "func:f/1x/", "\"1x\" (column 8) is no field: NAME or NAME:TYPE" },
		{ "func:f/name=query/",
		  "\"query\" (column 13) is no event's name: SUBSYSTEM:EVENT, as db:query" },
		{ "func:f/name=db:/", "\"db:\" (column 13) is no event's name" },
		{ "func:f/name=:query/", "\":query\" (column 13) is no event's name" },
		{ "func:f/name=db:a:b/", "\"db:a:b\" (column 13) is no event's name" },
		{ "func:f/name=db:1st/", "\"db:1st\" (column 13) is no event's name" },
		{ "func:f/name=db-x:a/", "\"db-x:a\" (column 13) is no event's name" },
		{ "func:f/name=arg1:str/",
		  "\"arg1:str\" (column 13) is an argument, and name= calls" },
		{ "func:f/name=a:b,name=a:c/",
		  "\"a:c\" (column 22) is one too many: name takes 1" },
		{ "func:f*/name=db:a/", "\"f*\" (column 6) is a glob, and name= is for one event" },
		{ "usdt:a:*/name=db:a/", "\"a:*\" (column 6) is a glob" },
		{ "func:f/name=a:a123456789b123456789c123456789d123456789e123456789f123456789g123/",
		  "(column 15) is longer than 63 characters" },
		{ "func:f/i-d=arg1/", "\"i-d\" (column 8) is no name of a field: letters" },
		{ "func:f/id=arg1,id=arg2/", "\"id=arg2\" (column 16) is there twice" },
		{ "func:f/id=a b/", "\"id=a b\" (column 8) is no field" },
		{ "func:f/id=arg1:int/", "\"int\" (column 16) is no type" },
		{ "func:f/ret,rows=ret/", "\"rows=ret\" (column 12) is there twice" },
		{ "func:f/rows=ret,sum=arg1/", "has rows, which no sum has: add by=rows" },
		{ "func:f/freq=key/",
		  "\"freq=key\" (column 8) is an option of sample, and not of func" },
		{ "func:f/ret,ret/", "\"ret\" (column 12) is there twice" },
		{ "func:f/x,x/", "\"x\" (column 10) is there twice" },
		{ "func:f/args:u8/", "\"args:u8\" (column 8) takes no value" },
		{ "func:f/arg1,/", "column 13: an option is empty" },
		{ "func:f/arg1:strange/", "\"strange\" (column 13) is no type" },
		{ "addr:x+1/args/", "\"args\" (column 10) is an option of usdt, and not of addr" },
		{ "addr:x+1/ret/", "\"ret\" (column 10) is an option of func, and not of addr" },
		{ "func:@x", "\"@x\" (column 6) has no name" },
		{ "func:f@", "\"f@\" (column 6) has no file behind @" },
		{ "func:a//", "column 8: an option is empty" },
		{ "usdt:a", "\"a\" (column 6) is not PROVIDER:NAME" },
		{ "addr:x+g", "\"x+g\" (column 6) is neither FILE+OFFSET" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cr_expect_lt(parse(wrong[i].text), 0, "%s", wrong[i].text);
		cr_expect(strstr(wrong_words, wrong[i].words), "%s: %s", wrong[i].text,
			  wrong_words);
	}
	cr_assert_eq(parse("func:f/ret/"), 0);
	cr_assert_str_eq(wrong_words, "");
}

Test(place_spec, a_module_goes_by_path_or_name)
{
	const char *path = "/usr/lib/x86_64-linux-gnu/libc.so.6";
	char folder[] = "/tmp/waymark-request-XXXXXX", link[64];

	cr_assert_eq(parse("func:a"), 0);
	cr_assert(code_request_takes(&request, path, NULL));
	cr_assert_eq(parse("func:a@libc.so.6"), 0);
	cr_assert(code_request_takes(&request, path, NULL));
	cr_assert_eq(parse("func:a@libc"), 0);
	cr_assert(code_request_takes(&request, path, NULL));
	cr_assert_eq(parse("func:a@/usr/*/libc.so*"), 0);
	cr_assert(code_request_takes(&request, path, NULL));
	cr_assert_eq(parse("func:a@libcrypt"), 0);
	cr_assert_not(code_request_takes(&request, path, NULL));
	cr_assert_eq(parse("func:a@/lib/libc.so.6"), 0);
	cr_assert_not(code_request_takes(&request, path, NULL));

	/* By the name that programs ask for it by. */
	cr_assert_eq(parse("func:a@libz.so.1"), 0);
	cr_assert(code_request_takes(&request, "/lib/libz.so.1.2.13", NULL));
	cr_assert_not(code_request_takes(&request, "/lib/libz.so.11", NULL));
	cr_assert_eq(parse("func:a@lib"), 0);
	cr_assert_not(code_request_takes(&request, "/lib/lib.a", NULL));

	/* By the names that the process has for it. */
	cr_assert_eq(parse("func:a@libblas.so.3"), 0);
	cr_assert_not(code_request_takes(&request, "/lib/libopenblas.so.0", NULL));
	cr_assert(code_request_takes(&request, "/lib/libopenblas.so.0",
				     &(struct code_aliases){ .link = "/lib/libblas.so.3" }));
	cr_assert_eq(parse("func:a@server"), 0);
	cr_assert(code_request_takes(&request, "/bin/tool",
				     &(struct code_aliases){ "./other", "/bin/server" }));
	cr_assert_not(code_request_takes(&request, "/bin/tool",
					 &(struct code_aliases){ "./servers", "" }));

	/* By a link to it, as /lib is one to /usr/lib. */
	cr_assert_not_null(mkdtemp(folder));
	snprintf(link, sizeof(link), "%s/link", folder);
	cr_assert_eq(symlink("/etc/passwd", link), 0);
	request.module = link;
	cr_assert(code_request_takes(&request, "/etc/passwd", NULL));
	unlink(link);
	rmdir(folder);
}
