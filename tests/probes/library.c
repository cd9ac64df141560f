/* SPDX-License-Identifier: MIT */
/* A library to probe, loaded late: its constructor calls its own function. */
int library_add(int a, int b);
int library_calls(void);

static int calls;

__attribute__((noinline)) int library_add(int a, int b)
{
	calls++;
	__asm__ volatile("" : "+r"(a), "+r"(b));
	return a + b;
}

int library_calls(void)
{
	return calls;
}

__attribute__((constructor)) static void came(void)
{
	library_add(-1, -2);
}
