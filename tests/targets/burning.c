/* SPDX-License-Identifier: MIT */
/*
 * Burns known shares of CPU time: burning ROUNDS [WAY]. In each round `heavy` works three times as
 * long as `light`, both in `work`, and all calls are in each sample's chain.
 *
 *	child	a forked child burns as well, in `of_child`
 *	exec	the process executes itself again, without WAY
 *	jit	code made at run time burns, and a perf map names it made_loop
 *	jitdump	likewise, and a jitdump in the working directory names it dumped_loop, after another
 *		function that was there before
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

static void map_write(const void *code)
{
	char path[64];
	FILE *map;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "we");
	if (!map)
		exit(1);
	fprintf(map, "%lx %zx made_loop\n", (unsigned long)code, sizeof(loop));
	fclose(map);
}

/* Linux, tools/perf/Documentation/jitdump-specification.txt. */
static void dump_record(FILE *dump, const void *code, const char *name, uint64_t number)
{
	uint32_t head[2] = { 0, (uint32_t)(56 + strlen(name) + 1 + sizeof(loop)) };
	uint32_t who[2] = { (uint32_t)getpid(), (uint32_t)getpid() };
	uint64_t where[4] = { (uint64_t)code, (uint64_t)code, sizeof(loop), number };

	fwrite(head, sizeof(head), 1, dump);
	fwrite(&number, sizeof(number), 1, dump); /* the time */
	fwrite(who, sizeof(who), 1, dump);
	fwrite(where, sizeof(where), 1, dump);
	fwrite(name, strlen(name) + 1, 1, dump);
	fwrite(loop, sizeof(loop), 1, dump);
}

static void dump_write(const void *code)
{
	uint32_t head[6] = { 0x4A695444, 1, 40, 62, 0, (uint32_t)getpid() };
	uint64_t more[2] = { 0 };
	char path[64];
	FILE *dump;

	snprintf(path, sizeof(path), "jit-%d.dump", (int)getpid());
	dump = fopen(path, "w+e");
	if (!dump)
		exit(1);
	fwrite(head, sizeof(head), 1, dump);
	fwrite(more, sizeof(more), 1, dump);
	dump_record(dump, code, "earlier", 1);
	dump_record(dump, code, "dumped_loop", 2);
	fflush(dump);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED)
		exit(1);
	fclose(dump);
}

static void made_burn(int rounds, void (*name)(const void *code))
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*made)(uint32_t steps);

	if (code == MAP_FAILED)
		exit(1);
	memcpy(code, loop, sizeof(loop));
	name(code);
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
		made_burn(rounds, map_write);
	if (!strcmp(way, "jitdump"))
		made_burn(rounds, dump_write);
	if (!strcmp(way, "child"))
		child_burn(rounds);
	rounds_burn(rounds);
	if (!strcmp(way, "exec"))
		execl(argv[0], argv[0], argv[1], (char *)NULL);
	return 0;
}
