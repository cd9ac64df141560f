/* SPDX-License-Identifier: MIT */
/*
 * The tortured program: four threads run through a thousand markers, timers send them signals whose
 * handlers hit markers too and may leave by siglongjmp; others fork, load and unload a library of markers,
 * start and end threads. It knows nothing of Waymark but the markers, and ends well when told to.
 *
 *	victim SHARED PLUGIN
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "victim.h"

__thread volatile int hit_pending;
static __thread volatile unsigned int
	pending_below;			/* hits that handlers of this thread interrupted */
static __thread volatile int is_parked; /* handlers on this thread hit nothing */
static __thread volatile int may_jump;	/* jump_to is set, and nothing but markers runs */
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

	if (is_parked)
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

static void block_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaddset(&set, SIGPROF);
	pthread_sigmask(how, &set, NULL);
}

static int is_paused(void)
{
	return __atomic_load_n(&shared->pause, __ATOMIC_ACQUIRE);
}

static int is_over(void)
{
	return __atomic_load_n(&shared->stop, __ATOMIC_RELAXED);
}

/* Between its hits each thread comes here; it stays while the driver wants quiet. */
static void gate(void)
{
	if (!is_paused())
		return;
	is_parked = 1; /* before the count: from there on no handler hits */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_fetch_add(&shared->parked, 1, __ATOMIC_SEQ_CST);
	while (is_paused())
		usleep(200);
	__atomic_fetch_sub(&shared->parked, 1, __ATOMIC_SEQ_CST);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	is_parked = 0;
}

static void *work(void *data)
{
	/* volatile: they must hold their values over a siglongjmp */
	volatile long number = (long)data;
	volatile unsigned int pass = 0;

	random_state = (unsigned int)number * 77 + 1;
	while (!is_over()) {
		gate();
		if (!sigsetjmp(jump_to, 1)) {
			may_jump = 1;
			groups[(pass + (unsigned int)number * 3) % 10]();
		} else {
			/* the agent learns from the next hit that the one below was left for good */
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

/* A child runs through markers that may be armed, under its own pid, then ends or executes another. */
static void child_main(unsigned int turn)
{
	block_signals(SIG_UNBLOCK);
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
		int status = 0;
		pid_t pid;

		gate();
		block_signals(
			SIG_BLOCK); /* no handler may count before `counts` is the child's own */
		pid = fork();
		if (!pid) {
			counts = &private_counts;
			child_main(turn);
		}
		block_signals(SIG_UNBLOCK);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "victim: a child ended with status %x\n", status);
			abort();
		}
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

		gate();
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

		gate();
		if (pthread_create(&thread, NULL, short_life, (void *)turn) ||
		    pthread_join(thread, NULL))
			abort();
		note(&shared->threads);
		usleep(1000);
	}
	return NULL;
}

static void start_timers(void)
{
	struct itimerval every = { .it_interval = { 0, 1000 }, .it_value = { 0, 1000 } };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	setitimer(ITIMER_PROF, &every, NULL);
}

int main(int argc, char **argv)
{
	static void *(*const all[PARTIES])(void *) = { work,	    work,	 work,	       work,
						       churn_forks, churn_loads, churn_threads };
	pthread_t threads[PARTIES];
	int fd = argc == 3 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return 2;
	counts = shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	plugin_path = argv[2];
	if (shared == MAP_FAILED)
		return 2;
	start_timers();
	for (long i = 0; i < PARTIES; i++)
		if (pthread_create(&threads[i], NULL, all[i], (void *)i))
			return 2;
	block_signals(SIG_BLOCK); /* the main thread is no party */
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < PARTIES; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
