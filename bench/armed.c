/* SPDX-License-Identifier: MIT */
/*
 * Runs a program with its markers bench:* armed and recorded into a ring that no reader drains
 * (cyclic policy, 4 MiB).
 *
 *	armed PROGRAM [ARGUMENT]...
 *
 * The program's standard output is ours. Prints `raw recorded N` and `raw discarded N` at the end.
 */
#include <stdio.h>
#include <sys/wait.h>

#include "bench/traced.h"
#include <waymark/error.h>

static int fail(const char *what, int err)
{
	fprintf(stderr, "armed: %s: %s\n", what, wm_error_text(err));
	return 1;
}

int main(int argc, char **argv)
{
	struct control_done done;
	struct traced traced;
	uint64_t recorded, discarded;
	int err, status;

	if (argc < 2)
		return 2;
	err = traced_launch(&traced, argv + 1, 4 << 20, STORE_CYCLIC);
	if (err)
		return fail("launch", err);
	err = traced_rule(&traced, CONTROL_ARM, "bench:*", 0, &done);
	if (err || !done.sites)
		return fail("arm", err);
	err = traced_request(&traced, CONTROL_GO, NULL);
	if (err)
		return fail("go", err);
	if (waitpid(traced.pid, &status, 0) < 0 || status)
		return fail("the program failed", 0);
	traced_count(&traced, &recorded, &discarded);
	printf("raw recorded %llu\nraw discarded %llu\n", (unsigned long long)recorded,
	       (unsigned long long)discarded);
	traced_release(&traced);
	return 0;
}
