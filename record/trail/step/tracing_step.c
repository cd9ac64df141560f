/* SPDX-License-Identifier: MIT */
#include "record/trail/tracing.h"

static int step_take_one(struct tracing **tracing, struct trail_sink *sink,
			 const struct tracing_how *how, pid_t pid, int gate, char *detail)
{
	int err = step_take((struct step **)tracing, sink, pid, gate);

	detail[0] = '\0';
	if (!err)
		step_watch((struct step *)*tracing, how->watches);
	return err;
}

static int attach(struct tracing **tracing, struct trail_sink *sink, const struct tracing_how *how,
		  pid_t pid, pid_t only, char *detail)
{
	int err = step_attach((struct step **)tracing, sink, pid, only);

	detail[0] = '\0';
	if (!err)
		step_watch((struct step *)*tracing, how->watches);
	return err;
}

static int run(struct tracing *tracing, unsigned int for_ms)
{
	return step_run((struct step *)tracing, for_ms);
}

static int let_go(struct tracing *tracing, unsigned int for_ms)
{
	return step_let_go((struct step *)tracing, for_ms);
}

static void result(struct tracing *tracing, struct step_result *result, char *detail)
{
	detail[0] = '\0';
	step_result((const struct step *)tracing, result);
}

const struct tracing_calls tracing_step = { step_take_one, attach, run, let_go, NULL, result };
