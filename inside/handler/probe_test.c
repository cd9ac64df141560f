/* SPDX-License-Identifier: MIT */
/* include/waymark/probe.h, as a program uses it. */
#include "base/testing/await.h"

#include <waymark/marker.h>
#include <waymark/probe.h>

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define HANDLERS 200

WM_PROBE(tests, turn, int);

static __attribute__((noinline)) void turn(int number)
{
	WAYMARK(tests, turn, number);
}

static void add_number(void *data, int number)
{
	__atomic_add_fetch((int *)data, number, __ATOMIC_RELAXED);
}

Test(probe, null_pointers_return_einval)
{
	static const unsigned char types[16] = { WM_TYPE_I32 };
	struct wm_probe *probe = (void *)1;
	wm_probe_fn fn = (wm_probe_fn)add_number;
	wm_probe_call call = wm_probe_add_tests_turn_call;

	cr_expect_eq(wm_probe_add(NULL, "tests:turn", 'm', types, call, fn, NULL), -EINVAL);
	cr_expect_eq(wm_probe_add(&probe, NULL, 'm', types, call, fn, NULL), -EINVAL);
	cr_expect_null(probe);
	cr_expect_eq(wm_probe_add(&probe, "tests:turn", 'm', NULL, call, fn, NULL), -EINVAL);
	cr_expect_eq(wm_probe_add(&probe, "tests:turn", 'm', types, NULL, fn, NULL), -EINVAL);
	cr_expect_eq(wm_probe_add(&probe, "tests:turn", 'm', types, call, NULL, NULL), -EINVAL);
	cr_expect_eq(wm_probe_remove(NULL), 0);
}

Test(probe, one_marker_takes_many_handlers, .timeout = 60)
{
	struct wm_probe *probes[HANDLERS];
	int sums[HANDLERS] = { 0 };

	for (int i = 0; i < HANDLERS; i++)
		cr_assert_eq(wm_probe_add_tests_turn(&probes[i], add_number, &sums[i]), 0, "%d", i);
	turn(3);
	for (int i = 0; i < HANDLERS; i++)
		cr_expect_eq(sums[i], 3, "%d: %d", i, sums[i]);
	for (int i = 0; i < HANDLERS; i++)
		cr_assert_eq(wm_probe_remove(probes[i]), 0, "%d", i);
	turn(5);
	for (int i = 0; i < HANDLERS; i++)
		cr_expect_eq(sums[i], 3, "%d: %d", i, sums[i]);
}

WM_PROBE(module, call, int);

static void *module_open(const char *variable)
{
	void *module = dlopen(getenv(variable), RTLD_NOW | RTLD_LOCAL);

	cr_assert(module, "%s", dlerror());
	return module;
}

static void module_call(void *module)
{
	void (*call)(void) = (void (*)(void))dlsym(module, "module_function");

	cr_assert(call);
	call();
}

Test(probe, status_names_a_late_marker_with_other_types, .timeout = 100)
{
	struct wm_probe *probe;
	void *other, *same;
	int sum = 0;

	cr_expect_eq(wm_probe_status(NULL), -EINVAL);
	cr_assert_eq(wm_probe_add_module_call(&probe, add_number, &sum), 1);
	cr_assert(probe);
	cr_expect_eq(wm_probe_status(probe), 0);
	other = module_open("WAYMARK_TEST_MODULE_LONG");
	cr_expect(AWAIT(wm_probe_status(probe) == -WM_E_FIELD_TYPES));
	module_call(other);
	/* two modules disagree: neither calls the handler, which waits on */
	same = module_open("WAYMARK_TEST_MODULE");
	cr_expect_eq(wm_probe_status(probe), -WM_E_FIELD_TYPES);
	module_call(same);
	dlclose(same);
	dlclose(other);
	cr_expect(AWAIT(wm_probe_status(probe) == 0));
	cr_expect_eq(sum, 0);
	same = module_open("WAYMARK_TEST_MODULE");
	cr_expect(AWAIT(wm_probe_status(probe) == 1));
	module_call(same);
	cr_expect_eq(sum, 1);
	cr_expect_eq(wm_probe_remove(probe), 0);
	dlclose(same);
}

/* A library that is loaded again may have changed its types, and may change them back. */
Test(probe, status_follows_a_library_that_changes_its_types, .timeout = 100)
{
	struct wm_probe *probe, *late;
	void *same = module_open("WAYMARK_TEST_MODULE"), *other;
	int sum = 0, late_sum = 0;

	cr_assert_eq(wm_probe_add_module_call(&probe, add_number, &sum), 0);
	cr_expect_eq(wm_probe_status(probe), 1);
	module_call(same);
	cr_expect_eq(sum, 1);
	dlclose(same);
	cr_expect(AWAIT(wm_probe_status(probe) == 0));
	/* one that is added between the two waits, as the first does */
	cr_assert_eq(wm_probe_add_module_call(&late, add_number, &late_sum), 1);
	other = module_open("WAYMARK_TEST_MODULE_LONG");
	cr_expect(AWAIT(wm_probe_status(probe) == -WM_E_FIELD_TYPES));
	cr_expect_eq(wm_probe_status(late), -WM_E_FIELD_TYPES);
	module_call(other);
	cr_expect_eq(sum, 1);
	dlclose(other);
	cr_expect(AWAIT(wm_probe_status(probe) == 0));
	same = module_open("WAYMARK_TEST_MODULE");
	cr_expect(AWAIT(wm_probe_status(probe) == 1 && wm_probe_status(late) == 1));
	module_call(same);
	cr_expect_eq(sum, 2);
	cr_expect_eq(late_sum, 1);
	cr_expect_eq(wm_probe_remove(late), 0);
	cr_expect_eq(wm_probe_remove(probe), 0);
	dlclose(same);
}

static struct wm_probe *own_probe;
static int is_over, nulls, removals, errors;

/* Takes itself away; it may run before wm_probe_add() has returned. */
static void remove_itself(void *data, int number)
{
	struct wm_probe *probe = __atomic_exchange_n(&own_probe, NULL, __ATOMIC_ACQ_REL);

	(void)data, (void)number;
	if (!probe)
		__atomic_add_fetch(&nulls, 1, __ATOMIC_RELAXED);
	else if (wm_probe_remove(probe))
		__atomic_add_fetch(&errors, 1, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&removals, 1, __ATOMIC_RELEASE);
}

static void *take_turns(void *unused)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		turn(1);
	return unused;
}

Test(probe, handler_that_runs_at_once_can_remove_itself, .timeout = 100)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, take_turns, NULL), 0);
	for (int i = 1; i <= HANDLERS; i++) {
		cr_assert_eq(wm_probe_add_tests_turn(&own_probe, remove_itself, NULL), 0);
		cr_assert(AWAIT(__atomic_load_n(&removals, __ATOMIC_ACQUIRE) == i ||
				__atomic_load_n(&nulls, __ATOMIC_RELAXED) ||
				__atomic_load_n(&errors, __ATOMIC_RELAXED)));
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	cr_expect_eq(nulls, 0);
	cr_expect_eq(errors, 0);
	cr_expect_eq(removals, HANDLERS);
}
