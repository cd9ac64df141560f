/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft.h"
#include "record/trail/tracing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>

struct tracing {
	struct soft *soft;
	pid_t pid;
	int is_let_go;
};

/* Attach at a gate, or to a running process without one. */
static int begin(struct tracing **out, struct trail_sink *sink, const struct tracing_how *how,
		 pid_t pid, const int *gate, char *detail)
{
	const struct soft_options options = { .engine = how->machine.engine,
					      .last_bytes = how->last_bytes,
					      .follows = how->follows };
	struct tracing *tracing = calloc(1, sizeof(*tracing));
	int err;

	*out = NULL;
	detail[0] = '\0';
	if (!tracing)
		return -ENOMEM;
	err = gate ? soft_take(&tracing->soft, sink, &options, pid, *gate, detail,
			       TRACING_DETAIL_BYTES)
		   : soft_attach(&tracing->soft, sink, &options, pid, detail, TRACING_DETAIL_BYTES);
	if (err) {
		free(tracing);
		return err;
	}
	tracing->pid = pid;
	*out = tracing;
	return 0;
}

static int soft_take_one(struct tracing **out, struct trail_sink *sink,
			 const struct tracing_how *how, pid_t pid, int gate, char *detail)
{
	return begin(out, sink, how, pid, &gate, detail);
}

static int attach(struct tracing **out, struct trail_sink *sink, const struct tracing_how *how,
		  pid_t pid, pid_t only, char *detail)
{
	if (!only)
		return begin(out, sink, how, pid, NULL, detail);
	*out = NULL;
	snprintf(detail, TRACING_DETAIL_BYTES, "the engine takes all threads of a program");
	return -WM_E_TRAIL_ASKED;
}

static int run(struct tracing *tracing, unsigned int for_ms)
{
	return soft_run(tracing->soft, for_ms);
}

static int let_go(struct tracing *tracing, unsigned int for_ms)
{
	/* an error is of the sink, which the other end knows of */
	soft_let_go(tracing->soft, for_ms);
	return soft_rid(tracing->soft, tracing->is_let_go++ ? for_ms : 0);
}

static int fetch(struct tracing *tracing)
{
	return soft_fetch(tracing->soft);
}

static void result(struct tracing *tracing, struct tracing_result *result, char *detail)
{
	struct soft_result from;

	soft_result(tracing->soft, &from);
	*result = (struct tracing_result){ .blocks = from.blocks,
					   .words = from.words,
					   .overwritten = from.overwritten,
					   .unfollowed = from.unfollowed,
					   .privileged = from.privileged,
					   .natives = from.natives,
					   .is_foreign = from.is_foreign };
	if (from.is_over)
		tracing_ended(result, from.killed_tid ? from.killed_tid : tracing->pid,
			      from.status);
	snprintf(detail, TRACING_DETAIL_BYTES, "%s", from.detail);
}

const struct tracing_calls tracing_soft = { soft_take_one, attach, run, let_go, fetch, result };
