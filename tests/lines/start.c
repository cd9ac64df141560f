/* SPDX-License-Identifier: MIT */
/* The beginning of a program without a library. */
int main(void);
void _start(void);

void _start(void)
{
	main();
	__asm__ volatile("mov $60, %eax; xor %edi, %edi; syscall");
}
