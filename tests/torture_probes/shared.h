/* SPDX-License-Identifier: MIT */
/*
 * What the driver and its victim share, a page of a file that both map.
 *
 * The victim's functions point_*() and its USDT probe torture:point are passed through
 * count_entry() and count_return(), whether or not they are probed. While all threads are parked
 * the driver arms and disarms; so what was emitted in between is known to the event, and must be
 * recorded or discarded. In the racing ways, where code changes under running threads, at most that
 * much may be recorded.
 */
#ifndef TESTS_TORTURE_PROBES_SHARED_H
#define TESTS_TORTURE_PROBES_SHARED_H

#include <stdint.h>

#define WORKERS 4
#define CHURNERS 4 /* fork, spawn, dlopen, threads */
#define PARTIES (WORKERS + CHURNERS)
#define CHECK_FACTOR 1000003u

struct torture {
	uint32_t ready;	 /* victim: all threads run */
	uint32_t stop;	 /* driver: end */
	uint32_t pause;	 /* driver: park, all of you */
	uint32_t parked; /* victim: how many are */
	uint32_t jumps_allowed;
	uint32_t reserved;
	uint64_t entries, returns, sites; /* of point_*(), of the USDT probe */
	uint64_t passes, signals, jumps, forks, spawns, loads, threads,
		throws; /* for the summary */
};

#endif
