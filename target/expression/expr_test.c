/* SPDX-License-Identifier: MIT */
#include "target/expression/expr.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

static struct watch_expr expr;
static struct watch_trouble trouble;

static void release(void)
{
	expression_release(&expr);
}

static int parse(const char *text)
{
	expression_release(&expr);
	return expression_parse(&expr, text, &trouble);
}

/* An expression as it was understood: "list->next" is "list *. next". */
static const char *understood(const char *text)
{
	static char words[512];
	size_t used;

	cr_assert_eq(parse(text), 0, "%s: %s", text, trouble.detail);
	used = expr.name ? (size_t)snprintf(words, sizeof(words), "%s", expr.name)
			 : (size_t)snprintf(words, sizeof(words), "%#llx",
					    (unsigned long long)expr.address);
	for (unsigned int i = 0; i < expr.step_count; i++) {
		const struct watch_step *step = &expr.steps[i];

		switch (step->kind) {
		case WATCH_MEMBER:
		case WATCH_ARROW:
			used += (size_t)snprintf(words + used, sizeof(words) - used, " %s%s",
						 step->kind == WATCH_MEMBER ? "." : "->",
						 step->name);
			break;
		case WATCH_INDEX:
			used += (size_t)snprintf(words + used, sizeof(words) - used, " [%lld]",
						 (long long)step->index);
			break;
		case WATCH_CAST:
			used += (size_t)snprintf(words + used, sizeof(words) - used, " (%s %lld)",
						 step->name, (long long)step->index);
			break;
		default:
			used += (size_t)snprintf(words + used, sizeof(words) - used, " %c",
						 step->kind == WATCH_DEREF ? '*' : '&');
		}
	}
	return words;
}

static void refused(const char *text, int error, const char *at)
{
	cr_assert_eq(parse(text), error, "%s: %d", text, trouble.error);
	cr_assert_eq(trouble.error, error, "%s", text);
	cr_assert_eq(strncmp(text + trouble.at, at, strlen(at)), 0, "%s: at %zu: %s", text,
		     trouble.at, trouble.detail);
	cr_assert_lt(trouble.at + trouble.bytes, strlen(text) + 1, "%s", text);
}

TestSuite(watch_expr, .fini = release);

Test(watch_expr, steps_are_in_the_order_that_they_are_gone_in)
{
	cr_assert_str_eq(understood("watch:counter"), "counter");
	cr_assert_str_eq(understood("watch:list->head.count"), "list ->head .count");
	cr_assert_str_eq(understood("watch:*list->next"), "list ->next *");
	cr_assert_str_eq(understood("watch:(*list).next"), "list * .next");
	cr_assert_str_eq(understood("watch:*table[3].p[ -1 ]"), "table [3] .p [-1] *");
	cr_assert_str_eq(understood("watch:**(&a)->b"), "a & ->b * *");
	cr_assert_str_eq(understood("watch: ( ( x ) ) . y "), "x .y");
	cr_assert_str_eq(expr.words, "( ( x ) ) . y");
	cr_assert_str_eq(understood("watch:*0x4c6010/8"), "0x4c6010 *");
}

Test(watch_expr, cast_is_a_type_in_brackets_before_an_operand)
{
	cr_assert_str_eq(understood("watch:(int *)p"), "p (int 1)");
	cr_assert_str_eq(understood("watch:((struct node *)p)->next"), "p (struct node 1) ->next");
	cr_assert_str_eq(understood("watch:*( const unsigned long * * )&p[2].a"),
			 "p [2] .a & (unsigned long 2) *");
	cr_assert_str_eq(understood("watch:((ns::Box<int, char *>::In const *)q)->x"),
			 "q (ns::Box<int, char *>::In 1) ->x");
	cr_assert_str_eq(understood("watch:(A *)(B *)p"), "p (B 1) (A 1)");
	cr_assert_str_eq(understood("watch:*(long *)0x4c6010"), "0x4c6010 (long 1) *");
	cr_assert_str_eq(understood("watch:(place)p"), "p (place 0)");
	cr_assert_str_eq(understood("watch:(p)->next"), "p ->next");
	cr_assert_str_eq(understood("watch:(p)[3]"), "p [3]");
	cr_assert_str_eq(understood("watch:(p)/8:rw"), "p");
	cr_assert_str_eq(understood("watch:(ns::p)@libfoo.so"), "ns::p");
	cr_assert_eq(parse("watch:0x4c6010"), -WM_E_WATCH_SYNTAX);
}

Test(watch_expr, a_step_knows_what_it_is_done_to)
{
	const char *text = "watch:*(a[1])->next";

	cr_assert_eq(parse(text), 0);
	cr_assert_eq(expr.step_count, 3);
	cr_assert_eq(strncmp(text + expr.steps[0].from, "a[1])", expr.steps[0].length), 0);
	cr_assert_eq(expr.steps[0].length, 1);
	cr_assert_eq(strncmp(text + expr.steps[1].at, "->next", expr.steps[1].bytes), 0);
	cr_assert_eq(expr.steps[1].bytes, 6);
	cr_assert_eq(strncmp(text + expr.steps[1].from, "(a[1])", 6), 0);
	cr_assert_eq(expr.steps[1].length, 6);
	cr_assert_eq(strncmp(text + expr.steps[2].from, "(a[1])->next", 12), 0);
	cr_assert_eq(expr.steps[2].length, 12);
}

Test(watch_expr, names_may_say_where_they_are_declared)
{
	cr_assert_str_eq(understood("watch:shop::orders.total"), "shop::orders .total");
	cr_assert_null(expr.source);
	cr_assert_str_eq(understood("watch:table.c::count"), "count");
	cr_assert_str_eq(expr.source, "table.c");
	cr_assert_str_eq(understood("watch:src/a-b/table.c::f::n.m"), "f::n .m");
	cr_assert_str_eq(expr.source, "src/a-b/table.c");
	cr_assert_str_eq(understood("watch:*'my file.c'::p->q"), "p ->q *");
	cr_assert_str_eq(expr.source, "my file.c");
	cr_assert_str_eq(understood("watch:Box<std::pair<int, long>>::last[2]"),
			 "Box<std::pair<int, long>>::last [2]");
	cr_assert_str_eq(understood("watch:f(int, char (*)[3])::kept"), "f::kept");
	cr_assert_str_eq(expr.function, "f(int, char (*)[3])");
	cr_assert_str_eq(understood("watch:(anonymous namespace)::x"), "(anonymous namespace)::x");
	cr_assert_null(expr.function);
	cr_assert_str_eq(understood("watch:::errno"), "errno");
	cr_assert_str_eq(understood("watch:gr\xc3\xb6\xc3\x9f"
				    "e$1"),
			 "gr\xc3\xb6\xc3\x9f"
			 "e$1");
}

Test(watch_expr, kinds_lengths_and_modules_stand_behind)
{
	cr_assert_eq(parse("watch:ns::x"), 0);
	cr_assert_eq(expr.kind, WATCH_WRITE);
	cr_assert_str_eq(expr.name, "ns::x");
	cr_assert_eq(parse("watch:ns::x:x"), 0);
	cr_assert_eq(expr.kind, WATCH_EXECUTE);
	cr_assert_eq(parse("watch:buffer+16/8@/usr/lib/lib:x.so:rw"), 0, "%s", trouble.detail);
	cr_assert_str_eq(expr.words, "buffer+16/8");
	cr_assert_eq(expr.offset, 16);
	cr_assert_eq(expr.length, 8);
	cr_assert_str_eq(expr.module, "/usr/lib/lib:x.so");
	cr_assert_eq(expr.kind, WATCH_READ_WRITE);
	cr_assert(expression_takes(&expr, "/usr/lib/lib:x.so", NULL));
	cr_assert_not(expression_takes(&expr, "/usr/lib/liby.so", NULL));
	cr_assert_eq(parse("watch:0x10:x@libfoo.so"), -WM_E_WATCH_SYNTAX);
	cr_assert_eq(parse("watch:4096/4@prog*"), 0);
	cr_assert_eq(expr.address, 4096);
	cr_assert(expression_takes(&expr, "/bin/program", NULL));
	cr_assert_eq(parse("watch:x-0x8/2"), 0);
	cr_assert_eq(expr.offset, -8);
}

Test(watch_expr, what_cant_be_read_is_told_with_its_place)
{
	refused("watch:", -WM_E_WATCH_SYNTAX, "");
	refused("watch:a b", -WM_E_WATCH_SYNTAX, "b");
	refused("watch:a.", -WM_E_WATCH_SYNTAX, "");
	refused("watch:a.3", -WM_E_WATCH_SYNTAX, "3");
	refused("watch:a->->b", -WM_E_WATCH_SYNTAX, "->b");
	refused("watch:a[i]", -WM_E_WATCH_SYNTAX, "i]");
	refused("watch:a[1", -WM_E_WATCH_SYNTAX, "");
	refused("watch:a[1 2]", -WM_E_WATCH_SYNTAX, "2]");
	refused("watch:a[99999999999999999999]", -WM_E_WATCH_SYNTAX, "9");
	refused("watch:(a", -WM_E_WATCH_SYNTAX, "");
	refused("watch:a)", -WM_E_WATCH_SYNTAX, ")");
	refused("watch:(int *)", -WM_E_WATCH_SYNTAX, "");
	refused("watch:(int *)->b", -WM_E_WATCH_SYNTAX, "->b");
	refused("watch:(int &)p", -WM_E_WATCH_SYNTAX, "&)p");
	refused("watch:(Box<int *)p", -WM_E_WATCH_SYNTAX, "p");
	refused("watch:*", -WM_E_WATCH_SYNTAX, "");
	refused("watch:a::", -WM_E_WATCH_SYNTAX, "");
	refused("watch:'a.c'x", -WM_E_WATCH_SYNTAX, "'a.c'x");
	refused("watch:12ab/8", -WM_E_WATCH_SYNTAX, "12ab");
	refused("watch:a+8", -WM_E_WATCH_SYNTAX, "");
	refused("watch:a.b+8/8", -WM_E_WATCH_SYNTAX, "+8/8");
	refused("watch:a/b", -WM_E_WATCH_SYNTAX, "b");
	refused("watch:a@", -WM_E_WATCH_SYNTAX, "");
	refused("watch:a:z", -WM_E_WATCH_SYNTAX, ":z");
	refused("watch:a:x/bt/", -WM_E_WATCH_SYNTAX, ":x/bt/");
	refused("watch:a\nb", -WM_E_WATCH_SYNTAX, "\nb");
}

Test(watch_expr, kind_r_bad_length_and_glob_are_named)
{
	refused("watch:a:r", -WM_E_WATCH_SYNTAX, ":r");
	cr_assert(strstr(trouble.detail, "no processor watches reads alone"));
	refused("watch:a/0", -WM_E_WATCH_SYNTAX, "0");
	refused("watch:a/33", -WM_E_WATCH_SYNTAX, "33");
	cr_assert(strstr(trouble.detail,
			 "a length from 1 to 32 bytes is expected in place of \"33\""));
	refused("watch:0x4010", -WM_E_WATCH_SYNTAX, "");
	refused("watch:f/4:x", -WM_E_WATCH_SYNTAX, "");
	refused("watch:conn.*:rw", -WM_E_WATCH_SYNTAX, "*");
	cr_assert(strstr(trouble.detail, "name the variable or member in place of \"*\""));
}

Test(watch_expr, nothing_is_too_deep_or_too_long)
{
	char text[2048] = "watch:";

	memset(text + 6, '(', 500);
	cr_assert_eq(parse(text), -WM_E_WATCH_SYNTAX);
	memset(text + 6, '*', 500);
	cr_assert_eq(parse(text), -WM_E_WATCH_SYNTAX);
	for (size_t depth = 60; depth < 160; depth += 40) {
		snprintf(text, sizeof(text), "watch:%*s%*s", (int)depth + 1, "x", (int)depth, "");
		memset(text + 6, '(', depth);
		memset(text + 6 + depth + 1, ')', depth);
		cr_assert_eq(parse(text), depth < 64 ? 0 : -WM_E_WATCH_SYNTAX, "%s", text);
	}
	snprintf(text, sizeof(text), "watch:x");
	for (int i = 0; i < WATCH_STEPS_MAX; i++)
		strcat(text, "[1]");
	cr_assert_eq(parse(text), 0);
	strcat(text, "[1]");
	cr_assert_eq(parse(text), -WM_E_WATCH_SYNTAX);
	memset(text + 6, 'x', 1500);
	cr_assert_eq(parse(text), -WM_E_WATCH_SYNTAX);
	cr_assert_eq(parse("func:malloc"), -WM_E_WATCH_SYNTAX);
	cr_assert_eq(expression_parse(&expr, "watch:", NULL), -WM_E_WATCH_SYNTAX);
}
