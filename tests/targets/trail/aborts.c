/* SPDX-License-Identifier: MIT */
/* An assertion fails in nested calls, or in a handler. */
#include <assert.h>
#include <signal.h>
#include <stddef.h>
static void handles(int signal)
{
	assert(signal == 0); /* LINE handles */
}
__attribute__((noinline)) static int checks(const char *text)
{
	assert(text); /* LINE checks */
	return text[0];
}
__attribute__((noinline)) static int deep(int n)
{
	return n ? deep(n - 1) + 1 : checks(NULL); /* LINE deep */
}
int main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		signal(SIGUSR1, handles);
		return raise(SIGUSR1); /* LINE raises */
	}
	return deep(100) + 1; /* LINE main */
}
