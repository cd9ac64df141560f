/* SPDX-License-Identifier: MIT */
#include "victim.h"

extern "C" int throw_at(int depth);

__attribute__((noinline)) int throw_at(int depth)
{
	if (!depth)
		throw 7;
	depth = throw_at(depth - 1);
	__asm__ volatile("" : "+r"(depth)); /* no tail call, no loop */
	return depth;
}

int throws_pass(int depth)
{
	try {
		throw_at(depth);
	} catch (int number) {
		if (number != 7)
			victim_fail("another exception came");
		return depth;
	}
	victim_fail("an exception was lost");
}
