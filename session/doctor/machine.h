/* SPDX-License-Identifier: MIT */
/*
 * The machine that is looked at, and what is tried on it. Tests make one up: a root with files of /proc and /sys, and
 * calls that answer what they are told to.
 */
#ifndef SESSION_DOCTOR_MACHINE_H
#define SESSION_DOCTOR_MACHINE_H

#include "session/trail/origin.h"

#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>

struct claim_list;
struct launched;

/* What is tried. Each returns 0 or more, or -errno; -ECANCELED where a filter killed who tried. Nothing stays of them. */
struct machine_calls {
	/* a descriptor */
	int (*perf_open)(struct perf_event_attr *attr, pid_t tid, int cpu);
	void (*perf_close)(int fd);
	int (*perf_ring)(int fd, size_t bytes); /* map a ring of so much, and unmap it */
	int (*dumpable)(void);			/* PR_GET_DUMPABLE */
	int (*tsc)(void);			/* may this process read the TSC? */
	int (*sync_core)(void); /* membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE */
	int (*write_code)(
		int by_mprotect); /* store a byte of our own code; else by /proc/thread-self/mem */
	int (*new_code)(int is_writable); /* map memory that can be executed */
	int (*trace_child)(void);	  /* ptrace(2) of a child of ours */
	int (*trace_stranger)(void); /* of a process of our user that is no descendant of ours */
	/* of how many processes of other users, *others of which there are (some hundreds are looked at), may we change the memory? */
	int (*trace_others)(int *others);
	int (*memfd)(void); /* make, size, seal and map one */
	/* in words, who holds registers that a thread (0: ours), or a processor, was refused; "" where nobody is known */
	void (*holders)(pid_t tid, int cpu, char *text, size_t bytes);
	int (*claims)(struct claim_list *list); /* session/claim/ledger.h: claim_list_read_all() */
	/* launched.h */
	void (*launch)(struct launched *launched, char *const argv[]);
	void (*record)(struct launched *launched, char *const argv[]);
};

extern const struct machine_calls machine_kernel;

/* Zeroed: this machine. */
struct machine {
	struct origin_machine origin;	   /* its root is that of all files */
	const struct machine_calls *calls; /* NULL: the kernel's */
	char *const *trial;		   /* a program for launched_try(); NULL: none is started */
};

const struct machine_calls *machine_calls(const struct machine *machine);

/* A file, or NULL; errno says why. */
FILE *machine_open(const struct machine *machine, const char *path);

/* Its path; whole where it fits. */
void machine_path(const struct machine *machine, const char *path, char *full, size_t bytes);

/* The number that a file begins with. 0, or -errno; -EINVAL where there is none. */
int machine_number(const struct machine *machine, const char *path, long *number);

/* The first line, without its end. 0 or -errno. */
int machine_line(const struct machine *machine, const char *path, char *line, size_t bytes);

/* What stands behind the colon of the first line of that name. 0, -ENOENT where there is no such line, or -errno. */
int machine_value(const struct machine *machine, const char *path, const char *name, char *text,
		  size_t bytes);

/* Whether a word is in a text that spaces divide. */
int machine_has_word(const char *text, const char *word);

/* This process's effective capabilities; 0 where they can't be read. */
uint64_t machine_capabilities(const struct machine *machine);

/* Which namespace of that kind we are in, "pid:[4026531836]", in text[bytes]; 0 or -errno. */
int machine_namespace(const struct machine *machine, const char *kind, char *text, size_t bytes);

/* Of those the machine began with: include/linux/proc_ns.h of the kernel. */
#define MACHINE_FIRST_PIDS "pid:[4026531836]"
#define MACHINE_FIRST_USERS "user:[4026531837]"

/*
 * Those that count for what is asked of the whole machine, as perf's events and locked memory are: none in a user namespace of
 * one's own.
 */
uint64_t machine_wide_capabilities(const struct machine *machine);

/* How many seccomp filters, or such a mode, we are under: 0 none, 1 strict, 2 filtered; -1: not known. */
long machine_seccomp(const struct machine *machine);

/* How many processors are online; 1 where that can't be read. */
long machine_processors(const struct machine *machine);

/* A soft limit of ours, as /proc/self/limits calls it: "Max open files". UINT64_MAX: unlimited. 0 or -errno. */
int machine_limit(const struct machine *machine, const char *name, uint64_t *limit);

/* In words, what an errno of the kernel's means for a call that was tried: "EPERM (a seccomp filter)". In text[bytes]; returns it. */
const char *machine_refusal(const struct machine *machine, int err, char *text, size_t bytes);

#endif
