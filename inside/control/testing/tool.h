/* SPDX-License-Identifier: MIT */
/*
 * A tool of tests' own: launches target programs with the agent preloaded, and speaks abi/control.h
 * by hand. WAYMARK_TEST_AGENT and WAYMARK_TEST_TARGET say where the two are.
 */
#ifndef INSIDE_CONTROL_TESTING_TOOL_H
#define INSIDE_CONTROL_TESTING_TOOL_H

#include "abi/control.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tool {
	char path[64];
	int listening;
	pid_t pid;
	int out; /* what the target prints */
};

struct peer {
	int fd;
	uint32_t serial;
	int memfd;
	int is_gone; /* nothing can be sent any more */
	struct control_hello hello;
	struct control_inherited inherited;
	uint32_t last_id; /* of an event */
	unsigned int events, refused, markers, modules, gone, files, late;
	uint64_t last_base, last_came_ns; /* of the last module that came or went */
	char last_event[4096], last_refused[4096];
	struct control_refused refusal;
};

extern struct tool tool;

/* Before and after each test. */
void tool_begin(void);
void tool_end(void);

/* Start the target; wait for a connection and its HELLO; for the target's end. */
void tool_launch(const char *mode, const char *more);
struct peer tool_meet(void);
int tool_exit_status(void);

/* How often the target's threads have slept, in total. Grows while one naps in a loop. */
uint64_t tool_sleeps(void);

/* Read until the answer to `serial`, or the next message if it is 0. -EPIPE at the end. */
int peer_read_until(struct peer *peer, uint32_t serial, struct control_done *done);

/* Send a message; with its answer, or without waiting for one. */
struct control_done peer_request(struct peer *peer, uint16_t type, const void *body, size_t bytes);
void peer_say(struct peer *peer, uint16_t type, const void *body, size_t bytes);

struct control_done peer_open(struct peer *peer, const char *path);
struct control_done peer_rules(struct peer *peer, uint16_t type, const char *glob, uint32_t strict);

/* All events in the store's pages, by the agent's own count. */
uint64_t peer_recorded(const struct peer *peer);

#endif
