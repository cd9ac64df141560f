/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for the agent, for tests of marker.h alone: it finds the markers of every module of
 * its own process through their notes, arms the sites by mprotect, and keeps the last payload of
 * each marker. One thread.
 */
#ifndef TESTS_MARKER_ARM_H
#define TESTS_MARKER_ARM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct seen {
	char kind, way;
	char subsys[32], event[32];
	char fields[256];
	uint8_t types[16];
	unsigned int sites; /* copies, the ends of scopes included */
	unsigned int hits;
	size_t bytes; /* of a payload */
	unsigned char payload[256];
};

/* Read every table; returns the number of entries, or -1 with a message where one is wrong. */
int arm_find_all(void);

/* Make every site live, or dormant again. */
void arm_all(void);
void disarm_all(void);

/*
 * The marker's state; where there is no such marker, a state without hits. Hits are counted since
 * the last call of arm_reset().
 */
struct seen *arm_seen(char kind, const char *subsys, const char *event);
void arm_reset(void);

/* Count a failure unless the condition holds. */
void check_at(int ok, const char *what, const char *file, int line);
extern unsigned int checks_failed;
#define CHECK(cond) check_at(!!(cond), #cond, __FILE__, __LINE__)

#ifdef __cplusplus
}
#endif
#endif
