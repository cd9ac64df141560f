/* SPDX-License-Identifier: MIT */
/*
 * The second half of the watches' sample: names that the first has too, and a type that it only
 * declares.
 */
#include "target/expression/testing/sample_watch.h"

struct sample_other {
	short first;
	long second;
};

struct sample_other sample_other = { 21, 22 };
static volatile int shared = 2;

int sample_count(void)
{
	return shared;
}

int main(void)
{
	return sample_sum() == 0;
}
