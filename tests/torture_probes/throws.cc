/* SPDX-License-Identifier: MIT */
#include "victim.h"

extern "C" int throw_at(int depth);

__attribute__((noipa)) int throw_at(int depth)
{
	if (!depth)
		throw 7;
	return throw_at(depth - 1) + 1; /* no tail call */
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
