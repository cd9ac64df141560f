/* SPDX-License-Identifier: MIT */
/*
 * A program started with the agent, and the protocol spoken with it by hand: benches and the
 * torture want each request's own answer. One thread.
 */
#ifndef BENCH_TRACED_H
#define BENCH_TRACED_H

#include <stdint.h>
#include <sys/types.h>

#include "abi/control.h"
#include "abi/page.h"
#include "target/process/link.h"
#include "target/process/tool_socket.h"

struct traced {
	struct listener *listener;
	struct link link;
	pid_t pid;
	struct control_hello hello;
	int store_fd;
	struct wm_store *store; /* mapped read-write; NULL until it came */
	uint64_t store_bytes;
	unsigned int markers, refused; /* MARKER and REFUSED messages seen */
};

/*
 * Start argv with the agent (WAYMARK_AGENT says where it is), wait for HELLO, open a store. The
 * program waits for traced_request(GO). 0 or a negative error; traced_release() either way.
 */
int traced_launch(struct traced *traced, char *const argv[], uint64_t buffer_bytes,
		  uint32_t policy);

/* Send a request, wait for its DONE. 0, the answer's error, or what went wrong on the way. */
int traced_request(struct traced *traced, uint16_t type, struct control_done *done);

/* CONTROL_ARM or CONTROL_DISARM with one SUBSYS:EVENT glob; NULL disarms all. */
int traced_rule(struct traced *traced, uint16_t type, const char *glob, uint32_t strict,
		struct control_done *done);

/* Events in the store's pages and events lost, over all its slots. The program must be quiet. */
void traced_count(const struct traced *traced, uint64_t *recorded, uint64_t *discarded);

void traced_release(struct traced *traced);

#endif
