/* SPDX-License-Identifier: MIT */
/*
 * Calls functions with enumerations as arguments and results. With the argument 1, a child does so
 * first.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum color { RED, GREEN = 7, BLUE = 200, LAST = 200 };
typedef enum { BELOW = -2, ZERO, ABOVE = 200 } side;
enum low { LOWEST = -0x7fffffffffffffff - 1, MINUS = -1, HIGHEST = 0x7fffffffffffffff };
enum wide { SMALL = 1, HUGE = 0x8000000000000001 };
enum flags { READ = 1, WRITE = 4 };
struct pair {
	int n;
	side s;
};

side turn(enum color c, side s, enum low l, enum wide w, enum flags f);
struct pair swap(struct pair p);

side turn(enum color c, side s, enum low l, enum wide w, enum flags f)
{
	return c || l == MINUS || w == SMALL || f == WRITE ? ABOVE : s;
}

struct pair swap(struct pair p)
{
	return (struct pair){ p.n + 1, p.s == ABOVE ? BELOW : ABOVE };
}

static void all(void)
{
	turn(RED, BELOW, LOWEST, HUGE, READ);
	turn(LAST, 5, MINUS, SMALL, READ | WRITE);
	turn(3, ZERO, HIGHEST, 7, 0);
	swap((struct pair){ 4, ABOVE });
}

int main(int count, char **arguments)
{
	if (count > 1 && atoi(arguments[1]) && !fork()) {
		all();
		return 0;
	}
	while (wait(NULL) > 0)
		;
	all();
	return 0;
}
