/* SPDX-License-Identifier: MIT */
#include "record/trail/hardware/hardware.h"
#include "record/trail/tracing.h"
#include "target/claim/holder.h"
#include "target/claim/ledger.h"
#include "target/claim/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define HOLDER_BYTES 256

/* The unit; what its buffers take. */
enum { CLAIM_UNIT, CLAIM_MEMORY, CLAIM_FILES, CLAIMS };

struct tracing {
	struct hardware *hardware;
	pid_t pid;
	struct ledger *ledger; /* NULL: nothing is claimed */
	uint64_t claims[CLAIMS];
	struct claim claimed[CLAIMS];
};

/*
 * Before the unit is asked for. In the process that will have it, which others could not name
 * otherwise.
 */
static void claim_all(struct tracing *tracing, enum origin origin)
{
	struct claim *claims = tracing->claimed;

	claims[CLAIM_UNIT] = (struct claim){ .resource = CLAIM_BRANCH_UNIT,
					     .scope = CLAIM_OF_PROCESS,
					     .target = tracing->pid,
					     .count = 1 };
	/* the amount is unknown before the threads are found */
	claims[CLAIM_MEMORY] = (struct claim){ .resource = CLAIM_LOCKED_MEMORY,
					       .scope = CLAIM_OF_USER,
					       .target = (int32_t)geteuid() };
	claims[CLAIM_FILES] = (struct claim){ .resource = CLAIM_DESCRIPTORS,
					      .scope = CLAIM_OF_PROCESS,
					      .target = getpid() };
	for (size_t i = 0; i < CLAIMS; i++)
		snprintf(claims[i].what, sizeof(claims[i].what), "trail/%s", origin_name(origin));
	if (!ledger_new(&tracing->ledger))
		ledger_claim(tracing->ledger, claims, CLAIMS, tracing->claims);
}

static void claim_again(struct tracing *tracing, unsigned int which, uint64_t count)
{
	if (tracing->claimed[which].count == count)
		return;
	tracing->claimed[which].count = count;
	ledger_change(tracing->ledger, tracing->claims[which], &tracing->claimed[which]);
}

/* What the threads that there are now take. */
static void claim_buffers(struct tracing *tracing)
{
	uint64_t bytes, descriptors;

	if (!tracing->ledger)
		return;
	hardware_holds(tracing->hardware, &bytes, &descriptors);
	claim_again(tracing, CLAIM_MEMORY, bytes);
	claim_again(tracing, CLAIM_FILES, descriptors);
}

/* For want of locked memory: who has it. */
static void name_holder(int err, char *detail)
{
	struct claim_wanted wanted = { CLAIM_LOCKED_MEMORY, 0, -1 };
	char holders[HOLDER_BYTES];
	size_t used = strnlen(detail, TRACING_DETAIL_BYTES);

	if (err == -WM_E_MEMORY_LIMIT && !used)
		used = (size_t)snprintf(detail, TRACING_DETAIL_BYTES,
					"the kernel lets this user lock no more");
	if (err != -WM_E_MEMORY_LIMIT || used + 2 >= TRACING_DETAIL_BYTES ||
	    !claim_holder_text(&wanted, holders, sizeof(holders)))
		return;
	snprintf(detail + used, TRACING_DETAIL_BYTES - used, "%s%s", used ? "; " : "", holders);
}

static void tracing_release(struct tracing *tracing)
{
	hardware_close(tracing->hardware);
	ledger_free(tracing->ledger);
	free(tracing);
}

/* gate -1: attach. */
static int begin(struct tracing **out, struct trail_sink *sink, const struct tracing_how *how,
		 pid_t pid, int gate, pid_t only, char *detail)
{
	const struct hardware_options options = { .machine = how->machine,
						  .has_kernel = how->has_kernel };
	struct tracing *tracing = calloc(1, sizeof(*tracing));
	struct hardware_result result;
	int err;

	*out = NULL;
	detail[0] = '\0';
	if (!tracing)
		return -ENOMEM;
	tracing->pid = pid;
	claim_all(tracing, how->origin);
	err = gate < 0 ? hardware_attach(&tracing->hardware, sink, how->origin, &options, pid, only,
					 detail, TRACING_DETAIL_BYTES)
		       : hardware_take(&tracing->hardware, sink, how->origin, &options, pid, gate,
				       detail, TRACING_DETAIL_BYTES);
	if (err) {
		tracing_release(tracing);
		name_holder(err, detail);
		return err;
	}
	if (tracing->ledger)
		ledger_confirm(tracing->ledger, tracing->claims, CLAIMS);
	claim_buffers(tracing);
	err = limits_check(CLAIM_LOCKED_MEMORY, (struct detail){ detail, TRACING_DETAIL_BYTES });
	if (err) {
		tracing_release(tracing);
		return err;
	}
	hardware_result(tracing->hardware, &result);
	snprintf(detail, TRACING_DETAIL_BYTES, "%s", result.detail);
	*out = tracing;
	return 0;
}

static int take_launched(struct tracing **out, struct trail_sink *sink,
			 const struct tracing_how *how, pid_t pid, int gate, char *detail)
{
	return begin(out, sink, how, pid, gate, 0, detail);
}

static int attach_running(struct tracing **out, struct trail_sink *sink,
			  const struct tracing_how *how, pid_t pid, pid_t only, char *detail)
{
	return begin(out, sink, how, pid, -1, only, detail);
}

static int run(struct tracing *tracing, unsigned int for_ms)
{
	int err = hardware_run(tracing->hardware, for_ms);

	claim_buffers(tracing);
	return err;
}

static int let_go(struct tracing *tracing, unsigned int for_ms)
{
	(void)for_ms;
	/* an error is of the sink, which the other end knows of */
	hardware_let_go(tracing->hardware);
	ledger_free(tracing->ledger);
	tracing->ledger = NULL;
	return 0;
}

static void result(struct tracing *tracing, struct tracing_result *result, char *detail)
{
	struct hardware_result from;

	hardware_result(tracing->hardware, &from);
	*result = (struct tracing_result){ .blocks = from.blocks };
	if (from.is_over)
		tracing_ended(result, tracing->pid, from.status);
	snprintf(detail, TRACING_DETAIL_BYTES, "%s", from.detail);
}

const struct tracing_calls tracing_hardware = { take_launched, attach_running, run,
						let_go,	       NULL,	       result };
