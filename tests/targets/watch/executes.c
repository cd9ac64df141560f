/* SPDX-License-Identifier: MIT */
/*
 * Two programs in which one address is another function, and one variable has another type: the
 * first executes the second, which has -DSECOND and is ./second; with an argument in a child.
 */
#include <sys/wait.h>
#include <unistd.h>

long w;
#ifdef SECOND
volatile enum { UP, DOWN } state;
void unused(void)
{
	w = -1;
	w = w * 7 + w;
	w = w * 3 - w * w;
}
__attribute__((noinline)) void write_second(void)
{
	w++;
	state = DOWN;
}
#else
volatile enum { RED, GREEN } state;
__attribute__((noinline)) void write_first(void)
{
	w++;
	state = GREEN;
}
#endif

int main(int count, char **arguments)
{
	for (int i = 0; i < 500; i++)
#ifdef SECOND
		write_second();
#else
		write_first();
	if (count < 2 || !fork())
		execl("./second", "second", (char *)0);
	wait(NULL);
#endif
	return count < 0 || !arguments;
}
