/* SPDX-License-Identifier: MIT */
/* A program started with the agent, or under the engine, to see whether that works here. */
#ifndef SESSION_DOCTOR_LAUNCHED_H
#define SESSION_DOCTOR_LAUNCHED_H

#include <stdint.h>

struct launched {
	int error;	   /* 0, or why it did not work: -errno or -WM_E_* */
	uint32_t way;	   /* with the agent: enum control_way, as it found it */
	uint64_t branches; /* under the engine: that were recorded */
	char words[512];   /* about the error; or "" */
};

/*
 * Start argv[0], a path, which is a program that ends soon and needs no input; what it prints goes nowhere. Takes as long as it
 * runs, seconds where nothing answers; nothing of it is left. Forks; no other thread may be in the middle of something.
 */
void launched_try(struct launched *launched,
		  char *const argv[]); /* sockets, preload, greeting, store */
void launched_record(struct launched *launched,
		     char *const argv[]); /* trail/soft/, up to its end */

#endif
