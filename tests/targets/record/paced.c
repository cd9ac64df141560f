/* SPDX-License-Identifier: MIT */
/*
 * paced WAY [COUNT]: passes db:query with the numbers 0, 1, 2 and so on.
 *
 *	serve	says "ready"; reads lines "COUNT", and "answer N", which has it call answer(N); says
 *		a line behind each; ends with its input
 *	plain	COUNT times
 *	fork	likewise, and then a child as often
 *	kill	likewise, and then SIGKILL ends it
 *	abort	likewise, by abort(3)
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

static long number;

__attribute__((noinline, noclone)) static void answer(long question)
{
	__asm__ volatile("" : "+r"(question));
}

static void pass(long count)
{
	while (count-- > 0) {
		WAYMARK(db, query, number);
		number++;
	}
}

static void serve(void)
{
	char line[64];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "answer ", 7))
			answer(atol(line + 7));
		else
			pass(atol(line));
		puts("done");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";

	if (!strcmp(way, "serve"))
		serve();
	pass(argc > 2 ? atol(argv[2]) : 0);
	if (!strcmp(way, "kill"))
		raise(SIGKILL);
	if (!strcmp(way, "abort"))
		abort();
	if (!strcmp(way, "fork") && fork() == 0) {
		pass(atol(argv[2]));
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
