/* SPDX-License-Identifier: MIT */
/* A program started with the agent, to see whether that works here: sockets, preload, greeting, store. */
#ifndef SESSION_DOCTOR_LAUNCHED_H
#define SESSION_DOCTOR_LAUNCHED_H

#include <stdint.h>

struct launched {
	int error;	 /* 0, or why it did not work: -errno or -WM_E_* */
	uint32_t way;	 /* enum control_way, as the agent found it */
	char words[512]; /* about the error; or "" */
};

/*
 * Start argv[0], a path, which is a program that ends soon and needs no input; what it prints goes nowhere. Takes as long as it
 * runs, seconds where nothing answers; nothing of it is left. Forks; no other thread may be in the middle of something.
 */
void launched_try(struct launched *launched, char *const argv[]);

#endif
