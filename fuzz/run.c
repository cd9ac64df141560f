/* SPDX-License-Identifier: MIT */
#include "fuzz/run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

uint64_t run_random(uint64_t *seed)
{
	uint64_t value = *seed += 0x9e3779b97f4a7c15;

	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
	value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
	return value ^ (value >> 31);
}

size_t run_damage(uint8_t *input, size_t bytes, size_t at, uint64_t *seed)
{
	static const uint64_t odd[] = { 0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, INT64_MAX, ~0ull };

	switch (run_random(seed) % 4) {
	case 0:
		input[at] = (uint8_t)run_random(seed);
		break;
	case 1:
		input[at] ^= (uint8_t)(1u << run_random(seed) % 8);
		break;
	case 2:
		memcpy(input + at, &odd[run_random(seed) % 8], bytes - at < 8 ? bytes - at : 8);
		break;
	default:
		if (run_random(seed) % 8 == 0 && at > 64)
			bytes = at;
	}
	return bytes;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void run_for(double seconds, uint64_t seed, const uint8_t *good, uint8_t *input, size_t bytes,
	     size_t (*change)(uint8_t *input, size_t bytes, uint64_t *seed))
{
	uint64_t runs = 0;

	for (double end = now() + seconds; now() < end; runs++) {
		uint64_t state = seed + runs;

		memcpy(input, good, bytes);
		LLVMFuzzerTestOneInput(input, change(input, bytes, &state));
	}
	printf("%llu inputs from seed %llu\n", (unsigned long long)runs, (unsigned long long)seed);
}
