/* SPDX-License-Identifier: MIT */
/*
 * The ledger of claims: who holds debug registers, the branch unit, locked memory,
 * descriptors, a process's SIGTRAP. The kernel lends them and refuses when all are lent, but never
 * says to whom. So each session of Waymark writes down what it takes, and a refused session can
 * name the holder (holder.h).
 *
 * The ledger is advice. It allows nothing and forbids nothing. A ledger that can't be had (a full
 * disk, a folder that is not the user's) changes nothing about a recording, except that
 * ledger_trouble() reports it once.
 *
 * Rule of writing ahead: a claim is written before its unit is opened, and removed after it was
 * closed:
 *
 *	ledger_claim()   -> wanted
 *	open all units, disabled
 *	ledger_confirm() -> held
 *	enable ... close them
 *	ledger_remove()
 *
 * So at each moment, and at whichever step the owner is killed, what is held is in the ledger. An
 * entry that is not held belongs to an owner who is about to open, or has just closed. When an
 * owner ends, the kernel itself removes its entries: a claim counts for as long as its owner's lock
 * on the file exists (ledger_file.h). The lock and the owner's units go with the owner's
 * descriptors.
 *
 * Whose ledger: each user has one, in the folder of the user's sockets (abi/control.h). A claim on
 * a thread or a process is in the ledger of the user that it runs as, all others in the owner's. So
 * a query about a process needs one ledger only. And a user who is refused because root took
 * something on the user's process sees that: the user could not read root's own ledger. Root writes
 * there as that user (target/process/owner.h), maps nothing, waits for no lock and believes
 * nothing: a user can only spoil what the user's own processes see. A ledger is a folder with one
 * file for each struct ledger that has claims (ledger_file.h).
 */
#ifndef TARGET_CLAIM_LEDGER_H
#define TARGET_CLAIM_LEDGER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The ledger's file stores these numbers: add new ones at the end. */
enum claim_resource {
	CLAIM_DEBUG_REGISTER = 1, /* of a thread, or of a CPU */
	CLAIM_BRANCH_UNIT,	  /* Intel PT, BTS or LBR: of the whole machine */
	CLAIM_LOCKED_MEMORY,	  /* bytes, of a user */
	CLAIM_DESCRIPTORS,	  /* of a process, under RLIMIT_NOFILE */
	CLAIM_SIGTRAP,		  /* who handles a process's SIGTRAP */
	CLAIM_COUNTER,		  /* one for each event counted, of a thread, process or CPU */
	CLAIM_RESOURCE_END
};

/* Whose: the scope of a claim, and what claim.target is. */
enum claim_scope {
	CLAIM_OF_THREAD = 1, /* tid */
	CLAIM_OF_PROCESS,    /* pid: each of its threads, now and later, has that many */
	CLAIM_OF_CPU,	     /* number */
	CLAIM_OF_USER,	     /* uid */
	CLAIM_OF_SYSTEM,     /* 0: whatever runs */
	CLAIM_SCOPE_END
};

/* "debug-register" and so on; "?" for an invalid one. */
const char *claim_resource_name(enum claim_resource resource);

/* "thread", "process", "cpu", "user", "system"; "?" for an invalid one. */
const char *claim_scope_name(enum claim_scope scope);

#define CLAIM_WHAT_BYTES 128 /* with its NUL; what is longer is cut, and ends in "..." */

enum claim_state { CLAIM_WANTED = 1, CLAIM_HELD };

/* A hold on something scarce. */
struct claim {
	enum claim_resource resource;
	enum claim_scope scope;
	int32_t target; /* the scope's tid, pid, CPU, uid */
	pid_t pid;	/* of a thread: its process; 0: unknown */
	uint64_t count; /* registers, bytes, descriptors; for each thread of a process */
	/* a watched word and its bytes; of a counter: bytes 0, and type of perf_event_attr */
	uint64_t address;
	uint64_t bytes;
	char what[CLAIM_WHAT_BYTES]; /* what for, as its spec says it: "watch:counter" */
};

/* Who wrote it. */
struct claim_owner {
	pid_t pid;
	uint64_t start_time;	/* field 22 of /proc/PID/stat */
	uint64_t pid_namespace; /* its inode: whose numbers pid and targets are */
	uid_t uid;
	char comm[16];
};

struct ledger;

/*
 * A hand on the ledgers, empty. A session has one; several threads may use it at once. The
 * processes that it forks have no part in it: there, all that follows does nothing, and
 * ledger_free() leaves the parent's claims alone. 0 or -ENOMEM.
 */
int ledger_new(struct ledger **ledger);

/*
 * Write claims, as wanted. ids[count] get what names each of them, never 0. Returns 0, or -ENOMEM
 * with nothing written. Where there is no ledger to be had, that is 0 too: see ledger_trouble().
 * They are written again where the file was lost meanwhile.
 *
 * A process with many threads is one claim of CLAIM_OF_PROCESS, not one each: that is what
 * inherited events are too.
 */
int ledger_claim(struct ledger *ledger, const struct claim *claims, size_t count, uint64_t *ids);

/* wanted -> held: their units are open. */
void ledger_confirm(struct ledger *ledger, const uint64_t *ids, size_t count);

/*
 * A claim has become another, in one step: never neither, never both. Its state stays. 0, -ENOENT:
 * no such id.
 */
int ledger_change(struct ledger *ledger, uint64_t id, const struct claim *claim);

/* Their units are closed. Ids that are 0, or gone already, are passed over. */
void ledger_remove(struct ledger *ledger, const uint64_t *ids, size_t count);

/* Whether a claim is in its file. */
int ledger_has(struct ledger *ledger, uint64_t id);

/*
 * Why claims could not be written, with where in path[bytes] ("" if that is not it): -errno,
 * -WM_E_SOCKET_DIR or -WM_E_LEDGER_FULL. Once for all that went wrong up to now; then, and where
 * nothing did, 0.
 */
int ledger_trouble(struct ledger *ledger, char *path, size_t bytes);

/*
 * Write again what others have removed since, as who cleans /tmp does. ledger_claim() does so too;
 * this is for who has not called for long, now and then.
 */
void ledger_mend(struct ledger *ledger);

/* Remove what is left of its claims, and free it. NULL is allowed. */
void ledger_free(struct ledger *ledger);

/* A claim as it was read. */
struct claim_row {
	struct claim claim;
	struct claim_owner owner;
	enum claim_state state;
	uint64_t since_ns;	/* CLOCK_REALTIME, of its writing */
	uint64_t since_boot_ns; /* CLOCK_BOOTTIME */
	int is_left; /* its owner has ended, and a child of his has the lock, so maybe the unit */
	int is_foreign; /* its numbers are of another PID namespace than ours */
};

struct claim_list {
	struct claim_row *rows;
	size_t count, room;
	struct claim_seen *seen; /* the folders that were read, each once */
	size_t seen_count, seen_room;
	/* rows and files that make no sense: another version's, or spoilt by someone */
	size_t damaged;
};

/*
 * Read what live owners wrote into the ledger of a user, in all folders where it may be. `pid`: a
 * process of that user, or 0. Each row is whole, as one ledger_... above left it. Rows are added to
 * those in *list, which begins as all 0. 0, or why some file could not be read: -errno, or
 * -WM_E_SOCKET_DIR; a missing file is no error. Any thread.
 */
int claim_list_read(struct claim_list *list, uid_t uid, pid_t pid);

/* Of all users that we may read: as root everyone's. As claim_list_read(). */
int claim_list_read_all(struct claim_list *list);

/*
 * Whether a row takes something from who wants `resource` of thread `tid` (of process `pid`) or,
 * where tid is 0, of `cpu`. That of a debug register or counter: a thread's own, its process's, and
 * any CPU's, since the kernel weighs threads and CPUs together.
 */
int claim_row_weighs(const struct claim_row *row, enum claim_resource resource, pid_t pid,
		     pid_t tid, int cpu);

/* NULL is allowed. */
void claim_list_release(struct claim_list *list);

#endif
