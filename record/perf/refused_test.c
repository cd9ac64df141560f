/* SPDX-License-Identifier: MIT */
/* Where perf_event_open(2) is not let through, as in containers. */
#include "record/perf/refused.h"
#include "record/perf/testing/fixture.h"
#include "target/process/target.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <waymark/error.h>

static void waits(struct fixture_shared *own)
{
	fixture_meet(own, 99);
}

/* For this process alone, which the test has to itself. */
static void filter_perf(unsigned int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void refused(unsigned int error, int wanted, const char *reason)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	struct fixture fixture;
	char text[256] = "";
	int err;

	fixture_start(&fixture, waits);
	fixture_wait(&fixture, 1);
	filter_perf(error);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	cr_assert_eq(perf_object_new(&object, &request, (struct detail){ 0 }), 0);
	err = perf_object_arm(object, (struct detail){ text, sizeof(text) });
	cr_assert_eq(err, wanted, "%s", wm_error_text(err));
	cr_assert(strstr(text, reason), "%s", text);
	cr_assert_eq(perf_object_state(object), EVENT_PREPARING);
	perf_object_release(object);
	fixture_end(&fixture);
}

TestSuite(event_refused, .init = fixture_need_breakpoints, .timeout = 30);

Test(event_refused, by_a_filter)
{
	refused(EPERM, -WM_E_PERF_DENIED, PERF_IS_FILTERED);
}

Test(event_refused, by_a_filter_that_knows_no_such_call)
{
	refused(ENOSYS, -ENOSYS, PERF_IS_MISSING);
}

Test(event_refused, kernel_thread_returns_einval)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;

	if (!target_is_kernels(2))
		cr_skip_test("this PID namespace shows no thread of the kernel");
	for (int scope = EVENT_THREAD; scope <= (int)EVENT_PROCESS; scope++) {
		fixture_request(&request, sources, (enum event_scope)scope, 2, 1);
		cr_assert_eq(perf_object_new(&object, &request, (struct detail){ 0 }), 0);
		cr_expect_eq(perf_object_arm(object, (struct detail){ 0 }), -EINVAL);
		cr_expect_eq(perf_object_state(object), EVENT_PREPARING);
		perf_object_release(object);
	}
}
