/* SPDX-License-Identifier: MIT */
/*
 * The tortured program: four threads do what work.c has, timers send them signals whose handlers
 * call probed functions too and may leave by siglongjmp; others fork, spawn programs, load and
 * unload a library, start, cancel and end threads. It knows nothing of Waymark, checks all that it
 * does, and ends well on request.
 *
 *	victim SHARED PLUGIN
 */
#include "tests/torture/party.h"
#include "victim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static __thread volatile int may_jump; /* jump_to is set, and nothing but points is called */
static __thread sigjmp_buf jump_to;
static __thread unsigned int random_state;

static struct torture *shared;
static struct torture *counts; /* == shared, or a private one in a child of fork */
static struct torture private_counts;
static const char *plugin_path;

void victim_fail(const char *what)
{
	fprintf(stderr, "victim: %s\n", what);
	abort();
}

static void note(uint64_t *count)
{
	__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

void count_entry(void)
{
	note(&counts->entries);
}

void count_return(void)
{
	note(&counts->returns);
}

void count_site(void)
{
	note(&counts->sites);
}

static void on_signal(int signal_number)
{
	if (party_is_parked)
		return;
	work_in_handler((uint32_t)signal_number);
	note(&counts->signals);
	random_state = random_state * 1103515245 + 12345;
	if (!may_jump || !__atomic_load_n(&shared->jumps_allowed, __ATOMIC_RELAXED) ||
	    random_state >> 30)
		return;
	may_jump = 0;
	note(&counts->jumps);
	siglongjmp(jump_to, 1);
}

static int is_over(void)
{
	return __atomic_load_n(&shared->stop, __ATOMIC_RELAXED);
}

/* Handlers may jump out of these. */
static void work_jumping(uint32_t number)
{
	if (sigsetjmp(jump_to, 1))
		return;
	may_jump = 1;
	for (int i = 0; i < 20; i++)
		work_points(number);
	may_jump = 0;
}

static void (*const works[])(uint32_t number) = { work_jumping, work_strings, work_memory,
						  work_sorting, work_leaving, work_backtrace,
						  work_zlib };

#define WORKS (sizeof(works) / sizeof(works[0]))

static void *work(void *data)
{
	uint32_t number = (uint32_t)(long)data, pass = number;

	random_state = number * 77 + 1;
	while (!is_over()) {
		party_gate();
		works[pass % WORKS](pass % 30011);
		pass++;
		if (pass % 16 == 0) {
			note(&shared->passes);
			/* half of them leave the CPU now and then, so that others come to run */
			if (number % 2)
				usleep(100);
		}
	}
	return NULL;
}

static void child_main(unsigned int turn)
{
	counts = &private_counts;
	for (uint32_t i = 0; i < WORKS; i++)
		works[i](turn + i);
	if (turn % 4 == 0)
		execl("/bin/true", "true", (char *)NULL);
	_exit(0); /* exit(3) may wait for a lock that another thread had at the fork */
}

static void *churn_forks(void *data)
{
	(void)data;
	for (unsigned int turn = 0; !is_over(); turn++) {
		party_gate();
		party_fork(child_main, turn);
		note(&shared->forks);
		usleep(5000);
	}
	return NULL;
}

/* The child shares our memory until it runs another program. */
static void *churn_spawns(void *data)
{
	char *argv[] = { (char *)"/bin/true", NULL };

	(void)data;
	while (!is_over()) {
		int status = 0;
		pid_t pid;

		party_gate();
		if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) ||
		    waitpid(pid, &status, 0) != pid || status)
			victim_fail("a spawned program failed");
		note(&shared->spawns);
		usleep(5000);
	}
	return NULL;
}

static void *churn_loads(void *data)
{
	(void)data;
	while (!is_over()) {
		uint64_t (*run)(uint64_t times);
		void *plugin;

		party_gate();
		plugin = dlopen(plugin_path, RTLD_NOW);
		if (!plugin)
			victim_fail(dlerror());
		*(void **)&run = dlsym(plugin, "plugin_run");
		if (run(128) != 127 * 64)
			victim_fail("the plugin came to something else");
		dlclose(plugin);
		note(&shared->loads);
		usleep(2000);
	}
	return NULL;
}

static void *short_life(void *data)
{
	works[(long)data % (long)WORKS]((uint32_t)(long)data);
	if ((long)data % 3)
		return data;
	for (;;)
		usleep(10000000); /* until cancelled */
}

static void *churn_threads(void *data)
{
	(void)data;
	for (long turn = 0; !is_over(); turn++) {
		void *wanted = turn % 3 ? (void *)turn : PTHREAD_CANCELED, *got;
		pthread_t thread;

		party_gate();
		if (pthread_create(&thread, NULL, short_life, (void *)turn))
			victim_fail("no thread");
		if (turn % 3 == 0) {
			usleep(1000);
			pthread_cancel(thread);
		}
		if (pthread_join(thread, &got) || got != wanted)
			victim_fail("a thread came to another end");
		note(&shared->threads);
		usleep(1000);
	}
	return NULL;
}

/* The last session may not be over for it yet. */
static void check_semaphore(void)
{
	for (int i = 0; work_is_watched(); i++) {
		if (i == 300)
			victim_fail("the semaphore stays raised");
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	static void *(*const all[PARTIES])(void *) = { work,	    work,	  work,
						       work,	    churn_forks,  churn_spawns,
						       churn_loads, churn_threads };
	int status;

	if (argc != 3)
		return 2;
	counts = shared = party_map(argv[1], sizeof(*shared));
	if (!shared)
		return 2;
	plugin_path = argv[2];
	work_prepare();
	party_begin(&shared->pause, &shared->parked, on_signal);
	status = party_run(all, PARTIES, &shared->ready);
	if (!status)
		check_semaphore();
	return status;
}
