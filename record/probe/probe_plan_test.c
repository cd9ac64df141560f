/* SPDX-License-Identifier: MIT */
#include "record/probe/probe_plan.h"

#include "abi/control.h"
#include "target/code/sweep.h"
#include "target/code/trampoline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define BASE UINT64_C(0x7f1234560000)

/* The plans are for these functions of this program. */
int plan_subject(int count, const char *name);
int plan_subjects(int count);
int plan_line(int count);

__attribute__((noinline)) int plan_subject(int count, const char *name)
{
	__asm__ volatile("" : "+r"(count));
	return count + name[0];
}

__attribute__((noinline)) int plan_subjects(int count)
{
	__asm__ volatile("" : "+r"(count));
	return plan_subject(count, "x") + 1;
}

/* With its result, a duration and a callchain more than an event can have. */
int plan_wide(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l,
	      int m, int n);
__attribute__((noinline)) int plan_wide(int a, int b, int c, int d, int e, int f, int g, int h,
					int i, int j, int k, int l, int m, int n)
{
	__asm__ volatile("" : "+r"(a));
	return a + b + c + d + e + f + g + h + i + j + k + l + m + n;
}

/* A function that no jump may replace. */
__asm__(".globl plan_fixed\n.type plan_fixed, @function\n"
	"plan_fixed:\n.cfi_startproc\nsyscall\nret\n.cfi_endproc\n.size plan_fixed, . - plan_fixed\n");

/* Three instructions; a jump may replace any of them for an event at the first. */
__asm__(".globl plan_pushed\n.type plan_pushed, @function\n"
	"plan_pushed:\n.cfi_startproc\n"
	"push %rbp\n.cfi_adjust_cfa_offset 8\npush %rbx\n.cfi_adjust_cfa_offset 8\n"
	"mov %rdi, %rbx\n"
	"pop %rbx\n.cfi_adjust_cfa_offset -8\npop %rbp\n.cfi_adjust_cfa_offset -8\nret\n"
	".cfi_endproc\n.size plan_pushed, . - plan_pushed\n");

static struct spec_list specs;
static struct code_module module;
static struct plan *plan;

static void set_up(void)
{
	struct code_file *file;

	cr_assert_eq(code_file_open(&file, "/proc/self/exe"), 0);
	code_module_init(&module, file, 0);
}

static void tear_down(void)
{
	plan_free(plan);
	code_module_release(&module);
	spec_list_release(&specs);
}

TestSuite(plan, .init = set_up, .fini = tear_down, .timeout = 60);

struct expected {
	struct sweep sweep;
	unsigned char bytes[16384];
	size_t used;
};

/* Compose the same choices again, and write them for the base with trampoline_write(). */
static void compose(const struct code_place *place, int err, const char *detail,
		    const struct control_detour *choices, unsigned int count, void *data)
{
	static struct trampoline trampoline;
	struct expected *expected = data;

	(void)detail;
	cr_assert_eq(err, 0);
	cr_assert_not_null(choices);
	for (unsigned int i = 0; i < count; i++) {
		cr_assert_eq(trampoline_compose(&expected->sweep, place, i, &trampoline), 0);
		expected->used += trampoline_write(&trampoline, BASE, "", "",
						   expected->bytes + expected->used,
						   sizeof(expected->bytes) - expected->used);
	}
	cr_assert_eq(trampoline_compose(&expected->sweep, place, count, &trampoline), -ENOENT);
}

Test(plan, write_equals_trampolines_written_for_base)
{
	static unsigned char written[CONTROL_BYTES_MAX];
	static struct expected expected;
	struct plan_listener listener = { compose, &expected };
	struct control_place head;
	size_t from = 0, bytes, is_at = sizeof(head), wanted_at = 0;

	cr_assert_eq(sweep_make(&expected.sweep, module.file, code_module_symbols(&module)), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_pushed/rdi:i32,rsi:str,ret/"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, &listener), 0);
	cr_assert_eq(plan->place_count, 1);
	cr_assert_eq(specs.all[0].placed, 1);
	bytes = plan_write(plan, &from, BASE, 0, written, sizeof(written));
	cr_assert_eq(from, 1);
	memcpy(&head, written, sizeof(head));
	cr_assert_eq(head.count, 3);
	for (uint32_t i = 0; i < head.count; i++) {
		struct control_detour is, wanted;
		size_t code;

		memcpy(&is, written + is_at, sizeof(is));
		memcpy(&wanted, expected.bytes + wanted_at, sizeof(wanted));
		cr_assert_gt(is.address, BASE);
		cr_assert_eq(is.point + i, is.address);
		cr_assert_eq(!!(is.flags & DETOUR_ELSE), i > 0);
		/* all but the texts, which the plan adds */
		code = wanted.bytes - 8;
		cr_assert_eq(strncmp((char *)written + is_at + code, "bd\n", 3), 0);
		memcpy(written + is_at, &wanted.bytes, sizeof(wanted.bytes));
		cr_assert_arr_eq(written + is_at, expected.bytes + wanted_at, code);
		is_at += is.bytes;
		wanted_at += wanted.bytes;
	}
	cr_assert_eq(bytes, is_at);
	cr_assert_eq(expected.used, wanted_at);
	cr_assert_eq(plan_write(plan, &from, BASE, 0, written, sizeof(written)), 0);
	sweep_release(&expected.sweep);
}

Test(plan, write_in_pieces_keeps_choices_together)
{
	static unsigned char written[4096];
	size_t from = 0, last = 0, records = 0, choices = 0;
	struct control_place head;

	cr_assert_eq(spec_add(&specs, "func:*"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_gt(plan->place_count, 30);
	while (plan_write(plan, &from, BASE, 0, written, sizeof(written))) {
		memcpy(&head, written, sizeof(head));
		records += head.count;
		cr_assert_gt(from, last);
		/* all choices of one event are in the same piece */
		for (; last < from; last++)
			choices += plan->places[last].choice_count;
		cr_assert_eq(records, choices);
	}
	cr_assert_eq(last, plan->place_count);
}

Test(plan, safe_request_marks_each_choice)
{
	static unsigned char written[CONTROL_BYTES_MAX];
	struct control_detour record;
	struct control_place head;
	size_t from = 0, at = sizeof(head), safe = 0;

	cr_assert_eq(spec_add(&specs, "func:plan_pushed/safe/"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_gt(plan_write(plan, &from, BASE, 0, written, sizeof(written)), 0);
	memcpy(&head, written, sizeof(head));
	for (uint32_t i = 0; i < head.count; i++, at += record.bytes) {
		memcpy(&record, written + at, sizeof(record));
		cr_assert_eq(!!(record.flags & DETOUR_SAFE),
			     record.point == BASE + plan->places[0].point);
		safe += !!(record.flags & DETOUR_SAFE);
	}
	cr_assert_eq(safe, 3);
}

Test(plan, same_place_of_two_specs_counts_for_both)
{
	cr_assert_eq(spec_add(&specs, "func:plan_subject"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject*"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(plan->place_count, 2);
	cr_assert_eq(specs.all[0].placed, 1);
	cr_assert_eq(specs.all[1].placed, 2);
}

Test(plan, more_fields_at_same_place_make_another_event)
{
	cr_assert_eq(spec_add(&specs, "func:plan_subject*"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject/rdi:i32/"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject/rdi:i32,ret/"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject/rdi:i32,rsi:ptr/"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	/* the first spec covers the second; the third and fourth want more fields */
	cr_assert_eq(plan->place_count, 4);
	cr_assert_eq(specs.all[0].placed, 2);
	for (int i = 1; i < 4; i++)
		cr_assert_eq(specs.all[i].placed, 1);
	cr_assert_eq(plan->refused_count, 0);
	for (int i = 1; i < 3; i++)
		cr_assert_eq(plan->places[i].point, plan->places[0].point);
}

Test(plan, refused_place_keeps_its_error)
{
	cr_assert_eq(spec_add(&specs, "func:plan_fixed"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(plan->place_count, 0);
	cr_assert_eq(plan->refused_count, 1);
	cr_assert(strstr(plan->refused[0].name, ":plan_fixed"));
	cr_assert_eq(plan->refused[0].error, -WM_E_SPAN_INSTRUCTION);
	cr_assert_eq(specs.all[0].matches, 1);
	cr_assert_eq(specs.all[0].placed, 0);
	cr_assert_str_eq(plan->refused[0].detail, "syscall at +0");
	cr_assert_eq(specs.all[0].error, -WM_E_SPAN_INSTRUCTION);
}

Test(plan, glob_refuses_by_itself_a_function_with_too_many_fields)
{
	cr_assert_eq(spec_add(&specs, "func:plan_[sw][iu]*[te]/args,bt,if=duration>1/"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_expect_eq(specs.all[0].placed, 1);
	cr_assert_eq(plan->refused_count, 1);
	cr_expect_str_eq(strchr(plan->refused[0].name, ':'), ":plan_wide");
	cr_expect_eq(plan->refused[0].error, -WM_E_EVENT_ROOM);
}

Test(plan, names_suggest_similar_function)
{
	struct name_list names = { 0 };
	int found = 0;

	cr_assert_eq(spec_add(&specs, "func:plan_subjetc"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(specs.all[0].error, -WM_E_NO_FUNCTION);
	cr_assert_eq(plan_names(&names, &specs, &module), 0);
	for (size_t i = 0; i < names.count; i++)
		found |= !strcmp(names.all[i], "plan_subject");
	cr_assert(found);
	name_list_release(&names);
}

Test(plan, concerns_only_requested_modules)
{
	cr_assert_eq(spec_add(&specs, "marker:a:b"), 0);
	cr_assert_not(plan_concerns(&specs, "/usr/lib/libz.so.1", NULL));
	cr_assert_eq(spec_add(&specs, "func:inflate@libz.so.1"), 0);
	cr_assert(plan_concerns(&specs, "/usr/lib/libz.so.1", NULL));
	cr_assert_not(plan_concerns(&specs, "/usr/lib/libc.so.6", NULL));
}

struct beats {
	size_t last, total, count, enough;
};

static int on_beat(size_t done, size_t total, void *data)
{
	struct beats *beats = data;

	cr_assert(!total || done < total);
	cr_assert(!total || done >= beats->last, "progress goes back");
	beats->last = total ? done : beats->last;
	beats->total = total ? total : beats->total;
	return ++beats->count > beats->enough ? -ECANCELED : 0;
}

Test(plan, make_reports_progress)
{
	struct beats beats = { .enough = SIZE_MAX };

	cr_assert_eq(spec_add(&specs, "func:*"), 0);
	module.file->pulse = (struct code_pulse){ on_beat, &beats };
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_gt(beats.total, 100);
	cr_assert_eq(beats.total, plan->place_count + plan->refused_count);
	cr_assert_geq(beats.last + 100, beats.total);
}

Test(plan, make_cancelled_at_any_beat_returns_ecanceled)
{
	struct beats beats = { .enough = 0 };
	int err;

	cr_assert_eq(spec_add(&specs, "func:*"), 0);
	module.file->pulse = (struct code_pulse){ on_beat, &beats };
	while ((err = plan_make(&plan, &specs, &module, NULL, NULL))) {
		cr_assert_eq(err, -ECANCELED);
		plan_free(plan);
		beats = (struct beats){ .enough = beats.enough + 1 };
	}
	cr_assert_gt(beats.enough, 2);
}

Test(plan, overlapping_globs_place_once)
{
	size_t once;

	cr_assert_eq(spec_add(&specs, "func:*"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	once = plan->place_count;
	plan_free(plan);
	cr_assert_eq(spec_add(&specs, "func:plan_*"), 0);
	cr_assert_eq(spec_add(&specs, "func:*a*"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(plan->place_count, once);
	cr_assert_gt(specs.all[1].placed, 1, "places are shared with the other glob");
}

/* A program's debug information has any text for a source file's path. */
Test(plan, source_of_any_text_takes_one_line)
{
	static const char text[] = "\nplan_line\n\n7\n";

	cr_assert_eq(spec_add(&specs, "func:plan_line"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(plan->place_count, 1);
	cr_expect(memmem(plan->places[0].detour, plan->places[0].bytes, text, sizeof(text) - 1));
}

/* clang-format off */
#line 7 "a\nb"
__attribute__((noinline)) int plan_line(int count) { __asm__ volatile("" : "+r"(count)); return count + 1; }
