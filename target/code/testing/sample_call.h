/* SPDX-License-Identifier: MIT */
/* For tests: where values are at a function's first instruction, by the compiler's own calls. */
#ifndef TARGET_CODE_TESTING_SAMPLE_CALL_H
#define TARGET_CODE_TESTING_SAMPLE_CALL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SAMPLE_STACK 256

struct sample_call {
	uint64_t registers[16]; /* in DWARF's order */
	double vectors[8][2];
	uint8_t stack[SAMPLE_STACK]; /* from %rsp on */
};

extern struct sample_call sample_call;
extern void *sample_target;

/* Called in place of the target: takes all down and jumps there. */
void sample_capture(void);

/* Functions of both languages called in this way, one by one, and done() after each. */
typedef void sample_done(void *function, const char *linkage_name);
void sample_calls_c(sample_done *done);
void sample_calls_cxx(sample_done *done);

#ifdef __cplusplus
}
#endif
#endif
