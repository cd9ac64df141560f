/* SPDX-License-Identifier: MIT */
/* What the benches share: pinning, a clock, medians, and the line of a figure. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#define MEASURE_RUNS_MAX 64

/* CLOCK_MONOTONIC. */
uint64_t measure_ns(void);

/* The calling thread's CPU time: what others do on a busy machine stays out of it. */
uint64_t measure_cpu_ns(void);

/* Pin the calling thread to the nth of the CPUs that the process may use; 0, or -errno. */
int measure_pin(unsigned int nth);
unsigned int measure_cpus(void);

/* The middle of count values, which are sorted. */
double measure_median(double *values, size_t count);

/* How often to repeat: WAYMARK_BENCH_RUNS, else `usual`; at most MEASURE_RUNS_MAX. */
unsigned int measure_runs(unsigned int usual);

/* How long each run is to be, of 1.0: WAYMARK_BENCH_SCALE, for a quick look. */
double measure_scale(void);

/* figure NAME VALUE UNIT */
void measure_print(const char *name, double value, const char *unit);

#endif
