/* SPDX-License-Identifier: MIT */
/*
 * A library, with -DLIBRARY, stores to a variable of a program: once there and once in its child;
 * with an argument, until it is killed.
 */
#include <sys/wait.h>
#include <unistd.h>
void helper_write(volatile int *to, int value);

#ifdef LIBRARY
void helper_write(volatile int *to, int value)
{
	*to = value;
}
#else
volatile int target;

int main(int words, char **text)
{
	(void)text;
	do {
		helper_write(&target, 7);
		if (words > 1)
			usleep(10000);
	} while (words > 1);
	if (!fork()) {
		helper_write(&target, 8);
		_exit(0);
	}
	wait(0);
	return 0;
}
#endif
