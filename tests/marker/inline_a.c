/* SPDX-License-Identifier: MIT */
#include "inline.h"

int inline_a(int value)
{
	int (*volatile far_call)(int) = inline_both; /* an out-of-line copy */

	return inline_both(value) + far_call(value) - value - (value > 1);
}
