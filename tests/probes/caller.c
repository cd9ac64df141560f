/* SPDX-License-Identifier: MIT */
/*
 * A program and its library (-DLIBRARY), which has functions that end in what looks at its caller.
 * The program compares what they find with what they must find; caller DIR, where plugin.so is
 * found by the program's run path alone. Prints `ok`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define OWN __attribute__((noinline, noclone, noipa, visibility("default")))

#ifdef LIBRARY
void *find_next(const char *name);
void *load_plugin(const char *name);
void *who(void);
int start_thread(int a);
int savectx(int a);
int assert_failures(int a);

OWN void *find_next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

OWN void *load_plugin(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

OWN void *who(void)
{
	return __builtin_return_address(0);
}

/* Names that libc has, too. */
OWN int start_thread(int a)
{
	return a + 1;
}

OWN int savectx(int a)
{
	return a + 2;
}

OWN int assert_failures(int a)
{
	return a + 3;
}

OWN int puts(const char *text)
{
	int (*next)(const char *) = (int (*)(const char *))find_next("puts");

	if (!next || next == puts)
		abort();
	return next(text);
}
#elif defined(PLUGIN)
int plugin(void);
int plugin(void)
{
	return 3;
}
#else
void *find_next(const char *name);
void *load_plugin(const char *name);
void *who(void);
int start_thread(int a);
int savectx(int a);
int assert_failures(int a);

/* These end in another module's, or in one by a pointer. */
OWN void *load_by_library(const char *name)
{
	return load_plugin(name);
}

OWN void *who_by_library(void)
{
	return who();
}

OWN void *load_here(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static const struct {
	void *(*load)(const char *name);
} ways = { load_here };
static const volatile typeof(ways) *way = (const volatile typeof(ways) *)&ways;

OWN void *load_by_pointer(const char *name)
{
	return way->load(name);
}

static int is_loaded(void *plugin)
{
	if (plugin)
		dlclose(plugin);
	return plugin != NULL;
}

static int is_ours(void *address)
{
	Dl_info info;

	return dladdr(address, &info) && info.dli_fbase == ({
						 Dl_info own;
						 dladdr((void *)is_loaded, &own) ? own.dli_fbase
										 : NULL;
					 });
}

int main(void)
{
	int wrong = 0;

	for (int i = 0; i < 3; i++) {
		wrong += !is_loaded(load_plugin("plugin.so"));
		wrong += !is_loaded(load_by_library("plugin.so")) * 10;
		wrong += !is_loaded(load_by_pointer("plugin.so")) * 100;
		wrong += (!is_ours(who()) || !is_ours(who_by_library())) * 1000;
		wrong += (start_thread(i) + savectx(i) + assert_failures(i) != 3 * i + 6) * 10000;
	}
	if (wrong)
		printf("wrong: %d\n", wrong);
	else
		puts("ok");
	return wrong != 0;
}
#endif
