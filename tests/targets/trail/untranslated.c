/* SPDX-License-Identifier: MIT */
/* Runs code that the engine does not translate, itself or in a child. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static void run(void)
{
	long rax = 20;
	__asm__ volatile(INSTRUCTION : "+a"(rax) : : "rcx", "rdx", "rsi", "rdi", "r11", "memory");
}
int main(int argc, char **argv)
{
	int status = 0;
	setvbuf(stdout, NULL, _IONBF, 0);
	puts("a");
	if (argc < 2)
		run();
	else if (!fork())
		run(), _exit(4);
	else
		wait(&status);
	puts("b");
	return 7 + (WIFSIGNALED(status) ? 9 : WEXITSTATUS(status));
}
