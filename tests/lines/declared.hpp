/* SPDX-License-Identifier: MIT */
/* Code that declared.cc inlines: the first rows of its functions are here. FN: who is declared in that line. */
struct inner {
	int value;
};

static inline int tripled(const inner &of)
{
	return of.value * 3;
}

struct outer {
	inner in;
	__attribute__((noinline)) int get() const;
	__attribute__((noinline)) int above(int x) /* FN _ZN5outer5aboveEi */
	{
		return tripled(in) + x;
	}
};

template <class T>
__attribute__((noinline)) T
scale(T x, const inner &of) /* FN _Z5scaleIiET_S0_RK5inner _Z5scaleIlET_S0_RK5inner */
{
	return tripled(of) * x;
}
