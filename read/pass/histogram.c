/* SPDX-License-Identifier: MIT */
#include "read/pass/summary.h"

#define STEPS (1u << HISTOGRAM_STEP_BITS)

static uint32_t bucket_of(uint64_t value)
{
	unsigned int shift;

	if (value < STEPS)
		return (uint32_t)value;
	shift = 63 - (unsigned int)__builtin_clzll(value) - HISTOGRAM_STEP_BITS;
	/* The leading bit of value >> shift counts one row, so rows begin at 1. */
	return (shift << HISTOGRAM_STEP_BITS) + (uint32_t)(value >> shift);
}

static uint64_t bucket_start(uint32_t bucket)
{
	uint32_t row = bucket >> HISTOGRAM_STEP_BITS;

	if (row < 2)
		return bucket;
	return (uint64_t)(bucket - ((row - 1) << HISTOGRAM_STEP_BITS)) << (row - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
	if (!histogram->count || value < histogram->min)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->count++;
	histogram->buckets[bucket_of(value)]++;
}

uint64_t histogram_quantile(const struct histogram *histogram, double part)
{
	uint64_t rank, below = 0, value;
	uint32_t bucket = 0;

	if (!histogram->count)
		return 0;
	rank = (uint64_t)((double)histogram->count * part);
	if (!rank)
		return histogram->min;
	if (rank >= histogram->count - 1)
		return histogram->max;
	while (below + histogram->buckets[bucket] <= rank)
		below += histogram->buckets[bucket++];
	/* The middle of the bucket, but no value that never was. */
	value = bucket_start(bucket);
	value += (bucket_start(bucket + 1) - value) / 2;
	if (value < histogram->min)
		value = histogram->min;
	return value > histogram->max ? histogram->max : value;
}

uint64_t histogram_between(const struct histogram *histogram, uint64_t low, uint64_t high)
{
	uint64_t count = 0;

	for (uint32_t bucket = bucket_of(low); bucket < HISTOGRAM_BUCKETS; bucket++) {
		uint64_t start = bucket_start(bucket);

		if (start >= high)
			break;
		if (start >= low)
			count += histogram->buckets[bucket];
	}
	return count;
}
