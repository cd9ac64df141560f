/* SPDX-License-Identifier: MIT */
/*
 * What the driver and its victim share, a page of a file that both map.
 *
 * Each marker of the victim has a field made by count_hit(), which is evaluated only while the
 * marker is armed: so `emitted` counts exactly the hits that went into the agent. What the agent
 * says, recorded and discarded, must add up to that, except for two kinds of hits:
 *
 *   stray     a site was disarmed while a thread was between the site and the agent: it
 *             finds nothing to do there. At most one for each thread and signal handler on it for
 *             each disarming; none where all threads were parked before the disarming.
 *   doubtful  a signal handler left by siglongjmp in the middle of the hit below it: the hit may
 *             have been recorded or not. The victim counts them.
 */
#ifndef TESTS_TORTURE_SHARED_H
#define TESTS_TORTURE_SHARED_H

#include <stdint.h>

#define WORKERS 4
#define CHURNERS 3 /* fork, dlopen, threads */
#define PARTIES (WORKERS + CHURNERS)
#define HITS_AT_ONCE (3 * (PARTIES + 1)) /* each thread, with two handlers on it */
#define CHECK_FACTOR 1000003u

struct torture {
	uint32_t ready;	 /* victim: all threads run */
	uint32_t stop;	 /* driver: end */
	uint32_t pause;	 /* driver: park, all of you */
	uint32_t parked; /* victim: how many are */
	uint32_t jumps_allowed;
	uint32_t reserved[3];
	uint64_t emitted;
	uint64_t doubtful;
	uint64_t passes, signals, jumps, forks, loads, threads; /* what went on, for the summary */
};

#endif
