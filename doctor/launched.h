/* SPDX-License-Identifier: MIT */
/* Start a program with the agent, or under the engine, to see whether that works. */
#ifndef DOCTOR_LAUNCHED_H
#define DOCTOR_LAUNCHED_H

#include <stdint.h>

struct launched {
	int error;	   /* 0, -errno or -WM_E_* */
	uint32_t way;	   /* with the agent: enum control_way, which it reported */
	uint64_t branches; /* under the engine: how many were recorded */
	char words[512];   /* about the error, or "" */
};

/*
 * Start argv[0], a path to a program that ends soon and needs no input; its output is discarded.
 * Takes as long as the program runs, or seconds where it does not answer, and leaves no process.
 * Both fork, so no other thread may hold a lock.
 */

/* With the agent, until the agent has answered. */
void launched_try(struct launched *launched, char *const argv[]);

/* Under trail/soft/, to its end. */
void launched_record(struct launched *launched, char *const argv[]);

#endif
