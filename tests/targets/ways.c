/* SPDX-License-Identifier: MIT */
/*
 * Branches that go both ways about as often, in a loop, with calls and returns on either. It prints
 * how often each function was called, for the trail to say the same.
 */
#include <stdint.h>
#include <stdio.h>

#define TURNS 1500000u

static uint32_t counts[5];

static __attribute__((noinline)) uint32_t first(uint32_t value)
{
	counts[0]++;
	return value & 16 ? value * 3 : value + 7;
}

static __attribute__((noinline)) uint32_t second(uint32_t value)
{
	counts[1]++;
	return value & 64 ? first(value) : value ^ 0x55;
}

static __attribute__((noinline)) uint32_t third(uint32_t value)
{
	counts[2]++;
	while (value & 3)
		value = value >> 2;
	return value;
}

static __attribute__((noinline)) uint32_t fourth(uint32_t value)
{
	counts[3]++;
	return value % 5 ? third(value) : second(value);
}

static __attribute__((noinline)) uint32_t fifth(uint32_t value)
{
	counts[4]++;
	return value - 1;
}

int main(void)
{
	static uint32_t (*const calls[4])(uint32_t) = { fifth, first, fifth, third };
	uint32_t state = 1, sum = 0;

	for (uint32_t turn = 0; turn < TURNS; turn++) {
		state = state * 1664525u + 1013904223u;
		if (state >> 31)
			sum += first(state >> 8);
		else if (state >> 30 & 1)
			sum ^= second(state >> 8);
		if (state >> 29 & 1)
			sum += fourth(state >> 7);
		if (state >> 27 & 1)
			sum += calls[state >> 24 & 3](sum >> 4);
	}
	for (unsigned int i = 0; i < 5; i++)
		printf("%s %u\n",
		       (const char *const[]){ "first", "second", "third", "fourth", "fifth" }[i],
		       counts[i]);
	return (int)(sum & 1);
}
