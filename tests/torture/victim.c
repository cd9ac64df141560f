/* SPDX-License-Identifier: MIT */
/*
 * The tortured program: four threads run through a thousand markers, timers send them signals whose
 * handlers hit markers too and may leave by siglongjmp; others fork, load and unload a library of
 * markers, start and end threads. It knows nothing of Waymark but the markers, and ends well on
 * request.
 *
 *	victim SHARED PLUGIN
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/torture/party.h"
#include "victim.h"

__thread volatile int hit_pending;
static __thread volatile unsigned int
	pending_below;		       /* hits that handlers of this thread interrupted */
static __thread volatile int may_jump; /* jump_to is set, and nothing but markers runs */
static __thread sigjmp_buf jump_to;
static __thread unsigned int random_state;

static struct torture *shared;
static struct torture *counts; /* == shared, or a private one in a child of fork */
static struct torture private_counts;
static const char *plugin_path;

uint32_t count_hit(void)
{
	hit_pending = 1;
	return (uint32_t)__atomic_fetch_add(&counts->emitted, 1, __ATOMIC_RELAXED);
}

static void note(uint64_t *count)
{
	__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static void on_signal(int signal_number)
{
	int below = hit_pending;

	if (party_is_parked)
		return;
	pending_below += (unsigned int)below;
	hit_pending = 0;
	MARK(handler, signal_number);
	note(&counts->signals);
	random_state = random_state * 1103515245 + 12345;
	if (!may_jump || !__atomic_load_n(&shared->jumps_allowed, __ATOMIC_RELAXED) ||
	    random_state >> 27) {
		hit_pending = below;
		pending_below -= (unsigned int)below;
		return;
	}
	may_jump = 0;
	__atomic_fetch_add(&counts->doubtful, pending_below, __ATOMIC_RELAXED);
	note(&counts->jumps);
	siglongjmp(jump_to, 1);
}

static int is_over(void)
{
	return __atomic_load_n(&shared->stop, __ATOMIC_RELAXED);
}

static void *work(void *data)
{
	/* volatile: they must hold their values over a siglongjmp */
	volatile long number = (long)data;
	volatile unsigned int pass = 0;

	random_state = (unsigned int)number * 77 + 1;
	while (!is_over()) {
		party_gate();
		if (!sigsetjmp(jump_to, 1)) {
			may_jump = 1;
			groups[(pass + (unsigned int)number * 3) % 10]();
		} else {
			/* the agent learns from the next hit that the one below was abandoned */
			hit_pending = 0;
			pending_below = 0;
			MARK(landed, number);
		}
		may_jump = 0;
		hit_pending = 0;
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

/*
 * A child runs through markers that may be armed, under its own pid, then ends or executes another.
 */
static void child_main(unsigned int turn)
{
	counts = &private_counts;
	party_signals(SIG_UNBLOCK);
	for (int i = 0; i < 10; i++)
		groups[i]();
	if (turn % 4 == 0)
		execl("/bin/true", "true", (char *)NULL);
	_exit(0);
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

static void *churn_loads(void *data)
{
	(void)data;
	while (!is_over()) {
		void *plugin;
		void (*run)(int);

		party_gate();
		plugin = dlopen(plugin_path, RTLD_NOW);
		if (!plugin) {
			fprintf(stderr, "victim: %s\n", dlerror());
			abort();
		}
		*(void **)&run = dlsym(plugin, "plugin_run");
		run(50);
		dlclose(plugin);
		note(&shared->loads);
		usleep(2000);
	}
	return NULL;
}

static void *short_life(void *data)
{
	groups[(long)data % 10]();
	return NULL;
}

static void *churn_threads(void *data)
{
	(void)data;
	for (long turn = 0; !is_over(); turn++) {
		pthread_t thread;

		party_gate();
		if (pthread_create(&thread, NULL, short_life, (void *)turn) ||
		    pthread_join(thread, NULL))
			abort();
		note(&shared->threads);
		usleep(1000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static void *(*const all[PARTIES])(void *) = { work,	    work,	 work,	       work,
						       churn_forks, churn_loads, churn_threads };
	if (argc != 3)
		return 2;
	counts = shared = party_map(argv[1], sizeof(*shared));
	if (!shared)
		return 2;
	plugin_path = argv[2];
	party_begin(&shared->pause, &shared->parked, on_signal);
	return party_run(all, PARTIES, &shared->ready);
}
