/* SPDX-License-Identifier: MIT */
#include "inside/detour/testing/return_throw.h"

extern "C" long trial_calls(long value, long (*fn)(long));

long return_destroyed;

namespace
{
struct guard {
	~guard()
	{
		return_destroyed++;
	}
};
} // namespace

void return_throw(long value)
{
	throw value;
}

static __attribute__((noinline)) long with_guard(long value, long (*fn)(long))
{
	guard here;

	return trial_calls(value, fn);
}

long return_catch_directly(long value, long (*fn)(long))
{
	try {
		trial_calls(value, fn);
	} catch (long thrown) {
		return thrown;
	}
	return -1;
}

long return_catch(long value, long (*fn)(long))
{
	try {
		with_guard(value, fn);
	} catch (long thrown) {
		return thrown;
	}
	return -1;
}
