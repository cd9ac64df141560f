/* SPDX-License-Identifier: MIT */
/*
 * Changes its variables every few milliseconds until it is killed: ticks [ignore], with SIGTRAP
 * ignored.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

volatile long one, two;
long total, a, b, c;

__attribute__((noinline)) static void bump(int by)
{
	int twice = by * 2;

	total += twice;
	usleep((unsigned int)twice);
}

int main(int count, char **arguments)
{
	if (count > 1 && arguments[1])
		signal(SIGTRAP, SIG_IGN);
	puts("ready");
	fflush(stdout);
	for (int i = 1;; i++) {
		bump(i % 1000 + 200);
		one++;
		two--;
	}
}
