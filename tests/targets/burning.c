/* SPDX-License-Identifier: MIT */
/*
 * Burns known shares of CPU time: burning ROUNDS [WAY]. In each round `heavy` works three times as
 * long as `light`, both in `work`, and all calls are in each sample's chain.
 *
 *	child	a forked child burns as well, in `of_child`
 *	exec	the process executes itself again, without WAY
 *	jit	code made at run time burns, and a perf map names it made_loop
 *	wait	says "ready", and burns when its input ends
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS 300000u

static volatile uint64_t worked;

static void work(uint64_t steps)
{
	for (uint64_t i = 0; i < steps; i++)
		worked += i;
}

static void heavy(void)
{
	work(3 * STEPS);
}

static void light(void)
{
	work(STEPS);
}

static void of_child(int rounds)
{
	for (int i = 0; i < rounds; i++)
		work(STEPS);
}

static void rounds_burn(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		heavy();
		light();
	}
}

/* mov edi, ecx; l: dec ecx; jnz l; ret. */
static const uint8_t loop[] = { 0x89, 0xf9, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };

static void made_burn(int rounds)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*made)(uint32_t steps);
	char path[64];
	FILE *map;

	if (code == MAP_FAILED)
		exit(1);
	memcpy(code, loop, sizeof(loop));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "we");
	if (!map)
		exit(1);
	fprintf(map, "%lx %zx made_loop\n", (unsigned long)code, sizeof(loop));
	fclose(map);
	memcpy(&made, &code, sizeof(made));
	for (int i = 0; i < rounds; i++)
		made(4 * STEPS);
}

static void child_burn(int rounds)
{
	pid_t child = fork();

	if (!child) {
		of_child(rounds);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	const char *way = argc > 2 ? argv[2] : "";

	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	if (!strcmp(way, "wait")) {
		puts("ready");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	if (!strcmp(way, "jit"))
		made_burn(rounds);
	if (!strcmp(way, "child"))
		child_burn(rounds);
	rounds_burn(rounds);
	if (!strcmp(way, "exec"))
		execl(argv[0], argv[0], argv[1], (char *)NULL);
	return 0;
}
