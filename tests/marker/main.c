/* SPDX-License-Identifier: MIT */
/*
 * Runs every part dormant, armed, dormant, armed; prints what failed. With two arguments, a
 * subsystem and an event, prints instead how many sites that marker has.
 */
#include <stdio.h>

#include "check.h"
#include "inline.h"

int armed;
unsigned int evaluated;

KEEP int once(int value)
{
	evaluated++;
	return value;
}

static void inline_run(void)
{
	int sum;

	arm_reset();
	evaluated = 0;
	sum = inline_a(1) + inline_b(2);
	CHECK(sum == 6);
	CHECK_HITS('m', inlined, both, 4);
	CHECK(evaluated == (armed ? 4U : 0U));
}

static void library_check(void)
{
#ifdef WITH_LIBRARY
	arm_reset();
	CHECK(library_run(5) == 10);
	CHECK_HITS('m', library, run, 1);
	CHECK_HITS('m', library, shared, 2); /* one name in two modules is one marker */
	CHECK(arm_seen('m', "library", "shared")->sites >= 2);
#endif
}

int main(int argc, char **argv)
{
#ifdef WITH_LIBRARY
	const int from_library = 1;
#else
	const int from_library = 0;
#endif

	if (arm_find_all() <= 0) {
		printf("no sites, or a wrong one\n");
		return 1;
	}
	if (argc == 3) {
		printf("%u\n", arm_seen('m', argv[1], argv[2])->sites);
		return 0;
	}
	for (int pass = 0; pass < 4; pass++) {
		armed = pass & 1;
		if (armed)
			arm_all();
		else
			disarm_all();
		fields_run();
		shapes_run();
		inline_run();
#ifdef __cplusplus
		classes_run();
#endif
#ifdef WITH_CXX
		cxx_run();
#endif
		library_check();
		if (from_library)
			WAYMARK(library, shared, once(1));
	}
	return checks_failed != 0;
}
