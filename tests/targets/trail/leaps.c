/* SPDX-License-Identifier: MIT */
/* Calls an address at which there is no code. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void (*volatile to)(void);
static void ends(int signal)
{
	_exit(signal - 8);
}
int main(int argc, char **argv)
{
	if (argc > 2)
		signal(SIGSEGV, ends);
	to = (void (*)(void))strtoul(argv[1], NULL, 0);
	to();
	return 0;
}
