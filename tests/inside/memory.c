/* SPDX-License-Identifier: MIT */
/* Address spaces and libraries: what is loaded late, what is mapped everywhere. */
#include "inside.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/personality.h>

static char plugin_path[4200];

static __attribute__((constructor)) void find_plugin(void)
{
	ssize_t got = readlink("/proc/self/exe", plugin_path, sizeof plugin_path - 16);

	want(got > 0, "the path of the program");
	plugin_path[got] = 0;
	strcpy(strrchr(plugin_path, '/'), "/plugin.so");
}

static void *load(void)
{
	void *plugin;
	void (*count)(uint64_t *);

	plugin = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
	want(plugin != NULL, "dlopen");
	count = (void (*)(uint64_t *))dlsym(plugin, "plugin_count");
	count(inside_words);
	return plugin;
}

static void hit_plugin(void *plugin, int times)
{
	((int (*)(int))dlsym(plugin, "plugin_hit"))(times);
}

/* The constructor has run also when no tool records: the text of the sum shows it. */
static int run_dlopen(void)
{
	for (int i = 0; i < 100; i++) {
		void *plugin = load();

		hit_plugin(plugin, 10);
		dlclose(plugin);
		hits(1);
	}
	return 4;
}

static int over;

static void *hit_until_over(void *unused)
{
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		void *plugin = load();

		hit_plugin(plugin, 20);
		dlclose(plugin);
	}
	return unused;
}

static int run_dlopen_threads(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		want(!pthread_create(&threads[i], NULL, hit_until_over, NULL), "pthread_create");
	sleep_ms(200);
	over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return 4;
}

/* Under a constructor's first marker: it must have been armed before the constructor ran. */
static int run_constructor(void)
{
	void *plugin;
	uint64_t emitted;

	hits(1);
	plugin = dlopen(plugin_path, RTLD_NOW);
	want(plugin != NULL, "dlopen");
	emitted = ((uint64_t(*)(void))dlsym(plugin, "plugin_own"))();
	((void (*)(uint64_t *))dlsym(plugin, "plugin_count"))(inside_words);
	if (inside_words[0])
		want(emitted == 1, "the constructor's marker");
	hit_plugin(plugin, 100);
	return 3;
}

/* Take every page that is free within reach of a jump from our text and the loader's. */
static void crowd(uintptr_t around)
{
	const uintptr_t reach = (uintptr_t)2 << 30;
	uintptr_t from = around > reach ? around - reach : 65536, to = around + reach;

	for (uintptr_t bytes = (uintptr_t)64 << 20; bytes >= 65536; bytes /= 8)
		for (uintptr_t at = from & ~(bytes - 1); at < to; at += bytes)
			mmap((void *)at, bytes, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			     0);
}

static int run_crowded(void)
{
	hits(10);
	crowd((uintptr_t)run_crowded);
	crowd((uintptr_t)dlopen);
	hits(1000);
	return run_dlopen();
}

/* Crowded before anybody comes. */
static int run_crowded_first(void)
{
	crowd((uintptr_t)run_crowded);
	crowd((uintptr_t)dlopen);
	inside_wait();
	hits(1000);
	return run_dlopen();
}

static int run_remap(void)
{
	/* anonymous memory over and over, at fixed places that are our own */
	char *own = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 200; i++) {
		char *again = mmap(own, 1 << 20, PROT_READ | PROT_WRITE | (i & 1 ? PROT_EXEC : 0),
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		want(again == own, "the place");
		memset(own, i, 1 << 20);
		hits(2);
		WAYMARK(in, bytes, count_one(), WM_BYTES(own, 5000));
	}
	munmap(own, 1 << 20);
	return 2;
}

/* Without address space randomization, and with the old layout. */
static int run_layout(void)
{
	char *args[] = { inside_argv[0], "remap", NULL };

	hits(10);
	personality(ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT);
	execv(args[0], args);
	return 1;
}

static const struct inside_case cases[] = {
	{ "dlopen", run_dlopen },
	{ "dlopen_threads", run_dlopen_threads },
	{ "constructor", run_constructor },
	{ "crowded", run_crowded },
	{ "remap", run_remap },
	{ "layout", run_layout },
	{ 0 },
};

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "crowded_first")) {
		inside_argv = argv;
		inside_map();
		printf("%d\n", run_crowded_first());
		return 4;
	}
	return inside_main(argc, argv, cases);
}
