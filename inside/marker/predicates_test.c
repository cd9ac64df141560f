/* SPDX-License-Identifier: MIT */
/* Predicates inside: which a session wants at a marker, and which hits pass. */
#include "base/condition.h"
#include "inside/marker/careful.h"
#include "inside/marker/marker.h"
#include "inside/marker/predicates.h"
#include "inside/store/event_store.h"
#include "inside/store/thread_writer.h"

#include <waymark/error.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct variant variant = {
	.name = "db:query",
	.fields = "id, sql, WM_FIELD(rows, q->n)",
	.types = { WM_TYPE_U64, WM_TYPE_STR, WM_TYPE_I32 },
};
static struct plan_test tests[PLAN_TESTS_MAX];

static struct predicate number(const char *name, uint8_t by, uint64_t value)
{
	struct predicate predicate = { .number = value, .by = by, .forms = PREDICATE_INTEGER };

	strcpy(predicate.name, name);
	return predicate;
}

static struct predicate text(const char *name, uint8_t by, const char *glob)
{
	struct predicate predicate = { .by = by, .forms = PREDICATE_TEXT };

	strcpy(predicate.name, name);
	strcpy(predicate.text, glob);
	return predicate;
}

/* ---- rules ---- */

Test(predicates, specs_of_a_marker_are_alternatives)
{
	struct predicate both[] = { number("rows", WATCH_BY_EQUAL, 0),
				    number("id", WATCH_BY_LESS, 9) };
	struct predicate one = number("id", WATCH_BY_EQUAL, 100);

	cr_assert_eq(predicates_bind(&variant, 1, tests), 0);
	cr_assert_eq(predicates_add(1, "db:query", both, 2, NULL, -1), 0);
	cr_assert_eq(predicates_add(1, "db:*", &one, 1, NULL, -1), 0);
	cr_assert_eq(predicates_add(1, "net:*", &one, 1, NULL, -1), 0);
	cr_assert_eq(predicates_bind(&variant, 1, tests), 3);
	/* the last spec comes first */
	cr_expect_eq(tests[0].offset, 0);
	cr_expect(tests[0].is_last && !tests[1].is_last && tests[2].is_last);
	cr_expect_eq(tests[1].offset, 16);
	cr_expect_eq(tests[1].bytes, 4);
	cr_assert_eq(predicates_bind(&variant, 2, tests), 0);
	cr_assert_eq(predicates_add(1, "*:query", NULL, 0, NULL, -1), 0);
	cr_assert_eq(predicates_bind(&variant, 1, tests), 0, "a spec without any takes all");
	predicates_clear(1);
	cr_assert_eq(predicates_bind(&variant, 1, tests), 0);
}

Test(predicates, marker_without_such_a_field_is_refused)
{
	struct predicate unknown = number("rowz", WATCH_BY_EQUAL, 0);
	struct predicate other = text("rows", WATCH_BY_EQUAL, "a*");
	struct predicate known = number("rows", WATCH_BY_EQUAL, 0);

	predicates_add(1, "db:query", &unknown, 1, NULL, -1);
	cr_expect_eq(predicates_bind(&variant, 1, tests), -WM_E_NO_PARAMETER);
	predicates_clear(1);
	predicates_add(1, "db:query", &other, 1, NULL, -1);
	cr_expect_eq(predicates_bind(&variant, 1, tests), -WM_E_FIELD_TYPE);
	predicates_clear(1);
	for (int i = 0; i < PLAN_TESTS_MAX; i++)
		predicates_add(1, "db:query", &known, 1, NULL, -1);
	cr_expect_eq(predicates_bind(&variant, 1, tests), PLAN_TESTS_MAX);
	predicates_add(1, "db:query", &known, 1, NULL, -1);
	cr_expect_eq(predicates_bind(&variant, 1, tests), -WM_E_EVENT_ROOM);
	predicates_clear(1);
}

/* ---- hits ---- */

struct payload {
	uint64_t id;
	const char *sql;
	int32_t rows;
} __attribute__((packed));

static int holds(const struct predicate *predicates, unsigned int count, int is_careful,
		 const struct payload *payload)
{
	unsigned char bytes[sizeof *payload + 8] = { 0 };
	struct plan plan = { .tests = tests, .is_careful = (uint8_t)is_careful };
	struct plan_consumer consumer = { .lane = 0 };
	static struct writer writer = { .tid = 77, .comm = "worker" };
	int bound;

	predicates_clear(0);
	predicates_add(0, "db:query", predicates, count, NULL, -1);
	bound = predicates_bind(&variant, 0, tests);
	cr_assert_gt(bound, 0);
	consumer.test_count = (uint8_t)bound;
	memcpy(bytes, payload, sizeof *payload);
	return predicates_hold(&writer, &plan, &consumer, bytes);
}

static int holds_one(const struct plan_test *test, uint64_t value)
{
	struct plan plan = { .tests = test };
	struct plan_consumer consumer = { .test_count = 1 };
	static struct writer writer;

	return predicates_hold(&writer, &plan, &consumer, (const unsigned char *)&value);
}

/* A number of a type that a hit takes by its range: the same as its condition says. */
static void expect_as_condition(const struct variant *of, uint64_t operand, int is_hex,
				uint64_t value)
{
	static const uint8_t all[] = { WATCH_BY_EQUAL,	 WATCH_BY_UNEQUAL,
				       WATCH_BY_LESS,	 WATCH_BY_LESS_EQUAL,
				       WATCH_BY_GREATER, WATCH_BY_GREATER_EQUAL,
				       WATCH_BY_BITS };
	unsigned int bytes = field_bytes(of->types[0]);
	uint64_t kept = bytes < 8 ? value & ((UINT64_C(1) << 8 * bytes) - 1) : value;

	for (unsigned int i = 0; i < sizeof all; i++) {
		struct predicate predicate = number("a", all[i], operand);

		predicate.forms |= is_hex ? PREDICATE_HEX : 0;
		predicates_clear(0);
		predicates_add(0, "f:n", &predicate, 1, NULL, -1);
		cr_assert_eq(predicates_bind(of, 0, tests), 1);
		cr_assert_eq(tests[0].is_range, all[i] != WATCH_BY_BITS);
		cr_assert_eq(holds_one(tests, value),
			     condition_holds(&tests[0].condition, 0, kept, bytes, 0),
			     "type %d by %d operand %lx value %lx", of->types[0], all[i], operand,
			     value);
	}
}

Test(predicates, integer_in_a_range_is_what_its_condition_says)
{
	static const uint64_t edges[] = {
		0, 1, INT64_MAX, UINT64_MAX, UINT64_C(1) << 63, UINT64_MAX - 1
	};
	struct variant of = { .name = "f:n", .fields = "a", .types = { WM_TYPE_U8 } };

	for (unsigned int operand = 0; operand < 256; operand += 5)
		for (unsigned int value = 0; value < 256; value++) {
			of.types[0] = WM_TYPE_U8;
			expect_as_condition(&of, operand, 0, value | 0xa5a5a500);
			of.types[0] = WM_TYPE_I8;
			expect_as_condition(&of, operand, 1, value | 0x5a5a5a00);
		}
	for (unsigned int i = 0; i < sizeof edges / sizeof *edges; i++)
		for (unsigned int k = 0; k < sizeof edges / sizeof *edges; k++) {
			of.types[0] = WM_TYPE_U64;
			expect_as_condition(&of, edges[i], 0, edges[k]);
			of.types[0] = WM_TYPE_I64;
			expect_as_condition(&of, edges[i], 1, edges[k]);
		}
}

static void store_make(void)
{
	struct store_options options = { .buffer_bytes = 1 << 20 };
	int fd;

	cr_assert_eq(store_init(), 0);
	cr_assert_eq(store_open(0, &options, &fd), 0);
	close(fd);
}

static uint64_t unreadable(void)
{
	return stores[0].head->unreadable;
}

Test(predicates, all_of_a_spec_must_hold)
{
	struct predicate both[] = { number("rows", WATCH_BY_LESS, 0),
				    text("sql", WATCH_BY_EQUAL, "UPDATE*") };

	store_make();
	cr_expect(holds(both, 2, 0, &(struct payload){ 1, "UPDATE t", -1 }));
	cr_expect_not(holds(both, 2, 0, &(struct payload){ 1, "UPDATE t", 1 }));
	cr_expect_not(holds(both, 2, 0, &(struct payload){ 1, "UPDAT", -1 }));
	cr_expect_not(holds(both, 2, 0, &(struct payload){ 1, NULL, -1 }));
	cr_expect_eq(unreadable(), 0);
}

Test(predicates, text_is_compared_as_far_as_an_event_has_it)
{
	static char sql[2 * FIELD_BYTES_MAX];
	struct predicate ends = text("sql", WATCH_BY_EQUAL, "*ab");
	struct predicate ends_not = text("sql", WATCH_BY_UNEQUAL, "*ab");

	store_make();
	careful_allow(getpid());
	for (int careful = 0; careful < 2; careful++) {
		memset(sql, 'a', sizeof sql - 1);
		sql[FIELD_BYTES_MAX - 1] = 'b';
		cr_expect(holds(&ends, 1, careful, &(struct payload){ 1, sql, 0 }));
		sql[FIELD_BYTES_MAX - 1] = 'a';
		sql[FIELD_BYTES_MAX] = 'b';
		cr_expect_not(holds(&ends, 1, careful, &(struct payload){ 1, sql, 0 }));
		cr_expect(holds(&ends_not, 1, careful, &(struct payload){ 1, sql, 0 }));
	}
	cr_expect_eq(unreadable(), 0);
}

Test(predicates, unreadable_text_holds_for_nothing_and_is_counted)
{
	struct predicate equal = text("sql", WATCH_BY_EQUAL, "*");
	struct predicate unequal = text("sql", WATCH_BY_UNEQUAL, "a");
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	store_make();
	careful_allow(getpid());
	munmap(pages + 4096, 4096);
	memset(pages, 'a', 4096);
	cr_expect_not(holds(&unequal, 1, 1, &(struct payload){ 1, (const char *)8, 0 }));
	cr_expect_eq(unreadable(), 1);
	cr_expect_not(holds(&equal, 1, 1, &(struct payload){ 1, (const char *)8, 0 }));
	cr_expect_eq(unreadable(), 2);
	/* it ends where the memory does, and a byte before */
	cr_expect_not(holds(&unequal, 1, 1, &(struct payload){ 1, pages + 4095, 0 }));
	cr_expect_eq(unreadable(), 3);
	pages[4095] = 0;
	cr_expect(holds(&unequal, 1, 1, &(struct payload){ 1, pages + 4093, 0 }));
	cr_expect_eq(unreadable(), 3);
	/* alternatives: one that holds is enough */
	careful_allow(0);
	cr_expect_not(holds(&equal, 1, 1, &(struct payload){ 1, pages, 0 }));
	cr_expect_eq(unreadable(), 4);
}

Test(predicates, thread_has_a_number_a_name_and_a_cpu)
{
	struct predicate tid = number("tid", WATCH_BY_EQUAL, 77);
	struct predicate comm = text("comm", WATCH_BY_EQUAL, "work*");
	struct predicate cpu = number("cpu", WATCH_BY_EQUAL, 0);
	struct payload payload = { 1, NULL, 0 };
	cpu_set_t one;

	store_make();
	cr_expect(holds(&tid, 1, 0, &payload));
	cr_expect(holds(&comm, 1, 0, &payload));
	tid.number = 78;
	strcpy(comm.text, "main");
	cr_expect_not(holds(&tid, 1, 0, &payload));
	cr_expect_not(holds(&comm, 1, 0, &payload));
	sched_getaffinity(0, sizeof one, &one);
	for (unsigned int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &one))
			continue;
		CPU_ZERO(&one);
		CPU_SET(i, &one);
		cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
		cpu.number = i;
		break;
	}
	cr_expect(holds(&cpu, 1, 0, &payload));
	cpu.number++;
	cr_expect_not(holds(&cpu, 1, 0, &payload));
}
