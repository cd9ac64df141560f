/* SPDX-License-Identifier: MIT */
/* For dlopen.c. */
int entered(int value);

static int state;

__attribute__((constructor)) static void constructed(void)
{
	state = 40;
}

int entered(int value)
{
	return state + value;
}
