/* SPDX-License-Identifier: MIT */
/* Functions that begin with inlined code of declared.hpp. FN: who is declared in that line. */
#include "declared.hpp"

int outer::get() const /* FN _ZNK5outer3getEv */
{
	return tripled(in);
}

__attribute__((noinline)) static int
on_two_lines(const outer &of) /* FN _ZL12on_two_linesRK5outer */
{
	return tripled(of.in) + 1;
}

__attribute__((noinline)) int apply(const outer &of, int n) /* FN _Z5applyRK5outeri */
{
	auto lambda /* FN lambda */ = [&](int k) __attribute__((noinline))
	{
		return tripled(of.in) + k;
	};

	return lambda(n) + lambda(n + 1);
}

int main(int argc, char **) /* FN main */
{
	outer of{ { argc } };
	long sum = of.get() + of.above(2) + scale<int>(2, of.in) + scale<long>(3, of.in);

	return sum + on_two_lines(of) + apply(of, 3) == 0;
}
