/* SPDX-License-Identifier: MIT */
/*
 * An agent made by hand, for tests: a process that listens as one does, answers requests and fills
 * its store when it is armed.
 */
#ifndef SESSION_SAMPLE_AGENT_H
#define SESSION_SAMPLE_AGENT_H

#include <sys/types.h>

enum sample_way {
	SAMPLE_GOOD,
	SAMPLE_DIES,	 /* as soon as its events are written */
	SAMPLE_HANGS_UP, /* as soon as its events are written, and lives on */
	SAMPLE_SILENT,	 /* takes the connection and says nothing */
	SAMPLE_RUBBISH,	 /* speaks, but not our language */
	SAMPLE_OTHER_VERSION,
	SAMPLE_NO_STORE, /* refuses the buffer */
	SAMPLE_UNSEALED, /* gives a store that it may shrink */
	SAMPLE_DEAF,	 /* answers QUIET after SAMPLE_DEAF_MS */
	SAMPLE_DEAF_ARM, /* answers ARM after SAMPLE_DEAF_MS */
	SAMPLE_PARENT,	 /* answers QUIET after SAMPLE_PARENT_MS, in which it has a child */
	SAMPLE_SLOW,	 /* answers QUIET after SAMPLE_SLOW_MS */
	SAMPLE_LOADS,	 /* loads a library before it answers LEAVE */
	SAMPLE_STOPS,	 /* from ARM on a child of its own has it stopped, for SAMPLE_SLOW_MS */
	SAMPLE_ENDS_AT_WATCH,  /* ends instead of answering */
	SAMPLE_LOSES_WATCH,    /* takes it, and says at once that it can't stay */
	SAMPLE_UNSEALED_WATCH, /* gives a plain file for a table */
	SAMPLE_FLOODS,	       /* reports SAMPLE_FLOOD refusals and modules at ARM */
	SAMPLE_AHEAD,	       /* the clock of its events is ahead by minutes */
	SAMPLE_HOLDS, /* at ARM: declares SAMPLE_HOLDS_EACH events and reports as many unknown ones as held */
	SAMPLE_BREAKS, /* sends what is no message at SIGUSR1, and lives on */
	SAMPLE_FORKS,  /* at QUIET it has a child that writes one event SAMPLE_FORK_MS later */
};

#define SAMPLE_EVENT "net:rx"
#define SAMPLE_SLOW_MS 400
/* a tool gives up an agent that sleeps for one second, with a child for five (session/step.c) */
#define SAMPLE_DEAF_MS 4000
#define SAMPLE_PARENT_MS 2000
/* less than a tool waits for a fork to return in the child (session/session.c) */
#define SAMPLE_FORK_MS 100
#define SAMPLE_FORK_MAX_MS 500
#define SAMPLE_FLOOD 30000u
#define SAMPLE_HOLDS_EACH 250000u

struct sample_agent {
	enum sample_way way;
	unsigned int events; /* to write at ARM: one page full of them, the rest in an open one */
	unsigned int losses; /* to count as discarded behind them */
	pid_t pid;
};

/* Start it, in the folder for sockets that the environment names; it listens when this returns. */
void sample_agent_start(struct sample_agent *agent);

/* Kill it and wait for it, unless it has ended. */
void sample_agent_release(struct sample_agent *agent);

#endif
