/* SPDX-License-Identifier: MIT */
#include "record/marker/enumerated.h"

#include "record/probe/probe_plan.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

static char m[] = "m", mm[] = "mm";
static struct enumeration_pool pool;

static const struct enumeration *make(uint64_t value, const char *name)
{
	struct enumeration_draft draft = { .type = WM_TYPE_I32 };
	const struct enumeration *of;

	enumeration_draft_add(&draft, value, name);
	of = enumeration_pool_make(&pool, &draft);
	enumeration_draft_release(&draft);
	return of;
}

/* Make a record with 5 bytes of code, 2 fixups and both texts. The caller frees it. */
static struct control_detour *record(const char *text, const char *return_text)
{
	struct control_detour *detour = calloc(1, 1024);
	char *at = (char *)(detour + 1) + 8 + 2 * sizeof(struct detour_fixup);

	detour->code_bytes = 5;
	detour->fixup_count = 2;
	at = stpcpy(at, text) + 1;
	strcpy(at, return_text);
	return detour;
}

/*
 * Add a function with two arguments and a result to a plan. The caller frees the returned record.
 */
static struct control_detour *add(struct plan *plan, const char *text, const char *return_text,
				  const struct enumeration *second,
				  const struct enumeration *result)
{
	struct control_detour *detour = record(text, return_text);
	struct code_place place = { .field_count = 2, .return_count = 1, .wants_return = 1 };

	place.fields[1].names = second;
	place.fields[2].names = result;
	cr_assert_eq(enumerated_add(&plan->enumerated, &place, detour), 0);
	enumerated_sort(&plan->enumerated);
	return detour;
}

#define TEXT(kind, event) kind "d\nm\n" event "\nm.c\n7\na, b"

static void expect(const struct plan *plans, const char *text, unsigned int field, const char *name)
{
	const struct enumeration *names[CODE_FIELDS_MAX];

	enumerated_find(plans, text, names);
	for (unsigned int i = 0; i < CODE_FIELDS_MAX; i++)
		if (i != field)
			cr_assert_null(names[i], "%s: %u", text, i);
	cr_assert_eq(!!names[field], !!name, "%s", text);
	if (name)
		cr_assert_str_eq(enumeration_name(names[field], 1), name);
}

Test(enumerated, find_event_returns_names_of_its_place)
{
	struct plan plan = { .name = m };
	struct control_detour *first = add(&plan, TEXT("b", "f"), TEXT("e", "f"), make(1, "A"),
					   make(1, "R"));
	struct control_detour *second = add(&plan, TEXT("b", "e"), TEXT("e", "e"), make(1, "B"),
					    NULL);
	struct control_detour *third = add(&plan, TEXT("b", "g"), TEXT("e", "g"), NULL, NULL);

	cr_assert_eq(plan.enumerated.count, 3);
	expect(&plan, TEXT("b", "f"), 1, "A");
	expect(&plan, TEXT("e", "f"), 0, "R");
	expect(&plan, TEXT("b", "e"), 1, "B");
	expect(&plan, TEXT("e", "e"), 0, NULL);
	expect(&plan, TEXT("b", "g"), 0, NULL);
	expect(&plan, "bd\nn\nf\nm.c\n7\na, b", 0, NULL);
	expect(&plan, "b", 0, NULL);
	expect(&plan, "", 0, NULL);
	expect(NULL, TEXT("b", "f"), 0, NULL);
	enumerated_release(&plan.enumerated);
	free(first);
	free(second);
	free(third);
	enumeration_pool_release(&pool);
}

Test(enumerated, find_plans_that_disagree_returns_no_name)
{
	struct plan old = { .name = m }, other = { .name = mm, .next = &old };
	struct plan new = { .name = m, .next = &other };
	struct control_detour *all[] = {
		add(&old, TEXT("b", "same"), TEXT("e", "same"), make(1, "A"), NULL),
		add(&new, TEXT("b", "same"), TEXT("e", "same"), make(1, "A"), NULL),
		add(&old, TEXT("b", "renamed"), TEXT("e", "renamed"), make(1, "A"), make(1, "R")),
		add(&new, TEXT("b", "renamed"), TEXT("e", "renamed"), make(1, "B"), make(1, "R")),
		add(&old, TEXT("b", "gone"), TEXT("e", "gone"), make(1, "A"), NULL),
		add(&new, TEXT("b", "came"), TEXT("e", "came"), make(1, "A"), NULL),
	};

	expect(&new, TEXT("b", "same"), 1, "A");
	expect(&new, TEXT("b", "renamed"), 0, NULL);
	expect(&new, TEXT("e", "renamed"), 0, "R");
	expect(&new, TEXT("b", "gone"), 0, NULL);
	expect(&new, TEXT("b", "came"), 0, NULL);
	enumerated_release(&old.enumerated);
	enumerated_release(&new.enumerated);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
	enumeration_pool_release(&pool);
}

Test(enumerated, find_places_that_disagree_returns_no_name)
{
	struct plan plan = { .name = m };
	struct control_detour *all[3];

	for (unsigned int i = 0; i < 3; i++)
		all[i] = add(&plan, TEXT("b", "f"), TEXT("e", "f"), make(1, i == 1 ? "A" : "B"),
			     make(1, "R"));
	expect(&plan, TEXT("b", "f"), 0, NULL);
	expect(&plan, TEXT("e", "f"), 0, "R");
	enumerated_release(&plan.enumerated);
	for (unsigned int i = 0; i < 3; i++)
		free(all[i]);
	enumeration_pool_release(&pool);
}

Test(enumerated, find_row_of_sums_returns_names_of_its_values)
{
	struct plan plan = { .name = m };
	struct control_detour *detour = record(TEXT("m", "f"), "");
	struct code_sums sums = { .count = 3,
				  .is_wanted = 1,
				  .fields = { { .name = "tid", .as = SUM_BY },
					      { .name = "arg2", .as = SUM_BY },
					      { .name = "b", .as = SUM_SUM } } };
	struct code_place place = { .field_count = 2,
				    .sums = &sums,
				    .sum_fields = { UINT8_MAX, 1, 1 } };

	place.fields[1].names = make(1, "A");
	cr_assert_eq(enumerated_add(&plan.enumerated, &place, detour), 0);
	sums.count = 2;
	cr_assert_eq(enumerated_add(&plan.enumerated, &place, detour), 0);
	enumerated_sort(&plan.enumerated);
	expect(&plan, "sd\nm\nf\nm.c\n7\ntid,arg2,count,sum_b", 1, "A");
	expect(&plan, "sd\nm\nf\nm.c\n7\ntid,arg2,count", 1, "A");
	expect(&plan, "sd\nm\nf\nm.c\n7\narg2,count", 0, NULL);
	expect(&plan, TEXT("m", "f"), 0, NULL);
	enumerated_release(&plan.enumerated);
	free(detour);
	enumeration_pool_release(&pool);
}
