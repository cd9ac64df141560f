/* SPDX-License-Identifier: MIT */
#include "fuzz/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t run_random(uint64_t *seed)
{
	uint64_t value = *seed += 0x9e3779b97f4a7c15;

	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
	value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
	return value ^ (value >> 31);
}

size_t run_damage(uint8_t *input, size_t bytes, size_t at, uint64_t *seed)
{
	static const uint64_t odd[] = { 0, 1, 0x7f, 0xff, INT32_MAX, UINT32_MAX, INT64_MAX, ~0ull };

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

size_t run_load(const char *path, uint8_t *to, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t count = fd < 0 ? -1 : read(fd, to, room);

	if (fd >= 0)
		close(fd);
	return count < 0 ? 0 : (size_t)count;
}

int run_main(int argc, char **argv, size_t (*make)(uint8_t *to),
	     size_t (*change)(uint8_t *input, size_t bytes, uint64_t *seed))
{
	static uint8_t good[RUN_INPUT_MAX], input[RUN_INPUT_MAX];
	double seconds = argc > 1 ? atof(argv[1]) : 3;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	if (argc > 1 && seconds <= 0) {
		for (int i = 1; i < argc; i++)
			LLVMFuzzerTestOneInput(input, run_load(argv[i], input, sizeof(input)));
		return 0;
	}
	run_for(seconds, seed, good, input, make(good), change);
	return 0;
}
