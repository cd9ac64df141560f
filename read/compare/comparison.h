/* SPDX-License-Identifier: MIT */
/*
 * The differences of two traces, before and after a change of the program: spans that take longer
 * or less long, and events that are more or less frequent.
 *
 * Calls of one run are not independent: neighbours share a warm cache, a noisy machine, a phase of
 * the program. So a test that counts each call (Mann-Whitney, Kolmogorov-Smirnov) takes any two
 * runs for different once they are long enough. Each recording is cut into SUMMARY_SLICES slices
 * instead, and the variance of a mean is that of sums over slices (batch means: Conway, Management
 * Science 10, 1963), estimated by differences of neighbours, so that phases and trends do not
 * count as noise (von Neumann, Annals of Mathematical Statistics 12, 1941). It is never below the
 * variance that independent calls would have, by the span's histogram. Two means are compared by
 * Welch's t (Biometrika 34, 1947), whose p is taken by Wallace's approximation (Annals of
 * Mathematical Statistics 30, 1959) and multiplied by the number of tests (Bonferroni).
 *
 * Of a span's length we compare the mean of the logarithms, which is what it takes typically, and
 * the mean, which also shows a few calls that take very long. Of an event we compare the rate over
 * the recording and the count, and report what both show: a program that does the same work in
 * another time has other rates, and a longer recording has larger counts.
 *
 * What it does not see: noise that lasts longer than a slice, or is the same in all of a run (the
 * layout of memory, the processor's frequency, another program). Two runs of one program show how
 * large that is.
 */
#ifndef READ_COMPARE_COMPARISON_H
#define READ_COMPARE_COMPARISON_H

#include "read/pass/summary.h"

#include <stddef.h>

#define COMPARE_CALLS_MIN 20   /* in each trace; of fewer nothing is said */
#define COMPARE_RATIO_MIN 1.05 /* a smaller difference is no change */
#define COMPARE_P_MAX 0.01     /* of all tests together */

enum compared_change {
	COMPARED_SAME, /* no significant change */
	COMPARED_FEW,  /* too few calls */
	COMPARED_MORE, /* longer, or more frequent */
	COMPARED_LESS,
	COMPARED_MORE_AT_TIMES, /* a few spans are longer; most are not */
	COMPARED_LESS_AT_TIMES,
	COMPARED_NEW, /* only after */
	COMPARED_GONE,
};

/* A span or an event of one name. */
struct compared {
	const char *name;
	const struct summary_span *spans[2]; /* before and after; NULL: it has none, or an event */
	const struct summary_event *events[2];
	enum compared_change change;
	/* after by before: of the typical length, or of what rate and count show; 0: unknown */
	double ratio, low, high; /* the latter two with a confidence of 99 % */
	double p;		 /* that so much comes by chance, in one of all tests */
	/* a change of the mean, in ns, for each span after; or of the rate, in events a second */
	double added;
};

struct comparison {
	struct compared *spans, *events; /* what changed most first, by added; then the others */
	size_t span_count, event_count;
	size_t spans_changed, events_changed;
};

/*
 * Both of summary_make_sliced(), and they must outlive it. 0 or -ENOMEM; release in any case.
 */
int comparison_make(struct comparison *comparison, const struct summary *before,
		    const struct summary *after);
void comparison_release(struct comparison *comparison);

#endif
