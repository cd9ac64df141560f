/* SPDX-License-Identifier: MIT */
/* Calls a function whose first instruction is a jump of five bytes. */
#include <waymark/marker.h>
int pass(int n);
int beyond(int n);
int beyond(int n)
{
	return n;
}
__asm__(".globl pass\n.type pass, @function\n"
	"pass:\n.cfi_startproc\n.byte 0xe9\n.long beyond - . - 4\n.cfi_endproc\n.size pass, . - pass\n");
int main(void)
{
	for (int i = 0; i < 5; i++)
		WAYMARK(traced, round, pass(i));
}
