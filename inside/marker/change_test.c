/* SPDX-License-Identifier: MIT */
/*
 * Breakpoints come on sites while a change is carried out. Only a test with a uprobe may hit a
 * marker: at any other breakpoint the program would end.
 */
#include "inside/marker/marker.h"

#include "abi/site.h"
#include "inside/marker/linkmap.h"
#include "inside/marker/rule.h"
#include "inside/marker/testing/fixture.h"

#include <waymark/error.h>
#include <waymark/marker.h>
#include <waymark/probe.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BREAKPOINT 0xcc

static struct text text = { .fd = -1 };
static const struct variant *held; /* its first site gets a breakpoint between check and store */
static unsigned int refusals;
static struct refusal last;

void change_markers(int a);
void change_markers(int a)
{
	WAYMARK(change, one, a);
	WAYMARK(change, two, a);
	WAYMARK(change, two, a);
	WAYMARK(change, other, a);
	WAYMARK(change, other, WM_FIELD(b, a + 1));
}

static uint8_t byte_of(const struct site *site)
{
	return *(volatile uint8_t *)site->address;
}

static void put(const struct site *site, uint8_t byte)
{
	cr_assert_eq(text_write_code(&text, site->address, &byte, 1, site->prot), 0);
}

static void hear_event(unsigned int lane, uint32_t id, const struct variant *variant)
{
	(void)lane, (void)id, (void)variant;
}

static void hear_refused(unsigned int lane, const struct refusal *refusal)
{
	(void)lane;
	refusals++;
	last = *refusal;
}

static unsigned int modules_gone;

static void hear_module(const struct module *module, int gone)
{
	(void)module;
	modules_gone += gone != 0;
}

static uint32_t hold(void)
{
	if (held)
		put(held->sites, BREAKPOINT);
	return 0;
}

static void hear_held(unsigned int lane, uint32_t id, uint64_t begin_ns, uint64_t end_ns)
{
	(void)lane, (void)id, (void)begin_ns, (void)end_ns;
}

static const struct registry_listener listener = { hear_event, hear_refused, hear_module, hold,
						   hear_held };

static void begin(void)
{
	fixture_make(UINT64_C(8) << 20, STORE_DISCARD);
	cr_assert_eq(text_open(&text), 0);
	cr_assert_eq(linkmap_init(&text), 0);
	cr_assert_eq(registry_scan(&text), 0);
	registry_listen(&listener);
	registry_lane_open(0);
}

static const struct variant *find(const char *name)
{
	const struct variant *variant = registry_first();

	while (variant && strcmp(variant->name, name))
		variant = variant->next;
	cr_assert(variant);
	return variant;
}

static struct change rule(const char *name, int want)
{
	struct change change = { .lane = -1 };

	cr_assert_eq(registry_rule(&text, 0, name, 1, want, &change), 0);
	return change;
}

static void never(void)
{
}

static void count_call(void (*fn)(void), void *data, const unsigned char *payload)
{
	(void)fn, (void)payload;
	++*(int *)data;
}

TestSuite(change, .init = begin);

/* The linker has all that allocate call this one. */
static unsigned int allocations_left = UINT_MAX;

void *__real_heap_alloc(size_t bytes);
void *__wrap_heap_alloc(size_t bytes);
void *__wrap_heap_alloc(size_t bytes)
{
	return allocations_left && allocations_left-- ? __real_heap_alloc(bytes) : NULL;
}

Test(change, marker_without_memory_for_its_change_is_refused)
{
	const struct variant *two = find("change:two");
	unsigned int refused = 0;
	int error;

	for (unsigned int most = 0; !two->lanes; most++) {
		struct change change = { .lane = -1 };

		rule_clear(0); /* else its memory is there the next time */
		refusals = 0;
		allocations_left = most;
		error = registry_rule(&text, 0, "change:two", 1, 1, &change);
		allocations_left = UINT_MAX;
		if (!error && !two->lanes) {
			cr_assert_eq(refusals, 1, "with %u allocations", most);
			cr_assert_eq(last.error, -ENOMEM);
			cr_assert_eq(change.refused, two->site_count);
			refused++;
		}
	}
	cr_assert_gt(refused, 0);
}

/* The sessions that hits of it reach. */
static uint32_t lanes_planned(const struct variant *variant)
{
	const struct plan *plan = variant->hit.plan;
	uint32_t lanes = 0;

	for (unsigned int i = 0; plan && i < plan->consumer_count; i++)
		lanes |= 1u << plan->consumers[i].lane;
	return lanes;
}

/* Two sessions have it, and one leaves with so many allocations. Whether the other keeps it. */
static int leave(const struct variant *variant, unsigned int allocations)
{
	struct change change = { .lane = -1 };

	for (unsigned int lane = 0; lane < 2; lane++)
		cr_assert_eq(registry_rule(&text, lane, variant->name, 1, 1, &change), 0);
	cr_assert_eq(lanes_planned(variant), 3);
	refusals = 0;
	allocations_left = allocations;
	registry_rule(&text, 0, NULL, 0, 0, &change);
	allocations_left = UINT_MAX;
	cr_expect_eq(lanes_planned(variant) & 1, 0, "with %u allocations", allocations);
	cr_expect_eq(lanes_planned(variant), variant->lanes);
	cr_expect_eq(refusals, !variant->lanes);
	return variant->lanes == 2;
}

Test(change, session_that_leaves_without_memory_is_in_no_plan)
{
	static const uint8_t types[16] = { WM_TYPE_I32 };
	const struct variant *two = find("change:two");
	unsigned int most = 0, lost = 0;
	int calls = 0;
	const struct plan_probe probe = { .call = count_call, .fn = never, .data = &calls };

	fixture_store(1, UINT64_C(8) << 20, STORE_DISCARD);
	registry_lane_open(1);
	while (!leave(two, most++)) {
		lost++;
		cr_expect_eq(registry_retry(&text), 0);
		cr_expect_eq(byte_of(two->sites), SITE_DORMANT);
	}
	cr_assert_gt(lost, 0);
	cr_assert_eq(registry_probe_add(&text, "change:two", 'm', types, &probe, 0), 0);
	leave(two, 0);
	cr_assert_eq(registry_retry(&text), 0);
	change_markers(1);
	cr_assert_eq(calls, 2, "the program's own handler is called again");
}

Test(change, module_without_memory_for_it_is_not_taken_for_read)
{
	struct module *module = (struct module *)registry_modules();
	unsigned int most = 0;
	int error;

	while (module && module->next) /* the program */
		module = module->next;
	cr_assert(module && module->site_count && module->build_id_bytes);
	module->build_id[0] ^= 1;
	do {
		allocations_left = most++;
		error = registry_scan(&text);
		allocations_left = UINT_MAX;
		cr_assert(!error || error == -ENOMEM);
	} while (error);
	cr_assert_gt(most, 1);
	for (module = (struct module *)registry_modules(); module && !module->error;)
		module = module->next;
	cr_assert(find("change:two")->sites || (module && module->error == -ENOMEM));
}

static void expect_told(int error, uint8_t expected, uint8_t found)
{
	cr_assert_eq(refusals, 1);
	cr_assert_eq(last.error, error);
	cr_assert_eq(last.expected[0], expected);
	cr_assert_eq(last.found[0], found);
}

Test(change, scan_finds_another_build_at_the_same_place)
{
	struct module *module = (struct module *)registry_modules();

	while (module && (module->site_count || !module->build_id_bytes))
		module = module->next;
	cr_assert(module);
	cr_assert_eq(registry_scan(&text), 0);
	cr_assert_eq(modules_gone, 0);
	module->build_id[0] ^= 1;
	cr_assert_eq(registry_scan(&text), 0);
	cr_assert_eq(modules_gone, 1);
}

Test(change, marker_whose_only_site_changes_after_check_is_refused)
{
	const struct variant *one = held = find("change:one");
	struct change change = rule("change:one", 1);

	cr_assert(change.markers == 0 && change.sites == 0 && change.refused == 1);
	expect_told(-WM_E_SITE_CHANGED, SITE_DORMANT, BREAKPOINT);
	cr_assert_eq(byte_of(one->sites), BREAKPOINT);
	cr_assert(!one->lanes && !one->hit.plan);
	held = NULL;
	put(one->sites, SITE_DORMANT);
	change = rule("change:one", 1);
	cr_assert(change.markers == 1 && change.sites == 1 && change.refused == 0);
	cr_assert_eq(byte_of(one->sites), SITE_ARMED);
}

Test(change, site_that_changes_after_check_is_left_out_alone)
{
	const struct variant *two = held = find("change:two");
	struct change change = rule("change:two", 1);

	cr_assert(change.markers == 1 && change.sites == 1 && change.refused == 1);
	expect_told(-WM_E_SITE_CHANGED, SITE_DORMANT, BREAKPOINT);
	cr_assert_eq(byte_of(two->sites), BREAKPOINT);
	cr_assert_eq(byte_of(two->sites->next), SITE_ARMED);
	put(two->sites, SITE_DORMANT);
	change = rule("change:two", 0);
	cr_assert(change.sites == 1 && change.refused == 0);
	cr_assert_eq(byte_of(two->sites->next), SITE_DORMANT);
}

static void call_never(void (*fn)(void), void *data, const unsigned char *payload)
{
	(void)fn, (void)data, (void)payload;
}

Test(change, probe_at_a_site_that_changes_after_check_is_refused)
{
	static const uint8_t types[16] = { WM_TYPE_I32 };
	const struct plan_probe probe = { .call = call_never, .fn = never };
	const struct variant *one = held = find("change:one");

	cr_assert_eq(registry_probe_add(&text, "change:one", 'm', types, &probe, 0),
		     -WM_E_SITE_CHANGED);
	cr_assert(!one->probe_count && !one->hit.plan);
	cr_assert_eq(byte_of(one->sites), BREAKPOINT);
}

Test(change, probe_is_called_at_sites_of_all_field_names)
{
	static const uint8_t types[16] = { WM_TYPE_I32 };
	int calls = 0;
	const struct plan_probe probe = { .call = count_call, .fn = never, .data = &calls };

	cr_assert_eq(registry_probe_add(&text, "change:other", 'm', types, &probe, 0), 0);
	change_markers(1);
	cr_assert_eq(calls, 2);
	cr_assert_eq(registry_probe_remove(&text, "change:other", 'm', &probe), 0);
	change_markers(1);
	cr_assert_eq(calls, 2);
	cr_assert_eq(registry_probe_remove(&text, "change:other", 'm', &probe), -ENOENT);
}

Test(change, site_held_by_a_breakpoint_is_disarmed_later)
{
	const struct variant *one = find("change:one");
	struct change change;

	cr_assert_eq(rule("change:one", 1).sites, 1);
	put(one->sites, BREAKPOINT);
	change = rule("change:one", 0);
	cr_assert(change.sites == 0 && change.refused == 1);
	expect_told(-WM_E_SITE_CHANGED, SITE_ARMED, BREAKPOINT);
	cr_assert_eq(byte_of(one->sites), BREAKPOINT);
	cr_assert_null(one->hit.plan,
		       "once its owner removes the breakpoint, the jump is harmless");
	cr_assert_eq(registry_retry(&text), 1);
	put(one->sites, SITE_ARMED);
	cr_assert_eq(registry_retry(&text), 0);
	cr_assert_eq(byte_of(one->sites), SITE_DORMANT);
	cr_assert_eq(refusals, 1, "a retry is not reported");
}

/* A uprobe that came and went has left the file's byte. */
Test(change, armed_site_that_became_dormant_is_reported)
{
	const struct variant *one = find("change:one");

	rule("change:one", 1);
	put(one->sites, SITE_DORMANT);
	cr_assert_eq(rule("change:one", 0).refused, 1);
	expect_told(-WM_E_SITE_RESTORED, SITE_ARMED, SITE_DORMANT);
	cr_assert_eq(registry_retry(&text), 0);
}

Test(change, new_session_arms_a_site_that_became_dormant)
{
	const struct variant *one = find("change:one");

	rule("change:one", 1);
	put(one->sites, BREAKPOINT);
	rule("change:one", 0);
	put(one->sites, SITE_DORMANT);
	rule("change:one", 1);
	cr_assert_eq(byte_of(one->sites), SITE_ARMED);
	put(one->sites, SITE_DORMANT);
	fixture_store(1, UINT64_C(8) << 20, STORE_DISCARD);
	registry_lane_open(1);
	cr_assert_eq(registry_rule(&text, 1, "change:one", 1, 1, &(struct change){ .lane = -1 }),
		     0);
	cr_assert_eq(byte_of(one->sites), SITE_ARMED);
}

Test(change, new_session_needs_no_write_where_all_sites_are_armed)
{
	struct change change = { .lane = -1 };

	rule("change:one", 1);
	fixture_store(1, UINT64_C(8) << 20, STORE_DISCARD);
	registry_lane_open(1);
	text_limit_way(WAY_NONE); /* as where text is locked after it was armed in advance */
	cr_assert_eq(registry_rule(&text, 1, "change:one", 1, 1, &change), 0);
	cr_assert(change.markers == 1 && change.sites == 0 && change.refused == 0);
}

/* Where in its file a byte of this program is. */
static uint64_t offset_in_file(uintptr_t address)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, offset;
	char line[512];

	cr_assert(maps);
	while (fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 &&
		    address >= start && address < end) {
			fclose(maps);
			return offset + (address - start);
		}
	}
	cr_assert_fail("no mapping has the site");
	return 0;
}

/* Set the kernel's breakpoint in this process alone; -1: not here. */
static int uprobe_open(uintptr_t address)
{
	struct perf_event_attr attr = { .size = sizeof attr,
					.config1 = (uintptr_t) "/proc/self/exe",
					.config2 = offset_in_file(address) };
	FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
	long fd = -1;

	if (type && fscanf(type, "%u", &attr.type) == 1)
		fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (type)
		fclose(type);
	return (int)fd;
}

/* Remove it; its hits. */
static uint64_t uprobe_close(int fd)
{
	uint64_t hits = 0;

	cr_assert_eq(read(fd, &hits, sizeof hits), (ssize_t)sizeof hits);
	close(fd);
	return hits;
}

static int uprobe_at(const struct site *site)
{
	void (*volatile function)(void) = never;
	int fd = uprobe_open((uintptr_t)never);

	if (fd < 0)
		cr_skip_test("the kernel gives no uprobe here");
	function();
	if (uprobe_close(fd) != 1)
		cr_skip_test("a uprobe counts no hit on this machine");
	fd = uprobe_open(site->address);
	cr_assert_geq(fd, 0);
	cr_assert_eq(byte_of(site), BREAKPOINT);
	return fd;
}

Test(change, uprobe_at_a_dormant_site_stays_when_the_site_is_armed)
{
	const struct variant *one = find("change:one");
	int uprobe = uprobe_at(one->sites);

	cr_assert_eq(rule("change:one", 1).refused, 1);
	expect_told(-WM_E_SITE_CHANGED, SITE_DORMANT, BREAKPOINT);
	change_markers(1);
	cr_assert_eq(uprobe_close(uprobe), 1);
	cr_assert_eq(byte_of(one->sites), SITE_DORMANT);
	cr_assert_eq(rule("change:one", 1).sites, 1);
	change_markers(1);
}

/* The kernel runs the file's instruction, the dormant one, and restores its byte at the end. */
Test(change, uprobe_at_an_armed_site_leaves_it_dormant)
{
	const struct variant *one = find("change:one");
	int uprobe;

	cr_assert_eq(rule("change:one", 1).sites, 1);
	uprobe = uprobe_at(one->sites);
	change_markers(1);
	cr_assert_eq(rule("change:one", 0).refused, 1);
	expect_told(-WM_E_SITE_CHANGED, SITE_ARMED, BREAKPOINT);
	change_markers(1);
	cr_assert_eq(registry_retry(&text), 1);
	cr_assert_eq(uprobe_close(uprobe), 2);
	cr_assert_eq(byte_of(one->sites), SITE_DORMANT);
	cr_assert_eq(registry_retry(&text), 0);
	cr_assert_eq(rule("change:one", 1).sites, 1);
	change_markers(1);
}

Test(change, failed_batch_leaves_new_session_out_of_live_marker)
{
	struct text broken = text;
	struct change change = { .lane = 1 };
	const struct variant *live = find("change:two"), *dormant = find("change:one");

	fixture_store(1, UINT64_C(8) << 20, STORE_DISCARD);
	registry_lane_open(1);
	cr_assert_eq(rule("change:two", 1).markers, 1);
	broken.fd = open("/proc/thread-self/mem", O_RDONLY | O_CLOEXEC); /* reads alone */
	broken.is_mem = 1;
	cr_expect_lt(registry_rule(&broken, 1, "change:*", 1, 1, &change), 0);
	cr_expect_eq(change.markers, 0, "%u", change.markers);
	cr_expect_eq(live->lanes, 1);
	cr_expect_eq(live->lanes_next, 1);
	cr_expect_eq(live->hit.plan->consumer_count, 1);
	cr_expect_eq(dormant->lanes, 0);
	cr_expect_null(dormant->hit.plan);
}
