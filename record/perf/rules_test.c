/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own rules of who may have a debug register, as far as we build on them, against a
 * model. The rules for each CPU are (kernel/events/hw_breakpoint.c):
 *
 *	an event of a thread	the CPU's own + the thread's that may run there	<= 4
 *	an event of a CPU	the CPU's own + the most that any thread has there	<= 4
 *
 * where an event of a thread on any CPU counts on all. A place is taken when an event is opened,
 * disabled or not, and given back when it is closed.
 */
#include "record/perf/instance.h"
#include "record/perf/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 3
#define CPUS 2
#define HELD_MAX 32
#define STEPS 4000
#define REGISTERS 4

TestSuite(event_rules, .init = fixture_need_registers, .timeout = 120);

struct held {
	int thread; /* -1: a CPU's */
	int cpu;    /* -1: any */
	int fd;
};

struct world {
	struct fixture fixture;
	pid_t tids[THREADS];
	struct held held[HELD_MAX];
	unsigned int count;
	unsigned int yes, no;
};

static void *waits(void *data)
{
	fixture_meet(data, 99);
	return NULL;
}

static void three(struct fixture_shared *own)
{
	fixture_threads(THREADS - 1, waits, own);
	fixture_meet(own, 99);
}

static unsigned int on(const struct world *world, int thread, int cpu)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < world->count; i++) {
		const struct held *held = &world->held[i];

		count += held->thread == thread && (held->cpu < 0 || held->cpu == cpu);
	}
	return count;
}

static int model_allows(const struct world *world, int thread, int cpu)
{
	for (int at = 0; at < CPUS; at++) {
		unsigned int here = on(world, -1, at), most = 0;

		if (cpu >= 0 && at != cpu)
			continue;
		for (int i = 0; i < THREADS; i++)
			if (thread < 0 || i == thread)
				most = on(world, i, at) > most ? on(world, i, at) : most;
		if (here + most + 1 > REGISTERS)
			return 0;
	}
	return 1;
}

/* 0 or -errno, as the kernel says. */
static int try_open(struct world *world, int thread, int cpu, unsigned int seed)
{
	struct event_source source = {
		.kind = seed & 1 ? EVENT_EXECUTE : EVENT_WRITE,
		.bytes = seed & 1 ? 0 : 8,
		.address = (uint64_t)(uintptr_t)&words[7],
	};
	struct instance_form form = { .scope = thread < 0 ? EVENT_CPUS : EVENT_THREAD };
	struct instance one = {
		.tid = thread < 0 ? -1 : world->tids[thread],
		.cpu = cpu,
		.is_leader = (uint8_t)((seed >> 1) & 1), /* disabled or not */
	};
	int err = instance_open(&one, &source, &form, -1);

	if (!err)
		world->held[world->count++] = (struct held){ thread, cpu, one.fd };
	return err;
}

static void restore(struct world *world, unsigned int which)
{
	close(world->held[which].fd);
	world->held[which] = world->held[--world->count];
}

/* Whether anybody else on this machine has a breakpoint, of a CPU or of any thread. */
static int others_hold(struct world *world)
{
	int err = 0;

	while (world->count)
		restore(world, 0);
	for (int i = 0; i < CPUS * REGISTERS && !err; i++)
		err = try_open(world, -1, i % CPUS, 0);
	while (world->count)
		restore(world, 0);
	return err != 0;
}

static void step(struct world *world, int with_cpus)
{
	unsigned int seed = (unsigned int)rand();
	int thread = (int)(seed % (unsigned int)(THREADS + (with_cpus ? 1 : 0)));
	int cpu = (int)(seed / 7 % (CPUS + 1)) - 1, allowed, err;

	if (world->count == HELD_MAX || (world->count && seed / 64 % 5 < 2)) {
		restore(world, seed / 1024 % world->count);
		return;
	}
	if (thread == THREADS) {
		thread = -1;
		cpu = cpu < 0 ? 0 : cpu;
	}
	allowed = model_allows(world, thread, cpu);
	err = try_open(world, thread, cpu, seed >> 5);
	cr_assert(!err || err == -ENOSPC, "%d", err);
	if ((err == 0) != allowed && with_cpus && others_hold(world))
		cr_skip_test("others on this machine hold registers, too");
	cr_assert_eq(!err, allowed, "thread %d, CPU %d, with %u held: the kernel says %d", thread,
		     cpu, world->count, err);
	world->yes += (unsigned int)allowed;
	world->no += (unsigned int)!allowed;
}

static void world_open(struct world *world)
{
	pid_t *tids;

	*world = (struct world){ 0 };
	fixture_start(&world->fixture, three);
	fixture_wait(&world->fixture, THREADS);
	cr_assert_eq(target_threads(world->fixture.pid, &tids), THREADS);
	for (int i = 0; i < THREADS; i++)
		world->tids[i] = tids[i];
	free(tids);
}

static void world_close(struct world *world)
{
	while (world->count)
		restore(world, 0);
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(instance_free_registers(world->tids[i], -1), REGISTERS);
	fixture_end(&world->fixture);
}

static void random_walk(int with_cpus)
{
	struct world world;

	if (sysconf(_SC_NPROCESSORS_CONF) != CPUS)
		cr_skip_test("the model has two CPUs");
	world_open(&world);
	srand(20100114);
	for (int i = 0; i < STEPS; i++)
		step(&world, with_cpus);
	cr_assert(world.yes > STEPS / 10 && world.no > STEPS / 10, "%u yes, %u no", world.yes,
		  world.no);
	world_close(&world);
}

Test(event_rules, threads_registers_are_lent_as_the_model_says)
{
	random_walk(0);
}

Test(event_rules, cpus_registers_are_lent_as_the_model_says)
{
	if (geteuid())
		cr_skip_test("CPUs are watched by root alone");
	fixture_need_cpus();
	random_walk(1);
}

/* ---- from perf's test of accounting: four and no more, given back by closing ---- */

Test(event_rules, four_of_each_thread_and_the_fifth_is_refused)
{
	struct world world;

	world_open(&world);
	for (int thread = 0; thread < THREADS; thread++) {
		for (int i = 0; i < REGISTERS; i++)
			cr_assert_eq(try_open(&world, thread, -1, (unsigned int)i), 0);
		cr_assert_eq(try_open(&world, thread, -1, 0), -ENOSPC);
		cr_assert_eq(try_open(&world, thread, -1, 1), -ENOSPC, "code and data share them");
	}
	restore(&world, 0);
	cr_assert_eq(try_open(&world, 0, -1, 0), 0);
	world_close(&world);
}

Test(event_rules, four_on_each_cpu_of_one_thread)
{
	struct world world;

	if (sysconf(_SC_NPROCESSORS_CONF) < 2)
		cr_skip_test("there is one CPU");
	world_open(&world);
	for (int i = 0; i < 2 * REGISTERS; i++)
		cr_assert_eq(try_open(&world, 0, i % 2, 0), 0);
	cr_assert_eq(try_open(&world, 0, 0, 0), -ENOSPC);
	cr_assert_eq(try_open(&world, 0, -1, 0), -ENOSPC);
	cr_assert_eq(try_open(&world, 1, -1, 0), 0);
	world_close(&world);
}
