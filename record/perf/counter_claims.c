/* SPDX-License-Identifier: MIT */
#include "record/perf/counter_claims.h"

#include "arch/counters.h"
#include "base/number_file.h"
#include "target/claim/limits.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>

#define ANY_HARDWARE PERF_TYPE_HARDWARE /* in a claim: also of caches, and raw codes */

/* That a CPU can count at a time, without a watchdog's; 0: unknown. */
static unsigned int counters_free(void)
{
	unsigned int count = counters_processor();

	return count && number_file_read("/proc/sys/kernel/nmi_watchdog", 0) == 1 ? count - 1
										  : count;
}

static int is_hardware(const struct count_event *event)
{
	return event->type == PERF_TYPE_HARDWARE || event->type == PERF_TYPE_HW_CACHE ||
	       event->type == PERF_TYPE_RAW;
}

/* Target `which` of the request. */
static void target_fill(struct claim *claim, const struct counts_request *request, size_t which)
{
	if (request->scope != COUNTS_CPUS) {
		claim->scope = request->scope == COUNTS_THREADS ? CLAIM_OF_THREAD
								: CLAIM_OF_PROCESS;
		claim->target = request->ids[which];
	} else if (request->cpus && request->cgroup_fd < 0) {
		claim->scope = CLAIM_OF_CPU;
		claim->target = (int32_t)request->cpus[which];
	} else {
		claim->scope = CLAIM_OF_SYSTEM;
	}
}

static void claim_fill(struct claim *claim, const struct counts_request *request, size_t which,
		       const struct count_event *event, const char *what)
{
	*claim = (struct claim){ .resource = CLAIM_COUNTER,
				 .count = 1,
				 .address = is_hardware(event) ? ANY_HARDWARE : event->type };
	target_fill(claim, request, which);
	if (what)
		snprintf(claim->what, sizeof(claim->what), "%s", what);
	else
		snprintf(claim->what, sizeof(claim->what), "count:%.100s", event->name);
}

static int counters_claim(struct counter_claims *claims, const struct claim *all, int is_reserving,
			  struct detail detail)
{
	struct units units = { .most = counters_free(),
			       .cpu = -1,
			       .words = "counters of the processor",
			       .error = -WM_E_PERF_TAKEN };

	/* the kernel has as many software events as are wanted */
	if (!is_reserving || all[0].address != ANY_HARDWARE)
		return limits_claim(claims->ledger, all, claims->count, claims->ids, 0, detail);
	if (all[0].scope == CLAIM_OF_THREAD || all[0].scope == CLAIM_OF_PROCESS)
		units.tid = all[0].target;
	else if (claims->count == 1 && all[0].scope == CLAIM_OF_CPU)
		units.cpu = all[0].target;
	if (all[0].scope == CLAIM_OF_CPU) /* of each */
		units.most *= claims->count;
	return claim_units(claims->ledger, all, claims->count, claims->ids, &units, detail);
}

int counter_claims_take(struct counter_claims *claims, const struct counts_request *request,
			const char *what, int is_reserving, struct detail detail)
{
	size_t targets = request->scope != COUNTS_CPUS		   ? request->id_count
			 : request->cpus && request->cgroup_fd < 0 ? request->cpu_count
								   : 1;
	struct claim *all;
	int err;

	*claims = (struct counter_claims){ .count = targets * request->event_count };
	all = calloc(claims->count, sizeof(*all));
	claims->ids = calloc(claims->count, sizeof(*claims->ids));
	err = all && claims->ids ? ledger_new(&claims->ledger) : -ENOMEM;
	for (size_t i = 0; i < claims->count && !err; i++)
		claim_fill(&all[i], request, i / request->event_count,
			   &request->events[i % request->event_count], what);
	if (!err)
		err = counters_claim(claims, all, is_reserving, detail);
	if (!err)
		ledger_confirm(claims->ledger, claims->ids, claims->count);
	free(all);
	if (err)
		counter_claims_give(claims);
	return err;
}

void counter_claims_give(struct counter_claims *claims)
{
	ledger_free(claims->ledger);
	free(claims->ids);
	*claims = (struct counter_claims){ 0 };
}
