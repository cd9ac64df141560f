/* SPDX-License-Identifier: MIT */
/*
 * spanned WAY: spans within spans, by eight threads. Then, by WAY:
 *
 *	plain	 the program ends
 *	fork	 a child is made in a span. It ends that span, without a begin, and does the same
 *	signals	 meanwhile a handler has spans of the same names, at any moment
 *	jump	 a handler begins spans and jumps out of them
 *	fault	 no more: as many spans as are kept are open. The oldest ends, with a text that
 *		 can't be read yet: there a handler begins as many, and the last ends later
 *	wide	 no more: spans whose begin has more fields than are kept
 *	across	 a span is begun by one thread and ended by another
 *	wait	 a span begins, the program says "ready", waits for a byte to read, and ends it
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

#define THREADS 8
#define ROUNDS 400
#define DEEP 12 /* spans that are open at once */

static const char *const texts[] = { "GET /", "", "POST /a?b=1, 2", NULL };
static char long_text[400];
static sigjmp_buf back;

static void deeper(int thread, int depth)
{
	WAYMARK_BEGIN(job, deep, thread, depth);
	if (depth < DEEP)
		deeper(thread, depth + 1);
	WAYMARK_END(job, deep, WM_FIELD(left, DEEP - depth));
}

static void request(int thread, int round)
{
	const char *path = round % 7 ? texts[round % 4] : long_text;
	short sizes[] = { 1, 2, (short)round };
	unsigned char status = (unsigned char)(round % 200);

	WAYMARK_BEGIN(job, request, thread, round, path, WM_ARRAY(sizes, (size_t)round % 4),
		      WM_ENUM(round % 3, RED, GREEN, BLUE));
	WAYMARK_BEGIN(job, step, round);
	/* 2 ms are slow: the time is the subject of conditions on `duration` */
	if (round % 100 == 50)
		usleep(2000);
	WAYMARK_BEGIN(job, step, WM_FIELD(round, -round));
	if (round % 2)
		WAYMARK_END(job, request, status, WM_FIELD(text, path));
	WAYMARK_END(job, step);
	WAYMARK_END(job, step);
	if (!(round % 2))
		WAYMARK_END(job, request, status, WM_FIELD(text, path));
	{
		WAYMARK_SCOPE(job, scope, thread);
	}
}

static void *work(void *data)
{
	int thread = (int)(long)data;

	for (int round = 0; round < ROUNDS; round++)
		request(thread, round);
	deeper(thread, 1);
	return NULL;
}

static void all(int first)
{
	pthread_t threads[THREADS];

	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(first + i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void on_alarm(int number)
{
	static const char *const path = "signal";
	short sizes[] = { 1 };

	WAYMARK_BEGIN(job, request, WM_FIELD(thread, number), WM_FIELD(round, -1), path,
		      WM_ARRAY(sizes, (size_t)1), WM_ENUM(number % 3, RED, GREEN, BLUE));
	WAYMARK_BEGIN(job, step, WM_FIELD(round, number));
	WAYMARK_END(job, step);
	WAYMARK_END(job, request, WM_FIELD(status, (unsigned char)number), WM_FIELD(text, path));
}

static void on_jump(int number)
{
	WAYMARK_BEGIN(job, step, WM_FIELD(round, 1000 + number));
	WAYMARK_BEGIN(job, left, number);
	siglongjmp(back, 1);
}

static void jump(void)
{
	signal(SIGUSR1, on_jump);
	for (int i = 0; i < 20; i++) {
		WAYMARK_BEGIN(job, step, WM_FIELD(round, i));
		if (!sigsetjmp(back, 1))
			raise(SIGUSR1);
		WAYMARK_END(job, step);
	}
}

#define OPEN 8 /* that are kept */
static char *closed;

static void on_fault(int number)
{
	signal(number, SIG_DFL);
	mprotect(closed, 4096, PROT_READ);
	for (int i = 0; i < OPEN; i++)
		WAYMARK_BEGIN(job, between, number, WM_FIELD(a, 1L), WM_FIELD(b, 2L),
			      WM_FIELD(c, 3L));
}

static void fault(void)
{
	closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGSEGV, on_fault);
	WAYMARK_BEGIN(job, oldest, WM_FIELD(number, 7));
	for (int i = 1; i < OPEN; i++)
		WAYMARK_BEGIN(job, step, WM_FIELD(round, i));
	WAYMARK_END(job, oldest, WM_FIELD(text, closed), WM_FIELD(again, 7));
	WAYMARK_END(job, between);
	for (int i = 1; i < OPEN; i++)
		WAYMARK_END(job, step);
}

static void wide(void)
{
	int of[] = { 1 };

	for (int i = 0; i < 10; i++) {
		WAYMARK_BEGIN(job, wide, WM_ARRAY(of, (size_t)1), WM_FIELD(b, 1L), WM_FIELD(c, 1L),
			      WM_FIELD(d, 1L), WM_FIELD(e, 1L), WM_FIELD(f, 1L), WM_FIELD(g, 1L),
			      WM_FIELD(h, 1L), WM_FIELD(k, 1L), WM_FIELD(l, 1L), WM_FIELD(m, 1L),
			      WM_FIELD(n, 1L), WM_FIELD(o, 1L), WM_FIELD(p, 1L), WM_FIELD(q, 1L),
			      WM_FIELD(r, 1L));
		WAYMARK_END(job, wide);
	}
}

static void *end_other(void *data)
{
	WAYMARK_END(job, across, WM_FIELD(ended, data != NULL));
	return NULL;
}

int main(int count, char **arguments)
{
	const char *way = count > 1 ? arguments[1] : "plain";
	struct itimerval often = { { 0, 700 }, { 0, 700 } }, none = { { 0, 0 }, { 0, 0 } };
	pthread_t thread;
	int number = 1;

	if (!strcmp(way, "fault")) {
		fault();
		return 0;
	}
	if (!strcmp(way, "wide")) {
		wide();
		return 0;
	}
	memset(long_text, 'x', sizeof(long_text) - 1);
	if (!strcmp(way, "signals")) {
		signal(SIGALRM, on_alarm);
		setitimer(ITIMER_REAL, &often, NULL);
	}
	WAYMARK_BEGIN(job, across, number);
	if (!strcmp(way, "wait")) {
		puts("ready");
		fflush(stdout);
		while (getchar() == '\n') {
			WAYMARK_END(job, across, WM_FIELD(ended, 2));
			puts("ended");
			fflush(stdout);
			WAYMARK_BEGIN(job, across, number);
		}
	}
	if (!strcmp(way, "across")) {
		pthread_create(&thread, NULL, end_other, NULL);
		pthread_join(thread, NULL);
	}
	if (!strcmp(way, "jump"))
		jump();
	if (!strcmp(way, "fork")) {
		pid_t child = fork();

		if (!child) {
			WAYMARK_END(job, across, WM_FIELD(ended, 3));
			all(THREADS);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	all(0);
	WAYMARK_END(job, across, WM_FIELD(ended, 1));
	setitimer(ITIMER_REAL, &none, NULL);
	return 0;
}
