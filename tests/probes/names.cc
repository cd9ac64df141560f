// SPDX-License-Identifier: MIT
// Names that C++ has and C hasn't; each function is called once.
#define KEEP __attribute__((noinline))

namespace shop
{

template <class T> struct box {
	T value;
	KEEP T get(int n) const
	{
		__asm__ volatile("" : "+r"(n));
		return value * static_cast<T>(n);
	}
};

struct order {
	int count = 1;
	KEEP int add(int n)
	{
		__asm__ volatile("" : "+r"(n));
		return count += n;
	}
	KEEP int add(double n)
	{
		__asm__ volatile("" : "+x"(n));
		return count += static_cast<int>(n);
	}
	KEEP int operator()(int n)
	{
		__asm__ volatile("" : "+r"(n));
		return count + n;
	}
	KEEP int operator[](int n)
	{
		__asm__ volatile("" : "+r"(n));
		return count - n;
	}
};

namespace
{
KEEP int hidden(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}
} // namespace

} // namespace shop

int main(int argc, char **)
{
	shop::box<int> whole{ 3 };
	shop::box<double> part{ 1.5 };
	shop::order order;
	int sum = whole.get(4) + static_cast<int>(part.get(2)) + order.add(1) + order.add(2.0) +
		  order(3) + order[2] + shop::hidden(argc);
	auto lambda = [&](int n) KEEP {
		__asm__ volatile("" : "+r"(n));
		return n * 1000003 + sum; /* an instruction that has room for a jump */
	};

	return lambda(sum) == 0;
}
