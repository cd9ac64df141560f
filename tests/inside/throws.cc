/* SPDX-License-Identifier: MIT */
/* C++ exceptions out of a marker's argument, past scopes, and through functions with markers. */
#include "inside.h"

#include <stdexcept>
#include <string>

static int thrower(int i)
{
	/* not counted: the event never comes to be */
	if (i % 3 == 0)
		throw std::runtime_error("argument");
	count_one();
	return i;
}

static int deep(int depth)
{
	/* its end is an event of its own, if it began while armed */
	WAYMARK_SCOPE(in, scope, (count_one(), count_one()), depth);
	if (!depth)
		throw std::string("bottom");
	return deep(depth - 1) + 1;
}

static int run_throws()
{
	int caught = 0;

	for (int i = 0; i < 300; i++) {
		try {
			WAYMARK(in, thrown, thrower(i), "text");
		} catch (const std::runtime_error &) {
			caught++;
		}
		try {
			deep(10);
		} catch (const std::string &) {
			caught++;
		}
		hits(2);
	}
	return caught == 400 || caught == 300 ? 3 : 1;
}

static const struct inside_case cases[] = { { "throws", run_throws }, { nullptr, nullptr } };

int main(int argc, char **argv)
{
	return inside_main(argc, argv, cases);
}
