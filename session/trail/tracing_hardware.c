/* SPDX-License-Identifier: MIT */
#include "session/claim/ledger.h"
#include "session/trail/hardware.h"
#include "session/trail/tracing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct tracing {
	struct hardware *hardware;
	pid_t pid;
	struct ledger *ledger; /* NULL: the unit is not claimed */
	uint64_t claim;
};

static const uint32_t units[ORIGINS] = {
	[ORIGIN_PT] = CLAIM_UNIT_PT,
	[ORIGIN_BTS] = CLAIM_UNIT_BTS,
	[ORIGIN_BRANCHES] = CLAIM_UNIT_BTS,
	[ORIGIN_LBR] = CLAIM_UNIT_LBR,
};

/* Before the unit is asked for. In the process that will have it, which others could not name otherwise. */
static void claim_unit(struct tracing *tracing, enum origin origin)
{
	struct claim claim = { .resource = CLAIM_BRANCH_UNIT,
			       .scope = CLAIM_OF_PROCESS,
			       .target = tracing->pid,
			       .flags = units[origin],
			       .count = 1 };

	snprintf(claim.what, sizeof(claim.what), "trail/%s", origin_name(origin));
	if (!ledger_new(&tracing->ledger))
		ledger_claim(tracing->ledger, &claim, 1, &tracing->claim);
}

static struct tracing *tracing_new(pid_t pid, enum origin origin)
{
	struct tracing *tracing = calloc(1, sizeof(*tracing));

	if (!tracing)
		return NULL;
	tracing->pid = pid;
	claim_unit(tracing, origin);
	return tracing;
}

/* What came of beginning. */
static int begun(struct tracing **out, struct tracing *tracing, int err, char *detail)
{
	struct hardware_result result;

	*out = err ? NULL : tracing;
	if (err) {
		if (tracing)
			ledger_free(tracing->ledger);
		free(tracing);
		return err;
	}
	if (tracing->ledger)
		ledger_confirm(tracing->ledger, &tracing->claim, 1);
	hardware_result(tracing->hardware, &result);
	snprintf(detail, TRACING_DETAIL_BYTES, "%s", result.detail);
	return err;
}

static struct hardware_options options_of(const struct tracing_how *how)
{
	return (struct hardware_options){ .machine = how->machine,
					  .has_kernel = how->has_kernel,
					  .sample_freq = how->sample_freq,
					  .sample_period = how->sample_period };
}

static int take(struct tracing **out, struct trail_sink *sink, const struct tracing_how *how,
		pid_t pid, int gate, char *detail)
{
	struct hardware_options options = options_of(how);
	struct tracing *tracing = tracing_new(pid, how->origin);

	detail[0] = '\0';
	return begun(out, tracing,
		     tracing ? hardware_take(&tracing->hardware, sink, how->origin, &options, pid,
					     gate, detail, TRACING_DETAIL_BYTES)
			     : -ENOMEM,
		     detail);
}

static int attach(struct tracing **out, struct trail_sink *sink, const struct tracing_how *how,
		  pid_t pid, pid_t only, char *detail)
{
	struct hardware_options options = options_of(how);
	struct tracing *tracing;

	detail[0] = '\0';
	tracing = tracing_new(pid, how->origin);
	return begun(out, tracing,
		     tracing ? hardware_attach(&tracing->hardware, sink, how->origin, &options, pid,
					       only, detail, TRACING_DETAIL_BYTES)
			     : -ENOMEM,
		     detail);
}

static int run(struct tracing *tracing, unsigned int for_ms)
{
	return hardware_run(tracing->hardware, for_ms);
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

static void result(struct tracing *tracing, struct step_result *result, char *detail)
{
	struct hardware_result from;

	hardware_result(tracing->hardware, &from);
	*result = (struct step_result){ .blocks = from.blocks };
	if (from.is_over)
		tracing_ended(result, tracing->pid, from.status);
	snprintf(detail, TRACING_DETAIL_BYTES, "%s", from.detail);
}

const struct tracing_calls tracing_hardware = { take, attach, run, let_go, result };
