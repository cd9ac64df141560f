/* SPDX-License-Identifier: MIT */
/* A machine of files, and of calls that answer what they are told to; its perf_event_open(2) follows the kernel's own rules. */
#ifndef SESSION_DOCTOR_BED_TEST_H
#define SESSION_DOCTOR_BED_TEST_H

#include "session/doctor/look.h"
#include "session/doctor/launched.h"

extern struct bed {
	char root[64];
	struct machine machine;
	struct finding_list list;
	/* of perf_event_open(2) */
	int perf_error; /* what it always says; 0: what follows */
	int level, has_capability, has_sigtrap, has_counters;
	int registers; /* that can be had */
	int ring;
	int open, held; /* descriptors; of them, breakpoints */
	/* what is answered */
	int dumpable, tsc, sync_core, by_mem, by_mprotect, plain, writable, child, stranger;
	int others, granted, memfd;
	const char *holders;
	size_t claims, damaged; /* in the ledger */
	int claims_error;
	struct launched launched, recorded;
} bed;

/* A machine on which all can be had by an ordinary user; and its end. */
void bed_make(void);
void bed_end(void);

void bed_put(const char *path, const char *text);
void bed_remove(const char *path);
void bed_link(const char *path, const char *to);
void bed_self(const char *capabilities, int seccomp);
void bed_limits(const char *memlock, const char *files, const char *addresses, const char *size);
void bed_cpu(const char *flags);

/* kernel.perf_event_paranoid, the file and the rule. */
void bed_level(int level);

/* Look anew. */
void bed_look(look_fn *look);

/* That finding of the last look has that state, and those words among what was found, and among what would change it; "" is none there. */
void bed_expect(const char *name, enum finding_state state, const char *found, const char *change);

#endif
