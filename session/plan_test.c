/* SPDX-License-Identifier: MIT */
#include "session/plan.h"

#include "abi/control.h"
#include "code/sweep.h"
#include "code/trampoline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define BASE UINT64_C(0x7f1234560000)

/* What is planned for: functions of this very program. */
int plan_subject(int count, const char *name);
int plan_subjects(int count);
void plan_tiny(void);

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

/* A return and nothing else, another function's behind it, and no code that a jump could end in. */
__asm__(".section .plan_tiny, \"ax\"\n.globl plan_tiny, plan_tiny_next\n.type plan_tiny, @function\n"
	".type plan_tiny_next, @function\n"
	"plan_tiny:\n.cfi_startproc\nret\n.cfi_endproc\n.size plan_tiny, . - plan_tiny\n"
	"plan_tiny_next:\n.cfi_startproc\nret\n.cfi_endproc\n"
	".size plan_tiny_next, . - plan_tiny_next\n.text\n");

/*
 * The filler behind the first is nearest to both, and has no room for both; there is more behind a third,
 * which has something right behind the second.
 */
__asm__(".section .plan_filler, \"ax\"\n.globl plan_filler_one, plan_filler_two\n"
	".type plan_filler_one, @function\n.type plan_filler_two, @function\n"
	"plan_filler_one:\n.cfi_startproc\nret\n.cfi_endproc\n.size plan_filler_one, 1\n"
	".byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n"
	"plan_filler_two:\n.cfi_startproc\nmov %edi, %eax\nret\n.cfi_endproc\n"
	".size plan_filler_two, 3\n"
	".type plan_filler_three, @function\n"
	"plan_filler_three:\n.cfi_startproc\n.rept 8\nmov %edi, %eax\n.endr\nret\n.cfi_endproc\n"
	".size plan_filler_three, 17\n"
	".byte 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n.text\n");

/* Four instructions shorter than a jump, and nothing comes in between. */
__asm__(".section .plan_close, \"ax\"\n.globl plan_close\n.type plan_close, @function\n"
	"plan_close:\n.cfi_startproc\nmov %edi, %eax\nnop\nadd $1, %eax\nnop\nret\n.cfi_endproc\n"
	".size plan_close, 8\n.text\n");

/* The only filler within reach has room for a jump of the first, or for the end of one of the second. */
__asm__(".section .plan_narrow, \"ax\"\n.globl plan_narrow, plan_beside\n"
	".type plan_narrow, @function\n.type plan_beside, @function\n.skip 140, 0xf4\n"
	"plan_narrow:\n.cfi_startproc\nmov %edi, %eax\nret\n.cfi_endproc\n.size plan_narrow, 3\n"
	"plan_beside:\n.cfi_startproc\nmov %edi, %eax\nret\n.cfi_endproc\n.size plan_beside, 3\n"
	".byte 0x0f, 0x1f, 0x44, 0, 0\n.skip 140, 0xf4\n.text\n");

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

/* The same place composed once more, and written for the base by who knows best how. */
static void compose(const struct code_place *place, int err, const char *detail,
		    const struct control_detour *detour, void *data)
{
	static struct trampoline trampoline;
	struct expected *expected = data;

	(void)detail;
	cr_assert_eq(err, 0);
	cr_assert_not_null(detour);
	cr_assert_eq(trampoline_compose(&expected->sweep, place, &trampoline), 0);
	expected->used = trampoline_write(&trampoline, BASE, "", place->wants_return ? "" : NULL,
					  expected->bytes, sizeof(expected->bytes));
}

Test(plan, is_written_for_a_base_as_its_trampolines_would_be)
{
	static unsigned char written[CONTROL_BYTES_MAX];
	static struct expected expected;
	struct plan_listener listener = { compose, &expected };
	struct control_detour is, wanted;
	struct control_place head;
	size_t from = 0, bytes, code;

	cr_assert_eq(sweep_make(&expected.sweep, module.file, code_module_symbols(&module)), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject/rdi:i32,rsi:str,ret/"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, &listener), 0);
	cr_assert_eq(plan->place_count, 1);
	cr_assert_eq(specs.all[0].placed, 1);
	bytes = plan_write(plan, &from, BASE, written, sizeof(written));
	cr_assert_eq(from, 1);
	memcpy(&head, written, sizeof(head));
	cr_assert_eq(head.count, 1);
	memcpy(&is, written + sizeof(head), sizeof(is));
	memcpy(&wanted, expected.bytes, sizeof(wanted));
	cr_assert_eq(bytes, sizeof(head) + is.bytes);
	cr_assert_gt(is.address, BASE);
	/* all but the texts, which came from the plan */
	code = wanted.bytes - 8;
	is.bytes = wanted.bytes;
	memcpy(written + sizeof(head), &is, sizeof(is));
	cr_assert_arr_eq(written + sizeof(head), expected.bytes, code);
	cr_assert_eq(strncmp((char *)written + sizeof(head) + code, "bd\n", 3), 0);
	cr_assert_eq(plan_write(plan, &from, BASE, written, sizeof(written)), 0);
	sweep_release(&expected.sweep);
}

Test(plan, is_written_in_as_many_pieces_as_it_takes)
{
	static unsigned char written[4096];
	size_t from = 0, last = 0, places = 0;
	struct control_place head;

	cr_assert_eq(spec_add(&specs, "func:*"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_gt(plan->place_count, 30);
	while (plan_write(plan, &from, BASE, written, sizeof(written))) {
		memcpy(&head, written, sizeof(head));
		places += head.count;
		cr_assert_eq(from, places);
		cr_assert_gt(from, last);
		last = from;
	}
	cr_assert_eq(places, plan->place_count);
}

Test(plan, takes_a_place_once_and_tells_each_spec)
{
	cr_assert_eq(spec_add(&specs, "func:plan_subject"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject*"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(plan->place_count, 2);
	cr_assert_eq(specs.all[0].placed, 1);
	cr_assert_eq(specs.all[1].placed, 2);
}

Test(plan, has_another_event_at_a_place_that_is_taken)
{
	cr_assert_eq(spec_add(&specs, "func:plan_subject*"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject/rdi:i32/"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject/rdi:i32,ret/"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_subject/rdi:i32,rsi:ptr/"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	/* the first takes in what the second has; the third and the fourth tell more */
	cr_assert_eq(plan->place_count, 4);
	cr_assert_eq(specs.all[0].placed, 2);
	for (int i = 1; i < 4; i++)
		cr_assert_eq(specs.all[i].placed, 1);
	cr_assert_eq(plan->refused_count, 0);
	for (int i = 1; i < 3; i++)
		cr_assert_eq(plan->places[i].point, plan->places[0].point);
}

Test(plan, keeps_why_a_place_cannot_be_had)
{
	cr_assert_eq(spec_add(&specs, "func:plan_tiny"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(plan->place_count, 0);
	cr_assert_eq(plan->refused_count, 1);
	cr_assert(strstr(plan->refused[0].name, ":plan_tiny"));
	cr_assert_eq(plan->refused[0].error, -WM_E_SPAN_SHORT);
	cr_assert_eq(specs.all[0].matches, 1);
	cr_assert_eq(specs.all[0].placed, 0);
	cr_assert_eq(specs.all[0].error, -WM_E_SPAN_SHORT);
}

Test(plan, names_what_is_near_to_what_is_not_there)
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

Test(plan, concerns_the_files_that_a_request_names)
{
	cr_assert_eq(spec_add(&specs, "marker:a:b"), 0);
	cr_assert_not(plan_concerns(&specs, "/usr/lib/libz.so.1"));
	cr_assert_eq(spec_add(&specs, "func:inflate@libz.so.1"), 0);
	cr_assert(plan_concerns(&specs, "/usr/lib/libz.so.1"));
	cr_assert_not(plan_concerns(&specs, "/usr/lib/libc.so.6"));
}

struct beats {
	size_t last, total, count, enough;
};

static int on_beat(size_t done, size_t total, void *data)
{
	struct beats *beats = data;

	cr_assert(!total || done < total);
	cr_assert(!total || done >= beats->last, "it goes back");
	beats->last = total ? done : beats->last;
	beats->total = total ? total : beats->total;
	return ++beats->count > beats->enough ? -ECANCELED : 0;
}

Test(plan, tells_how_far_it_is)
{
	struct beats beats = { .enough = SIZE_MAX };

	cr_assert_eq(spec_add(&specs, "func:*"), 0);
	module.file->pulse = (struct code_pulse){ on_beat, &beats };
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_gt(beats.total, 100);
	cr_assert_eq(beats.total, plan->place_count + plan->refused_count);
	cr_assert_geq(beats.last + 100, beats.total);
}

Test(plan, can_be_given_up_at_any_beat)
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

Test(plan, two_globs_have_each_place_once)
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
	cr_assert_gt(specs.all[1].placed, 1, "it has them with the other");
}

static const struct control_detour *detour_of(size_t number)
{
	return plan->places[number].detour;
}

Test(plan, two_that_share_filler_have_each_its_own_part)
{
	const struct control_detour *one, *two;
	uint64_t relay;

	cr_assert_eq(spec_add(&specs, "func:plan_filler_one"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_filler_two"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(plan->place_count, 2);
	one = detour_of(0);
	two = detour_of(1);
	cr_assert_eq(one->span_bytes, 5);
	cr_assert_eq(one->relay, 0);
	cr_assert_neq(two->relay, 0);
	relay = two->address + 2 + (uint64_t)two->relay;
	cr_assert(relay >= one->address + one->span_bytes || relay + 5 <= one->address);
	cr_assert(relay >= two->address + two->span_bytes || relay + 5 <= two->address);
}

static void ask_inside(const char *name, unsigned int offset)
{
	const struct code_symbols *all = code_module_symbols(&module);
	char text[128];

	for (size_t i = 0; i < all->count; i++) {
		if (strcmp(all->all[i].name, name) != 0)
			continue;
		snprintf(text, sizeof(text), "addr:/proc/self/exe+0x%" PRIx64,
			 all->all[i].address + offset);
		cr_assert_eq(spec_add(&specs, text), 0);
	}
}

static void common_span(size_t count)
{
	const struct control_detour *first = detour_of(0);

	cr_assert_eq(plan->place_count, count);
	cr_assert_eq(plan->refused_count, 0);
	for (size_t i = 0; i < count; i++) {
		cr_assert_eq(detour_of(i)->address, first->address);
		cr_assert_eq(detour_of(i)->span_bytes, first->span_bytes);
		cr_assert(detour_same_points(detour_of(i), first));
	}
}

Test(plan, points_too_near_to_each_other_have_one_span)
{
	ask_inside("plan_close", 3);
	ask_inside("plan_close", 6);
	cr_assert_eq(spec_add(&specs, "func:plan_close"), 0);
	ask_inside("plan_close", 2);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	common_span(4);
	cr_assert_eq(detour_of(0)->link_count, 3);
	cr_assert_eq(detour_of(0)->address, detour_of(2)->point);
	for (size_t i = 0; i < 4; i++)
		cr_assert_eq(specs.all[i].placed, 1);
}

Test(plan, one_more_event_at_a_point_of_a_common_span_is_in_it)
{
	cr_assert_eq(spec_add(&specs, "func:plan_close"), 0);
	ask_inside("plan_close", 2);
	cr_assert_eq(spec_add(&specs, "func:plan_close/rdi:i32/"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	common_span(3);
	cr_assert_eq(detour_of(0)->link_count, 1);
}

Test(plan, of_two_that_cannot_stand_together_the_later_is_refused_by_the_name_of_the_earlier)
{
	cr_assert_eq(spec_add(&specs, "func:plan_narrow"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_beside"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(plan->place_count, 1);
	cr_assert_eq(plan->refused_count, 1);
	cr_assert_eq(plan->refused[0].error, -WM_E_DETOUR_TAKEN);
	cr_assert(strstr(plan->refused[0].detail, ":plan_narrow at -3"), "%s",
		  plan->refused[0].detail);
	cr_assert_eq(specs.all[0].placed, 1);
	cr_assert_eq(specs.all[1].placed, 0);
	cr_assert_eq(specs.all[1].error, -WM_E_DETOUR_TAKEN);
}

Test(plan, it_is_the_order_of_asking_that_decides)
{
	cr_assert_eq(spec_add(&specs, "func:plan_beside"), 0);
	cr_assert_eq(spec_add(&specs, "func:plan_narrow"), 0);
	cr_assert_eq(plan_make(&plan, &specs, &module, NULL, NULL), 0);
	cr_assert_eq(plan->place_count, 1);
	cr_assert_eq(plan->refused_count, 1);
	cr_assert(strstr(plan->refused[0].detail, ":plan_beside at +3"), "%s",
		  plan->refused[0].detail);
}
