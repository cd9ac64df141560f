/* SPDX-License-Identifier: MIT */
/* What rows_test.c compiles, in many ways. */
static inline __attribute__((always_inline)) int inlined(int x)
{
	return x * 3 + 1;
}

int twice(int x);
int twice(int x)
{
	return inlined(x) ^ inlined(x + 5);
}

__attribute__((noinline)) static void by_hand_holder(void)
{
#ifdef BY_HAND /* with a compiler that numbers its files from 1 */
	/* 1001 and 1003 have code, 1002 is only marked, and one instruction has no line. */
	__asm__ volatile(".globl by_hand, no_line, marked\n"
			 "by_hand: .loc 1 1001\n nop\n"
			 "no_line: .loc 1 0\n nop\n"
			 "marked: .loc 1 1002\n .loc 1 1003\n nop\n");
#endif
#ifdef ENDS /* 1005 is at the address where the code ends, and other code begins there */
	__asm__ volatile(".pushsection .text.ends,\"ax\"\n.globl ends\n"
			 "ends: .loc 1 1004\n nop\n .loc 1 1005 view 0\n .popsection\n"
			 ".pushsection .text.next,\"ax\"\n.globl next\nnext: nop\n .popsection\n");
#endif
}

int loop(int n);
int loop(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += twice(i);
	by_hand_holder();
	return sum;
}

int main(int argc, char **argv)
{
	(void)argv;
	return loop(argc) == 77;
}
