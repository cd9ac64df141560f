/* SPDX-License-Identifier: MIT */
/*
 * Two builds of a plugin. plugin_add begins with one instruction at one address in both, and then
 * differs. FILLER: bytes that move it.
 */
long plugin_inner(long value);
long plugin_add(long a, long b);

#ifdef FILLER
long plugin_filler(long value);
__attribute__((noinline)) long plugin_filler(long value)
{
	__asm__ volatile(".skip 48, 0x90");
	return value * 7;
}
#endif

__attribute__((noinline)) long plugin_inner(long value)
{
	__asm__ volatile("");
	return value;
}

__attribute__((noinline)) long plugin_add(long a, long b)
{
#if BUILD == 1
	long sum = plugin_inner(a);

	__asm__ volatile("" : "+r"(sum)::"memory");
	return sum + b;
#else
	long sum = plugin_inner(b);

	sum += plugin_inner(a);
	__asm__ volatile("" : "+r"(sum)::"memory");
	return sum;
#endif
}
