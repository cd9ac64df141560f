/* SPDX-License-Identifier: MIT */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/list.h>
#include <waymark/marker.h>

#define PLACES_MAX 64

struct found {
	unsigned int count;
	int stop_at; /* end the list at this place; 0: never */
	struct {
		char kind;
		char name[64], source[256], module[256];
		uint64_t address;
		unsigned int line, field_count, return_count;
		char fields[4][32];
		int types[4], error;
		char detail[256];
	} places[PLACES_MAX];
};

static inline __attribute__((always_inline)) void inlined(int number)
{
	WAYMARK(list, twice, number, WM_FIELD(half, number / 2));
}

static __attribute__((used, noinline)) void marked(int number)
{
	inlined(number);
	if (number > 3)
		inlined(number + 1);
	WAYMARK_SCOPE(list, span, "text");
}

/* A function with an instruction of 10 bytes. */
__attribute__((used, noinline)) long listed_function(int number, const char *text);

long listed_function(int number, const char *text)
{
	__asm__ volatile("movabs $0x1122334455667788, %%rax" ::: "rax");
	return number + text[0];
}

static int keep(const struct wm_list_place *place, void *data)
{
	struct found *found = data;
	unsigned int i = found->count++;

	cr_assert_lt(i, PLACES_MAX);
	cr_assert_eq(place->size, sizeof(*place));
	found->places[i].kind = place->kind;
	found->places[i].address = place->address;
	found->places[i].line = place->line;
	found->places[i].field_count = place->field_count;
	found->places[i].return_count = place->return_count;
	found->places[i].error = place->error;
	snprintf(found->places[i].name, 64, "%s", place->name);
	snprintf(found->places[i].detail, 256, "%s", place->detail);
	snprintf(found->places[i].source, 256, "%s", place->source);
	snprintf(found->places[i].module, 256, "%s", place->module);
	for (uint32_t f = 0; f < place->field_count && f < 4; f++) {
		snprintf(found->places[i].fields[f], 32, "%s", place->fields[f].name);
		found->places[i].types[f] = place->fields[f].type;
	}
	return (int)found->count == found->stop_at ? 77 : 0;
}

static struct found found;

Test(list, list_file_reports_each_marker_site_and_fields)
{
	unsigned int begins = 0, ends = 0;

	cr_assert_eq(wm_list_file("/proc/self/exe", "marker:list:twice", keep, &found), 0);
	cr_assert_geq(found.count, 2);
	for (unsigned int i = 0; i < found.count; i++) {
		cr_assert_eq(found.places[i].kind, 'm');
		cr_assert_str_eq(found.places[i].name, "list:twice");
		cr_assert_str_eq(found.places[i].module, "/proc/self/exe");
		cr_assert_not_null(strstr(found.places[i].source, "list_test.c"));
		cr_assert_gt(found.places[i].line, 0);
		cr_assert_eq(found.places[i].error, 0);
		cr_assert_eq(found.places[i].field_count, 2);
		cr_assert_str_eq(found.places[i].fields[0], "number");
		cr_assert_str_eq(found.places[i].fields[1], "half");
		cr_assert_eq(found.places[i].types[1], WM_TYPE_I32);
		cr_assert(!i || found.places[i].address > found.places[i - 1].address);
	}
	found.count = 0;
	cr_assert_eq(wm_list_file("/proc/self/exe", "marker:list:s*", keep, &found), 0);
	for (unsigned int i = 0; i < found.count; i++) {
		cr_assert_str_eq(found.places[i].name, "list:span");
		begins += found.places[i].kind == 'b' && found.places[i].address;
		ends += found.places[i].kind == 'e' && !found.places[i].address;
	}
	cr_assert(begins && ends && begins + ends == found.count);
}

Test(list, list_process_reports_addresses_in_process)
{
	/* volatile: else the compiler computes the address + 4, which is no jump target */
	volatile uint64_t at = (uint64_t)(uintptr_t)listed_function;

	cr_assert_eq(wm_list_process(getpid(), "func:listed_function@list_test/ret/", keep, &found),
		     0);
	cr_assert_eq(found.count, 1);
	cr_assert_eq(found.places[0].kind, 'f');
	cr_assert_str_eq(found.places[0].name, "list_test:listed_function");
	cr_assert(found.places[0].address >= at && found.places[0].address <= at + 4,
		  "%lx is not %lx", found.places[0].address, at);
	cr_assert_eq(found.places[0].return_count, 1);
	found.count = 0;
	cr_assert_eq(wm_list_process(getpid(), "marker:list:twice", keep, &found), 0);
	cr_assert_geq(found.count, 2);
	at = (uint64_t)(uintptr_t)marked;
	cr_assert(found.places[0].address >= at && found.places[0].address < at + 4096);
}

Test(list, list_function_reports_parameters)
{
	cr_assert_eq(wm_list_file("/proc/self/exe", "func:listed_function", keep, &found), 0);
	cr_assert_eq(found.count, 1);
	cr_assert_eq(found.places[0].field_count, 2);
	cr_assert_str_eq(found.places[0].fields[0], "number");
	cr_assert_str_eq(found.places[0].fields[1], "text");
	cr_assert_eq(found.places[0].types[1], WM_TYPE_PTR);
	cr_assert_eq(found.places[0].return_count, 0);
}

Test(list, list_glob_matches_whole_names)
{
	static const struct {
		const char *spec;
		unsigned int count; /* 1: or more */
	} specs[] = {
		{ "marker:l?st:*", 1 },
		{ "marker:*:twice", 1 },
		{ "marker:list:tw[!a]ce", 1 },
		{ "marker:list:tw[a-i]ce", 1 },
		{ "marker:list:tw[!i]ce", 0 },
		{ "marker:list:wic*", 0 },
		{ "marker:l?:*", 0 },
		{ "func:listed_[f]unction", 1 },
		{ "func:listed_functio?@*/*", 1 },
		{ "func:isted_*", 0 },
		{ "func:listed_function@*_tes?", 1 },
	};

	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		found.count = 0;
		cr_expect_eq(wm_list_process(getpid(), specs[i].spec, keep, &found), 0, "%s",
			     specs[i].spec);
		cr_expect_eq(found.count > 0, specs[i].count, "%s: %u", specs[i].spec, found.count);
	}
}

Test(list, list_ends_with_callback_result)
{
	found.stop_at = 1;
	cr_assert_eq(wm_list_file("/proc/self/exe", "marker:list:*", keep, &found), 77);
	cr_assert_eq(found.count, 1);
	found.stop_at = 3;
	cr_assert_eq(wm_list_process(getpid(), "func:*", keep, &found), 77);
	cr_assert_eq(found.count, 3);
}

Test(list, list_of_bad_arguments_returns_errors)
{
	pid_t gone = fork();

	if (!gone)
		_exit(0);
	waitpid(gone, NULL, 0);
	cr_expect_eq(wm_list_process(gone, "marker:*:*", keep, &found), -ESRCH);
	cr_expect_eq(wm_list_process(gone, "func:*", keep, &found), -ESRCH);
	cr_expect_eq(wm_list_process(0, "func:*", keep, &found), -EINVAL);
	cr_expect_eq(wm_list_process(1, NULL, keep, &found), -EINVAL);
	cr_expect_eq(wm_list_process(1, "func:*", NULL, NULL), -EINVAL);
	cr_expect_eq(wm_list_file(NULL, "func:*", keep, &found), -EINVAL);
	cr_expect_eq(wm_list_file("/nowhere", "func:*", keep, &found), -ENOENT);
	cr_expect_eq(wm_list_file("/nowhere", "a:b", keep, &found), -ENOENT);
	cr_expect_eq(wm_list_file("/etc/passwd", "usdt:*:*", keep, &found), -WM_E_NOT_ELF);
	cr_expect_eq(wm_list_file("/etc/passwd", "a:*", keep, &found), -WM_E_NOT_ELF);
	cr_expect_eq(wm_list_file("/proc/self/exe", "nonsense", keep, &found), -WM_E_SPEC);
	cr_expect_eq(wm_list_file("/proc/self/exe", "watch:counter", keep, &found), -WM_E_SPEC);
	cr_expect_eq(wm_list_file("/proc/self/exe", "trail/step/", keep, &found), -WM_E_SPEC);
	cr_expect_eq(found.count, 0);
}

Test(list, list_exact_spec_without_match_returns_error)
{
	static const struct {
		const char *spec;
		int error;
	} specs[] = {
		{ "marker:list:nosuch", -WM_E_NO_MARKER },
		{ "func:nosuch", -WM_E_NO_FUNCTION },
		{ "usdt:no:such", -WM_E_NO_USDT },
		{ "func:a@nosuch", -WM_E_NO_MODULE },
		{ "marker:no*:such", 0 },
		{ "func:nosuch*", 0 },
	};

	for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
		cr_expect_eq(wm_list_file("/proc/self/exe", specs[i].spec, keep, &found),
			     specs[i].error, "%s", specs[i].spec);
		cr_expect_eq(wm_list_process(getpid(), specs[i].spec, keep, &found), specs[i].error,
			     "%s", specs[i].spec);
	}
	cr_expect_eq(found.count, 0);
}

Test(list, list_reports_refused_place_with_cause)
{
	unsigned int within = 0;
	uint64_t entry;
	char spec[64];

	cr_assert_eq(wm_list_file("/proc/self/exe", "func:listed_function", keep, &found), 0);
	entry = found.places[0].address;
	for (uint64_t i = 1; i < 10; i++) {
		found = (struct found){ 0 };
		snprintf(spec, sizeof(spec), "addr:exe+0x%lx", entry + i);
		cr_assert_eq(wm_list_file("/proc/self/exe", spec, keep, &found), 0);
		cr_assert_eq(found.count, 1);
		cr_assert_eq(found.places[0].kind, 'a');
		cr_assert_eq(found.places[0].address, entry + i);
		within += found.places[0].error == -WM_E_MID_INSTRUCTION;
	}
	cr_assert_geq(within, 5);
}

/* Start a process that may create no thread. Returns -1 if this machine does not allow that. */
static pid_t threadless_start(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		struct rlimit none = { 0, 0 };

		if (getuid() || (!setgid(65534) && !setuid(65534)))
			if (!setrlimit(RLIMIT_NPROC, &none) && write(ready[1], "", 1) == 1)
				pause();
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1 && waitpid(pid, NULL, 0) == pid)
		pid = -1;
	close(ready[0]);
	return pid;
}

Test(list, list_process_that_can_make_no_thread_refuses_places)
{
	static const char *const specs[] = { "marker:list:twice", "func:listed_function" };
	pid_t pid = threadless_start();

	if (pid < 0)
		cr_skip_test("this user may not change to another, or set a limit");
	for (int i = 0; i < 2; i++) {
		found.count = 0;
		cr_expect_eq(wm_list_process(pid, specs[i], keep, &found), 0);
		cr_expect_gt(found.count, 0);
		cr_expect_eq(found.places[0].error, -WM_E_INJECT, "%s: %d", specs[i],
			     found.places[0].error);
		cr_expect(strstr(found.places[0].detail, "its RLIMIT_NPROC is 0"), "%s: %s",
			  specs[i], found.places[0].detail);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void *list_cancelled(void *data)
{
	pthread_cancel(pthread_self());
	return wm_list_file("/proc/self/exe", "func:listed_function", keep, data) ? NULL : data;
}

Test(list, list_in_cancelled_thread_finishes)
{
	pthread_t thread;
	void *result;

	cr_assert_eq(pthread_create(&thread, NULL, list_cancelled, &found), 0);
	cr_assert_eq(pthread_join(thread, &result), 0);
	cr_assert_eq(result, &found);
}
