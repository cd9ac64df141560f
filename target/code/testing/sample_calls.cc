// SPDX-License-Identifier: MIT
// C++'s part of sample_calls.c.
#include "target/code/testing/sample_call.h"

#define FUNCTION __attribute__((noinline, used))

namespace
{

struct trivial {
	long a;
};
struct by_reference {
	long a = 1;
	by_reference() = default;
	by_reference(const by_reference &other) : a(other.a)
	{
	}
};
struct destroyed {
	int a = 1;
	~destroyed()
	{
		__asm__ volatile("");
	}
};
struct polymorphic {
	int a = 1;
	virtual int get() const
	{
		return a;
	}
};
struct holder { // as its member is
	by_reference inner;
};
struct derived : trivial {
	float b;
};
struct empty {
};

FUNCTION long classes(trivial skip1, int b, by_reference skip3, int d, destroyed skip5,
		      polymorphic skip6, int g)
{
	__asm__ volatile("");
	return skip1.a + b + skip3.a + d + skip5.a + skip6.a + g;
}

FUNCTION by_reference hidden_result(int a, empty skip2, float c, holder skip4, derived skip5, int f)
{
	(void)skip2;
	by_reference result;

	__asm__ volatile("");
	result.a = a + (long)c + skip4.inner.a + skip5.a + f;
	return result;
}

FUNCTION int references(const int &, int &&, char16_t c, decltype(nullptr), bool e, char32_t f,
			int trivial::*skip7, int h)
{
	__asm__ volatile("");
	return c + e + (int)f + (skip7 != nullptr) + h;
}

FUNCTION int member_pointer(int (polymorphic::*skip1)() const, int b, long c, long d, long e, int f)
{
	__asm__ volatile("");
	return (skip1 != nullptr) + b + (int)(c + d + e) + f;
}

template <class Result, class... Arguments>
void call(sample_done *done, Result (*function)(Arguments...), const char *name,
	  Arguments... arguments)
{
	sample_target = reinterpret_cast<void *>(function);
	reinterpret_cast<Result (*)(Arguments...)>(sample_capture)(arguments...);
	done(reinterpret_cast<void *>(function), name);
}

} // namespace

extern "C" void sample_calls_cxx(sample_done *done)
{
	derived both;

	both.a = 5;
	both.b = 5;
	call(done, classes, "classes", trivial{ 1 }, 2, by_reference(), 4, destroyed(),
	     polymorphic(), 7);
	call(done, hidden_result, "hidden_result", 1, empty(), 3.0f, holder(), both, 6);
	sample_target = reinterpret_cast<void *>(references);
	reinterpret_cast<decltype(&references)>(sample_capture)(
		*reinterpret_cast<int *>(1), static_cast<int &&>(*reinterpret_cast<int *>(2)), 3,
		nullptr, true, 6, nullptr, 8);
	done(reinterpret_cast<void *>(references), "references");
	call(done, member_pointer, "member_pointer", &polymorphic::get, 2, 3L, 4L, 5L, 6);
}
