// SPDX-License-Identifier: MIT
// Preloaded: SIGALRM at 1 kHz, with a handler that uses the stack, the flags, and vector registers.
// At the end it says if no signal came.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile unsigned alarms;
static volatile double sum;

static void alarmed(int signal)
{
	volatile char room[300];

	for (unsigned i = 0; i < sizeof room; i++)
		room[i] = (char)(signal + i);
	sum = sum * 0.5 + room[signal];
	alarms = alarms + 1;
}

__attribute__((constructor)) static void begin(void)
{
	struct sigaction action = { .sa_handler = alarmed, .sa_flags = SA_RESTART };
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

__attribute__((destructor)) static void end(void)
{
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	static const char none[] = "no SIGALRM came\n";

	setitimer(ITIMER_REAL, &never, NULL);
	if (alarms == 0 && write(2, none, sizeof none - 1) < 0)
		return;
}
