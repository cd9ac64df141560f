/* SPDX-License-Identifier: MIT */
/*
 * A fake agent for tests: a process that listens as an agent does, answers requests, and fills its
 * store when it is armed.
 */
#ifndef RECORD_SESSION_TESTING_AGENT_H
#define RECORD_SESSION_TESTING_AGENT_H

#include <sys/types.h>

enum sample_way {
	SAMPLE_GOOD,
	SAMPLE_DIES,	 /* as soon as its events are written */
	SAMPLE_HANGS_UP, /* as soon as its events are written, and lives on */
	SAMPLE_SILENT,	 /* accepts the connection and sends nothing */
	SAMPLE_RUBBISH,	 /* sends messages with a wrong magic */
	SAMPLE_OTHER_VERSION,
	SAMPLE_NO_STORE,      /* refuses the buffer */
	SAMPLE_UNSEALED,      /* passes a store that it could shrink */
	SAMPLE_DEAF,	      /* answers QUIET and DISARM after SAMPLE_DEAF_MS */
	SAMPLE_DEAF_ARM,      /* answers ARM after SAMPLE_DEAF_MS */
	SAMPLE_PARENT,	      /* answers QUIET after SAMPLE_PARENT_MS, and has a child until then */
	SAMPLE_SLOW,	      /* answers QUIET after SAMPLE_SLOW_MS */
	SAMPLE_LOADS,	      /* loads a library before it answers LEAVE */
	SAMPLE_STOPS,	      /* after ARM a child of its own stops it for SAMPLE_SLOW_MS */
	SAMPLE_ENDS_AT_WATCH, /* exits instead of answering */
	SAMPLE_LOSES_WATCH,   /* accepts it, and reports at once that it can't stay */
	SAMPLE_UNSEALED_WATCH, /* passes a plain file as the table */
	SAMPLE_FLOODS,	       /* reports SAMPLE_FLOOD refusals and modules at ARM */
	SAMPLE_AHEAD,	       /* the clock of its events is ahead by minutes */
	/* at ARM declares SAMPLE_HOLDS_EACH events, and reports as many unknown ones as held */
	SAMPLE_HOLDS,
	SAMPLE_BREAKS, /* at SIGUSR1 sends an invalid message, and lives on */
	SAMPLE_FORKS,  /* at QUIET has a child that writes one event SAMPLE_FORK_MS later */
};

#define SAMPLE_EVENT "net:rx"
#define SAMPLE_SLOW_MS 400
/*
 * the tool gives up an agent that sleeps for one second, or for five with a child
 * (record/session/event_loop.c)
 */
#define SAMPLE_DEAF_MS 4000
#define SAMPLE_PARENT_MS 2000
/* shorter than the tool waits for a fork to return in the child (record/session/session_stop.c) */
#define SAMPLE_FORK_MS 100
#define SAMPLE_FORK_MAX_MS 500
#define SAMPLE_FLOOD 30000u
#define SAMPLE_HOLDS_EACH 250000u

struct sample_agent {
	enum sample_way way;
	unsigned int events;	 /* to write at ARM: full pages, and the rest in an open one */
	unsigned int losses;	 /* to count as discarded after them */
	unsigned int undeclared; /* with SAMPLE_BREAKS: to write before that, under an unknown id */
	int *is_armed;		 /* shared memory: 1 after ARM, 0 after DISARM; NULL: not noted */
	pid_t pid;
};

/* Start it, with its socket in the folder that the environment names. It listens on return. */
void sample_agent_start(struct sample_agent *agent);

/* Kill it and reap it. */
void sample_agent_release(struct sample_agent *agent);

#endif
