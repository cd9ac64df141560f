/* SPDX-License-Identifier: MIT */
/* Threads whose variables are watched, and the numbers of the watches' rows. */
#include "record/watch/thread_variable.h"

#include "abi/watch.h"
#include "record/session/process.h"
#include "record/watch/watching_own.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

static struct process process;
static struct wm_session session = { .processes = &process };
static struct watch_expr expr;
static struct watch_trouble trouble;

static int concerns(pid_t tid, pid_t pid)
{
	expr.options.thread = tid;
	return thread_concerns(&session, pid, &expr, &trouble);
}

Test(thread_variable, expression_concerns_the_process_that_has_its_thread)
{
	pid_t ended = fork();

	if (!ended)
		_exit(0);
	cr_assert_eq(waitpid(ended, NULL, 0), ended);
	process.pid = getpid();
	cr_expect_eq(concerns(0, 1), 1, "no thread is named");
	cr_expect_eq(concerns(WATCH_THREAD_MAIN, 1), 1);
	cr_expect_eq(concerns(gettid(), getpid()), 1);
	cr_expect_eq(concerns(gettid(), 1), 0, "another process of the session has it");
	cr_expect_eq(concerns(1, getpid()), -WM_E_WATCH_NO_TID, "a process that is not recorded");
	cr_expect_eq(concerns(ended, getpid()), -WM_E_WATCH_NO_TID);
	cr_expect_eq(concerns(INT32_MAX, getpid()), -WM_E_WATCH_NO_TID);
}

Test(thread_variable, thread_of_another_start_time_has_ended)
{
	struct thread_owner owner = { .tid = 1, .start_time = UINT64_MAX };

	cr_expect(thread_has_ended(&owner, getpid()));
	cr_expect_not(thread_has_ended(&owner, 1), "a main thread's memory is its process's");
	owner.tid = 0;
	cr_expect_not(thread_has_ended(&owner, getpid()));
}

/* ---- rows ---- */

static struct finding finding = { .session = &session, .process = &process };

static unsigned int watches_of_all(const struct watching *first)
{
	unsigned int count = 0;

	for (; first; first = first->next)
		count += first->count;
	return count;
}

static void begin(void)
{
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	process.link.fd = ends[0];
	process.watch.table = calloc(1, sizeof(*process.watch.table));
	process.watch.next = 63;
	memset(process.watch.table, 0xff, sizeof(*process.watch.table));
	finding.asked.count = 2;
	finding.asked.about[0] = (struct control_watch){ .address = 0x1000, .bytes = 8 };
	finding.asked.about[1] = (struct control_watch){ .address = 0x1008, .bytes = 8 };
}

static void end(void)
{
	while (finding.fresh) {
		struct watching *next = finding.fresh->next;

		for (unsigned int i = 0; i < EVENT_SOURCES_MAX; i++)
			free(finding.fresh->asked[i]);
		free(finding.fresh);
		finding.fresh = next;
	}
	process_forget_requests(&process);
	process_drop_places(&process);
	free(process.watch.table);
}

Test(watch_asking, rows_are_taken_in_turn_and_cleared, .init = begin, .fini = end)
{
	cr_assert_eq(watching_ask(&finding, 0), 0);
	cr_assert_eq(watches_of_all(finding.fresh), 2);
	cr_expect_eq(finding.fresh->all[0].number, 63);
	cr_expect_eq(finding.fresh->all[1].number, 0);
	cr_expect_eq(process.watch.table->rows[63].taken, 0);
	cr_expect_eq(process.watch.table->rows[0].taken, 0);
	cr_expect_eq(process.watch.table->rows[1].taken, UINT64_MAX);
	process.watch.next = 62;
	cr_expect_eq(watch_finding_number(&finding), 62);
	cr_expect_eq(watch_finding_number(&finding), 1, "the two between are taken");
	cr_expect(watch_finding_has(&finding, 0));
	cr_expect_not(watch_finding_has(&finding, 1));
	cr_expect_not(watching_has(&process, 0), "they are not armed yet");
}

Test(watch_asking, watches_of_one_library_end_together, .init = begin, .fini = end)
{
	cr_assert_eq(watching_ask(&finding, 0), 0);
	finding.bond.module = 0x7000;
	finding.asked.count = 1;
	cr_assert_eq(watching_ask(&finding, 1), 0);
	cr_assert_not_null(finding.fresh->next);
	cr_expect_neq(finding.fresh->set, finding.fresh->next->set);
	finding.bond.module = 0;
	cr_assert_eq(watching_ask(&finding, 2), 0);
	cr_expect_eq(finding.fresh->count, 3);
	cr_expect_null(finding.fresh->next->next);
}

Test(watch_asking, chains_have_places_of_their_own, .init = begin, .fini = end)
{
	finding.plan.pointers = 1;
	finding.asked.count = 1;
	cr_assert_eq(watching_ask(&finding, 0), 0);
	cr_assert_eq(watching_ask(&finding, 1), 0);
	cr_assert_not_null(finding.fresh->next);
	cr_expect_eq(finding.fresh->plan.index, 0);
	cr_expect_eq(finding.fresh->next->plan.index, 1);
}

Test(watch_asking, lost_connection_is_reported, .init = begin, .fini = end)
{
	close(process.link.fd);
	process.link.fd = -1;
	cr_expect_eq(watching_ask(&finding, 0), -WM_E_GONE);
	cr_expect_eq(watches_of_all(finding.fresh), 0);
}
