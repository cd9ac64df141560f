// SPDX-License-Identifier: MIT
// Exceptions through frames with and without something to clean up: caught, thrown again, and
// out of a noexcept(false) destructor.
#include "program.h"

#include <stdexcept>

ATTACHED;
EXPECT("twice cleaned caught thrown_on left");

struct Guard {
	ONCE ~Guard()
	{
		PASS(cleaned);
	}
};

static volatile int deep = 2;

static ONCE void fall(int level)
{
	if (!level)
		throw std::runtime_error("out");
	fall(level - 1);
	__asm__ volatile("");
}

static ONCE void guarded()
{
	Guard guard;
	fall(deep);
}

static ONCE int attempt(bool on)
{
	try {
		guarded();
	} catch (const std::exception &error) {
		PASS(caught);
		if (on)
			throw;
		return 1;
	}
	return 0;
}

int main()
{
	int result = attempt(false); // what is read once is read before
	begin();
	PASS(twice);
	try {
		attempt(true);
	} catch (...) {
		PASS(thrown_on);
		result++;
	}
	PASS(left);
	leave(result != 2);
}
