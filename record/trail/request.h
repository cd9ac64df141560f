/* SPDX-License-Identifier: MIT */
/*
 * The request for a trail:
 *
 *	trail[/OPTIONS/]
 *
 * OPTIONS are divided by commas:
 *
 *	auto		the best origin that works here; the default
 *	step, soft, pt	this origin and no other (record/trail/origin.h)
 *	last=SIZE	a flight recorder: the newest SIZE of memory for each process; 64K, 64M, 1G
 *	only=NAME,...	only code of these modules (record/trail/only.h): names follow until one is
 *			another option
 *	kernel		what runs in the kernel too; pt and bts only
 */
#ifndef RECORD_TRAIL_REQUEST_H
#define RECORD_TRAIL_REQUEST_H

#include "record/trail/only.h"
#include "record/trail/origin.h"
#include "target/process/target.h"

#include <stdint.h>

#define TRAIL_LAST_MIN (UINT64_C(64) << 10)
#define TRAIL_LAST_MAX (UINT64_C(64) << 30)

struct trail_request {
	int is_auto;		/* then origin is not said */
	enum origin origin;	/* else */
	uint64_t last_bytes;	/* 0: all of it */
	struct only_names only; /* none: all */
	int has_kernel;
};

/*
 * Whether a spec is one of these, right or wrong: "trail", and what begins so up to a slash or
 * colon.
 */
int trail_request_is(const char *text);

/*
 * Read a spec. 0; or -WM_E_SPEC: the words then name the option that is wrong, and what was meant
 * or what there is.
 */
int trail_request_parse(struct trail_request *request, const char *text, struct detail words);

#endif
