/* SPDX-License-Identifier: MIT */
/* What an object writes into the ledger, and whom it names when it is refused. */
#include "record/perf/cpus.h"
#include "record/perf/object.h"
#include "record/perf/testing/fixture.h"
#include "target/claim/holder.h"
#include "target/claim/ledger.h"
#include "target/process/testing/folder.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

TestSuite(event_claims, .init = fixture_need_breakpoints, .timeout = 60);

/* One thread that comes by and stays. */
static void lonely(struct fixture_shared *own)
{
	fixture_catch(own);
	for (unsigned int step = 1; step < 90; step++)
		fixture_meet(own, step);
}

static void ledger_rows(struct claim_list *list)
{
	size_t kept = 0;

	*list = (struct claim_list){ 0 };
	cr_assert_eq(claim_list_read(list, geteuid(), 0), 0);
	for (size_t i = 0; i < list->count; i++)
		if (list->rows[i].owner.pid == getpid())
			list->rows[kept++] = list->rows[i];
	list->count = kept;
}

/* A ledger of the test's own. */
struct ledger_bed {
	char text[512];
	struct detail detail;
	struct ledger *ledger;
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
};

static void ledger_begin(struct ledger_bed *own, enum event_scope scope, pid_t pid,
			 unsigned int count)
{
	*own = (struct ledger_bed){ .detail = { own->text, sizeof(own->text) } };
	folder_make();
	cr_assert_eq(ledger_new(&own->ledger), 0);
	fixture_request(&own->request, own->sources, scope, pid, count);
	own->request.ledger = own->ledger;
}

static void ledger_end(struct ledger_bed *own)
{
	ledger_free(own->ledger);
	folder_remove();
}

Test(event_claims, what_is_taken_is_claimed_and_the_holder_is_named)
{
	struct perf_object *first, *second;
	struct event_source *sources;
	struct claim_list list;
	struct ledger_bed own;
	struct fixture fixture;
	char name[64];

	fixture_start(&fixture, lonely);
	fixture_wait(&fixture, 1);
	ledger_begin(&own, EVENT_PROCESS, fixture.pid, 4);
	sources = own.sources;
	own.request.flags = EVENT_SIGNAL;
	sources[0].what = "watch:counter";
	first = fixture_arm(&own.request);
	ledger_rows(&list);
	cr_assert_eq(list.count, 6);
	cr_assert_eq(list.rows[4].claim.resource, CLAIM_DESCRIPTORS);
	cr_assert_eq(list.rows[4].claim.target, getpid());
	cr_assert_eq(list.rows[4].claim.count, 4);
	cr_assert_eq(list.rows[4].state, CLAIM_HELD);
	cr_assert_eq(list.rows[5].claim.resource, CLAIM_SIGTRAP);
	cr_assert_eq(list.rows[5].claim.target, fixture.pid);
	cr_assert_eq(list.rows[0].state, CLAIM_HELD);
	cr_assert_eq(list.rows[0].claim.target, fixture.pid);
	cr_assert_str_eq(list.rows[0].claim.what, "watch:counter");
	snprintf(name, sizeof(name), "watch:0x%llx/8", (unsigned long long)sources[1].address);
	cr_assert_str_eq(list.rows[1].claim.what, name);
	claim_list_release(&list);

	own.request.source_count = 1;
	sources[0].what = "watch:other";
	cr_assert_eq(perf_object_new(&second, &own.request, own.detail), 0);
	cr_assert_eq(perf_object_arm(second, own.detail), -WM_E_EVENT_TAKEN);
	cr_assert(strstr(own.text, " has 0 free, 1 are wanted; "), "%s", own.text);
	cr_assert(strstr(own.text, "watch:counter"), "%s", own.text);
	cr_assert_not(strstr(own.text, "watch:other"), "%s", own.text);
	ledger_rows(&list);
	cr_assert_eq(list.count, 6, "no claim is left behind");
	claim_list_release(&list);

	sources[0] = perf_object_sources(first)[0];
	sources[1] = perf_object_sources(first)[1];
	sources[0].address += 8;
	cr_assert_eq(perf_object_modify(first, sources, EVENT_MODIFY_RUNNING, NULL, own.detail), 0);
	ledger_rows(&list);
	cr_assert_eq(list.rows[0].claim.address, sources[0].address);
	cr_assert_eq(list.rows[0].claim.scope, CLAIM_OF_PROCESS);
	cr_assert_eq(list.rows[0].claim.target, fixture.pid);
	cr_assert_str_eq(list.rows[0].claim.what, "watch:counter");
	claim_list_release(&list);
	perf_object_disarm(first);
	ledger_rows(&list);
	cr_assert_eq(list.count, 0);
	claim_list_release(&list);
	perf_object_release(first);
	perf_object_release(second);
	ledger_end(&own);
	fixture_end(&fixture);
}

/*
 * Rings stay until they are drained, and so does the claim on their memory. A refusal for lack of
 * memory names the owner.
 */
Test(event_claims, locked_memory_is_claimed_until_the_rings_are_gone)
{
	struct claim_wanted wanted = { CLAIM_LOCKED_MEMORY, 0, -1 };
	struct perf_object *object;
	struct claim_list list;
	struct ledger_bed own;
	unsigned int *cpus;
	struct fixture fixture;
	size_t count;

	/* rings are of those that are offline, too */
	cr_assert_eq(cpus_present(&cpus, &count), 0);
	free(cpus);
	fixture_start(&fixture, lonely);
	fixture_wait(&fixture, 1);
	ledger_begin(&own, EVENT_PROCESS, fixture.pid, 1);
	own.request.flags = EVENT_RINGS;
	own.request.ring_bytes = 16384;
	object = fixture_arm(&own.request);
	ledger_rows(&list);
	cr_assert_eq(list.count, 3);
	cr_assert_eq(list.rows[1].claim.resource, CLAIM_DESCRIPTORS);
	cr_assert_eq(list.rows[1].claim.count, 2 * count, "an event and a ring for each CPU");
	cr_assert_eq(list.rows[2].claim.resource, CLAIM_LOCKED_MEMORY);
	cr_assert_eq(list.rows[2].claim.count, count * (16384 + 4096));
	cr_assert_eq(list.rows[2].claim.scope, CLAIM_OF_USER);
	claim_list_release(&list);
	cr_assert_gt(claim_holder_text(&wanted, own.text, sizeof(own.text)), 0);
	cr_assert(strstr(own.text, " KiB"), "%s", own.text);
	perf_object_disarm(object);
	ledger_rows(&list);
	cr_assert_eq(list.count, 1, "the rings are there still");
	cr_assert_eq(list.rows[0].claim.resource, CLAIM_LOCKED_MEMORY);
	claim_list_release(&list);
	perf_object_release(object);
	ledger_rows(&list);
	cr_assert_eq(list.count, 0);
	claim_list_release(&list);
	ledger_end(&own);
	fixture_end(&fixture);
}

/* Which of the sources' addresses the ledger has for a CPU, a bit each; none twice. */
static unsigned int claimed_on(const struct event_source *sources, unsigned int count, int cpu)
{
	unsigned int found = 0;
	struct claim_list list;

	ledger_rows(&list);
	for (size_t i = 0; i < list.count; i++) {
		const struct claim *claim = &list.rows[i].claim;

		if (claim->scope != CLAIM_OF_CPU || claim->target != cpu)
			continue;
		cr_assert_eq(claim->resource, CLAIM_DEBUG_REGISTER);
		for (unsigned int of = 0; of < count; of++)
			if (claim->address == sources[of].address) {
				cr_assert_eq(found & 1u << of, 0, "CPU %d has it twice", cpu);
				found |= 1u << of;
			}
	}
	claim_list_release(&list);
	return found;
}

/* Opens no events: the ledger's rows suffice, and no other user of the machine is disturbed. */
Test(event_claims, what_is_changed_on_cpus_is_claimed_on_the_same)
{
	const struct event_needs needs = { .descriptors = 4 };
	const unsigned int cpus[] = { 0, 3 };
	struct perf_object *object;
	struct ledger_bed own;

	ledger_begin(&own, EVENT_CPUS, 0, 2);
	own.request.cpus = cpus;
	own.request.cpu_count = 2;
	cr_assert_eq(perf_object_new(&object, &own.request, own.detail), 0);
	cr_assert_eq(object_claims_write(object, &needs, own.detail), 0);
	cr_assert_eq(object_claims_add(object, 7), 0);
	cr_assert_eq(claimed_on(own.sources, 2, 3), 3);
	cr_assert_eq(claimed_on(own.sources, 2, 7), 3);
	for (unsigned int i = 0; i < 2; i++) {
		own.sources[i].address += 32;
		object->sources[i].address = own.sources[i].address;
	}
	object_claims_change(object);
	cr_assert_eq(claimed_on(own.sources, 2, 0), 3);
	cr_assert_eq(claimed_on(own.sources, 2, 3), 3);
	cr_assert_eq(claimed_on(own.sources, 2, 7), 3);
	perf_object_release(object);
	ledger_end(&own);
}

/* The kernel's own accounting: what PTRACE_POKEUSER took is given back with the thread alone. */
Test(event_claims, registers_that_a_debugger_left_are_told)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	char text[512] = "";
	struct detail detail = { text, sizeof(text) };
	size_t at = offsetof(struct user, u_debugreg);
	struct fixture fixture;

	fixture_start(&fixture, lonely);
	fixture_wait(&fixture, 1);
	cr_assert_eq(ptrace(PTRACE_ATTACH, fixture.pid, NULL, NULL), 0);
	cr_assert_eq(waitpid(fixture.pid, NULL, 0), fixture.pid);
	cr_assert_eq(ptrace(PTRACE_POKEUSER, fixture.pid, at, (void *)text), 0);
	cr_assert_eq(ptrace(PTRACE_POKEUSER, fixture.pid, at + 7 * sizeof(long), 0x90001), 0);
	cr_assert_eq(ptrace(PTRACE_POKEUSER, fixture.pid, at + 7 * sizeof(long), 0), 0);
	cr_assert_eq(ptrace(PTRACE_DETACH, fixture.pid, NULL, NULL), 0);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 4);
	request.ledger = NULL;
	cr_assert_eq(perf_object_new(&object, &request, detail), 0);
	cr_assert_eq(perf_object_arm(object, detail), -WM_E_EVENT_TAKEN);
	cr_expect(strstr(text, "has 3 free, 4 are wanted"), "%s", text);
	cr_expect(strstr(text,
			 "1 of them, unless a holder named here has them, were set by a debugger"),
		  "%s", text);
	perf_object_release(object);
	fixture_end(&fixture);
}
