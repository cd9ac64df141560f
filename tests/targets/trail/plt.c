/* SPDX-License-Identifier: MIT */
/*
 * Functions of libc through the PLT: bound at the first call, direct at the second, and chosen by
 * an ifunc.
 */
#include "program.h"

#include <stdlib.h>
#include <string.h>

ATTACHED;
EXPECT("first second comparing+ found left");

static ONCE int compare(const void *a, const void *b)
{
	PASS(comparing);
	return *(const int *)a - *(const int *)b;
}

int main(void)
{
	static char text[64] = "to be found";
	int number = 0, numbers[] = { 3, 2, 1 };

	begin();
	PASS(first);
	number += atoi("5");
	PASS(second);
	number += atoi("6");
	qsort(numbers, 3, sizeof(numbers[0]), compare);
	PASS(found);
	if (!strchr(text, 'f') || numbers[0] != 1 || number != 11)
		leave(1);
	PASS(left);
	leave(0);
}
