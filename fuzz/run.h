/* SPDX-License-Identifier: MIT */
/* How a fuzzer runs by itself: a good input, changed at random, until the time is over. */
#ifndef FUZZ_RUN_H
#define FUZZ_RUN_H

#include <stddef.h>
#include <stdint.h>

/* What libFuzzer calls, and each fuzzer here defines. */
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes);

/* The next random number of the sequence that a seed gives (splitmix64). */
uint64_t run_random(uint64_t *seed);

/*
 * Change the byte, the bit or the number at input[at], or, now and then, end the input there.
 * Returns its new length.
 */
size_t run_damage(uint8_t *input, size_t bytes, size_t at, uint64_t *seed);

/*
 * Try inputs that `change` makes of copies of good[bytes], which returns each one's length;
 * input[bytes] is room for them. Each is made by a seed of its own, seed and up, so that one can be
 * had again. Says on stdout how many there were.
 */
void run_for(double seconds, uint64_t seed, const uint8_t *good, uint8_t *input, size_t bytes,
	     size_t (*change)(uint8_t *input, size_t bytes, uint64_t *seed));

/* A file's first bytes, no more than there is room for. Returns how many; 0: it can't be read. */
size_t run_load(const char *path, uint8_t *to, size_t room);

#define RUN_INPUT_MAX (1u << 20)

/*
 * What a fuzzer does with its arguments whose good input is made: [SECONDS [SEED]] or FILE... .
 * `make` has room for RUN_INPUT_MAX bytes, and returns how many it took; `change` is as above.
 */
int run_main(int argc, char **argv, size_t (*make)(uint8_t *to),
	     size_t (*change)(uint8_t *input, size_t bytes, uint64_t *seed));

#endif
