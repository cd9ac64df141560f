/* SPDX-License-Identifier: MIT */
/* waymark coverage: what it says, in two forms. */
#ifndef CLI_COVERAGE_H
#define CLI_COVERAGE_H

#include "base/out.h"
#include "read/history/lines.h"

#include <stddef.h>
#include <stdint.h>

/* How many there are, and how many of them ran. */
struct coverage_part {
	uint64_t total, hit;
};

struct coverage_source {
	const struct lines_source *source;
	char *path; /* its path here, or the path in the debug information */
	struct coverage_part lines, branches, functions; /* a conditional jump is two branches */
};

struct coverage {
	struct coverage_source *sources;
	size_t count, room;
};

/* Sum up a source's lines, jumps and functions. */
void coverage_sum(struct coverage_source *source);

/* As lcov's tracefile: geninfo(1). Errors are the writer's. */
void coverage_put_lcov(struct out *out, const struct coverage *coverage);

/* A table; or one JSON object. 0 or a negative error of writing. */
int coverage_print(struct out *out, const struct coverage *coverage, int json);

#endif
