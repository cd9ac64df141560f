/* SPDX-License-Identifier: MIT */
/* What a recording by hardware writes into the ledger of claims. */
#include "base/testing/await.h"
#include "target/claim/ledger.h"
#include "target/process/testing/subject.h"
#include "record/trail/tracing.h"
#include "record/trail/testing/hardware_fixture.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(tracing_hardware, .init = fixture_begin, .fini = fixture_end, .timeout = 120);

/* Our claims; *row is the last. */
static size_t claims(struct claim_row *row)
{
	struct claim_list list = { 0 };
	size_t found = 0;

	cr_assert_eq(claim_list_read(&list, geteuid(), 0), 0);
	for (size_t i = 0; i < list.count; i++) {
		if (list.rows[i].owner.pid != getpid())
			continue;
		*row = list.rows[i];
		found++;
	}
	claim_list_release(&list);
	return found;
}

static void claim_of(enum claim_resource resource, struct claim_row *row)
{
	struct claim_list list = { 0 };
	size_t found = 0;

	cr_assert_eq(claim_list_read(&list, geteuid(), 0), 0);
	for (size_t i = 0; i < list.count; i++) {
		if (list.rows[i].owner.pid != getpid() || list.rows[i].claim.resource != resource)
			continue;
		*row = list.rows[i];
		found++;
	}
	claim_list_release(&list);
	cr_assert_eq(found, 1);
}

Test(tracing_hardware, claims_the_unit_for_as_long_as_it_has_it)
{
	char words[TRACING_DETAIL_BYTES];
	struct tracing *tracing;
	struct subject subject;
	struct claim_row row;

	how.origin = ORIGIN_BTS;
	subject_start(&subject, "waits", "poll");
	cr_assert_eq(tracing_hardware.attach(&tracing, &sink.sink, &how, subject.pid, 0, words), 0,
		     "%s", words);
	cr_assert_eq(claims(&row), 3);
	/* it claims the thread's ring and descriptor once it has them */
	cr_assert(AWAIT(tracing_hardware.run(tracing, 50) == 1 && claims(&row) == 3 &&
			row.claim.resource == CLAIM_DESCRIPTORS && row.claim.count == 1));
	claim_of(CLAIM_LOCKED_MEMORY, &row);
	cr_expect_eq(row.claim.scope, CLAIM_OF_USER);
	cr_expect_geq(row.claim.count, UINT64_C(4096) + BUFFER_MIN);
	claim_of(CLAIM_BRANCH_UNIT, &row);
	cr_expect_eq(row.state, CLAIM_HELD);
	cr_expect_eq(row.claim.resource, CLAIM_BRANCH_UNIT);
	cr_expect_eq(row.claim.scope, CLAIM_OF_PROCESS);
	cr_expect_eq(row.claim.target, subject.pid);
	cr_expect_str_eq(row.claim.what, "trail/bts");
	tracing_hardware.let_go(tracing, 100);
	cr_expect_eq(claims(&row), 0);

	/* no claim remains for one that can't be had */
	put("/proc/sys/kernel/perf_event_paranoid", "4\n");
	cr_expect_lt(tracing_hardware.attach(&tracing, &sink.sink, &how, subject.pid, 0, words), 0);
	cr_expect_eq(claims(&row), 0);
	subject_end(&subject);
}
