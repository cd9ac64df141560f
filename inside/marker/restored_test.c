/* SPDX-License-Identifier: MIT */
/* Other tools' bytes on armed sites. Nobody hits a marker while one is there. */
#include "inside/marker/marker.h"

#include "abi/site.h"
#include "inside/marker/linkmap.h"
#include "inside/marker/testing/fixture.h"
#include "inside/runtime/lock.h"

#include <waymark/error.h>
#include <waymark/marker.h>

#include <criterion/criterion.h>
#include <string.h>

#define BREAKPOINT 0xcc
#define TOLD_MAX 8

static struct text text = { .fd = -1 };

static struct access_decode {
	uint32_t id;
	uint64_t begin_ns, end_ns;
} reported[TOLD_MAX];
static unsigned int told_count;

void restored_markers(int a);
void restored_markers(int a)
{
	WAYMARK(restored, one, a);
	WAYMARK(restored, two, a);
	WAYMARK(restored, two, a);
}

static void hear_event(unsigned int lane, uint32_t id, const struct variant *variant)
{
	(void)lane, (void)id, (void)variant;
}

static void hear_refused(unsigned int lane, const struct refusal *refusal)
{
	(void)lane, (void)refusal;
}

static void hear_module(const struct module *module, int gone)
{
	(void)module, (void)gone;
}

static uint32_t flush(void)
{
	return 0;
}

static void hear_held(unsigned int lane, uint32_t id, uint64_t begin_ns, uint64_t end_ns)
{
	cr_assert_eq(lane, 0);
	cr_assert_lt(told_count, TOLD_MAX);
	reported[told_count++] = (struct access_decode){ id, begin_ns, end_ns };
}

static const struct registry_listener listener = { hear_event, hear_refused, hear_module, flush,
						   hear_held };

static const struct variant *arm(const char *name)
{
	struct change change = { .lane = -1 };
	const struct variant *variant;

	fixture_make(UINT64_C(8) << 20, STORE_DISCARD);
	cr_assert_eq(text_open(&text), 0);
	cr_assert_eq(linkmap_init(&text), 0);
	cr_assert_eq(registry_scan(&text), 0);
	registry_listen(&listener);
	registry_lane_open(0);
	cr_assert_eq(registry_rule(&text, 0, name, 1, 1, &change), 0);
	variant = registry_first();
	while (variant && strcmp(variant->name, name))
		variant = variant->next;
	cr_assert(variant);
	cr_assert_eq(change.sites, variant->site_count);
	return variant;
}

static uint8_t byte_of(const struct site *site)
{
	return *(volatile uint8_t *)site->address;
}

static void put(const struct site *site, uint8_t byte)
{
	cr_assert_eq(text_write_code(&text, site->address, &byte, 1, site->prot), 0);
}

static void look(void)
{
	restored_look(&text);
}

/* The marker is missing since a moment; then, until another. */
static void expect_missing(unsigned int count, uint64_t since_ns)
{
	cr_assert_eq(told_count, count);
	cr_assert_geq(reported[0].begin_ns, since_ns);
	cr_assert_eq(reported[0].end_ns, 0);
	if (count < 2)
		return;
	cr_assert_eq(reported[1].id, reported[0].id);
	cr_assert_eq(reported[1].begin_ns, reported[0].begin_ns);
	cr_assert_geq(reported[1].end_ns, reported[1].begin_ns);
}

Test(restored, site_that_a_uprobe_left_dormant_is_armed_again)
{
	const struct variant *one = arm("restored:one");
	uint64_t since_ns;

	cr_assert(restored_any());
	since_ns = lock_now_ns();
	look();
	cr_assert_eq(told_count, 0);
	put(one->sites, SITE_DORMANT);
	look();
	cr_assert_eq(byte_of(one->sites), SITE_ARMED);
	expect_missing(2, since_ns);
}

Test(restored, breakpoint_stays_until_its_owner_removes_it)
{
	const struct variant *one = arm("restored:one");
	uint64_t since_ns = lock_now_ns();

	look();
	put(one->sites, BREAKPOINT);
	look();
	look();
	cr_assert_eq(byte_of(one->sites), BREAKPOINT);
	expect_missing(1, since_ns);
	put(one->sites, SITE_DORMANT);
	look();
	cr_assert_eq(byte_of(one->sites), SITE_ARMED);
	expect_missing(2, since_ns);
}

Test(restored, debugger_that_restores_our_byte_ends_what_is_missing)
{
	const struct variant *one = arm("restored:one");
	uint64_t since_ns = lock_now_ns();

	look();
	put(one->sites, BREAKPOINT);
	look();
	put(one->sites, SITE_ARMED);
	look();
	expect_missing(2, since_ns);
	look();
	cr_assert_eq(told_count, 2);
}

Test(restored, marker_is_missing_while_any_of_its_sites_is)
{
	const struct variant *two = arm("restored:two");
	struct site *first = two->sites, *second = first->next;
	uint64_t since_ns = lock_now_ns();

	cr_assert(second);
	look();
	put(first, BREAKPOINT);
	put(second, BREAKPOINT);
	look();
	expect_missing(1, since_ns);
	put(first, SITE_DORMANT);
	look();
	cr_assert_eq(byte_of(first), SITE_ARMED);
	expect_missing(1, since_ns);
	put(second, SITE_DORMANT);
	look();
	expect_missing(2, since_ns);
}

Test(restored, disarmed_site_is_left_alone)
{
	const struct variant *one = arm("restored:one");
	struct change change = { .lane = -1 };

	cr_assert_eq(registry_rule(&text, 0, "restored:one", 1, 0, &change), 0);
	cr_assert_eq(byte_of(one->sites), SITE_DORMANT);
	look();
	cr_assert_eq(byte_of(one->sites), SITE_DORMANT);
	cr_assert_eq(told_count, 0);
	cr_assert_not(restored_any());
}

static void change_rule(int arm)
{
	struct change change = { .lane = -1 };

	cr_assert_eq(registry_rule(&text, 0, "restored:one", 1, arm, &change), 0);
}

Test(restored, missing_does_not_begin_before_arming)
{
	const struct variant *one = arm("restored:one");
	uint64_t since_ns;

	look();
	change_rule(0);
	since_ns = lock_now_ns();
	change_rule(1);
	put(one->sites, BREAKPOINT);
	look();
	expect_missing(1, since_ns);
}
