/* SPDX-License-Identifier: MIT */
/* A trace with samples, made by hand. Its functions are those of perf maps. */
#ifndef READ_HISTORY_TESTING_SAMPLED_H
#define READ_HISTORY_TESTING_SAMPLED_H

extern char sampled_dir[64];

/*
 * Ten samples of sample:cpu-clock and one of fault:page: of prog's thread "worker", of a later
 * program with the same number, and of a process that the trace does not know.
 */
void sampled_make(void);
void sampled_remove(void);

#endif
