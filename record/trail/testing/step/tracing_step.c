/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/step/step.h"

static int step_take_one(struct tracing **tracing, struct trail_sink *sink,
			 const struct tracing_how *how, pid_t pid, int gate, char *detail)
{
	(void)how;
	detail[0] = '\0';
	return step_take((struct step **)tracing, sink, pid, gate);
}

static int attach(struct tracing **tracing, struct trail_sink *sink, const struct tracing_how *how,
		  pid_t pid, pid_t only, char *detail)
{
	(void)how;
	detail[0] = '\0';
	return step_attach((struct step **)tracing, sink, pid, only);
}

static int run(struct tracing *tracing, unsigned int for_ms)
{
	return step_run((struct step *)tracing, for_ms);
}

static int let_go(struct tracing *tracing, unsigned int for_ms)
{
	return step_let_go((struct step *)tracing, for_ms);
}

static void result(struct tracing *tracing, struct tracing_result *result, char *detail)
{
	detail[0] = '\0';
	step_result((const struct step *)tracing, result);
}

static const struct tracing_calls calls = { step_take_one, attach, run, let_go, NULL, result };

/* The program that has this file has the oracle among its origins. */
__attribute__((constructor)) static void oracle_register(void)
{
	tracing_oracle = &calls;
}
