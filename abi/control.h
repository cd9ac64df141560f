/* SPDX-License-Identifier: MIT */
/*
 * The messages between a tool and an agent.
 *
 * A connection is an AF_UNIX SOCK_SEQPACKET socket and represents one session on one process.
 * Either side may have opened it: a tool connects to an agent that listens (attach,
 * wm_agent_listen), an agent connects to a tool (launch, a child of fork). Both check SO_PEERCRED:
 * the peer must have the same effective uid, or be root. The agent of a process that is
 * set-user-ID, set-group-ID, has capabilities (AT_SECURE) or is not dumpable accepts only root. In
 * both cases the agent speaks first: HELLO.
 *
 * One packet is one message: struct wm_message, then `bytes` of body; 64 KiB at most together. A
 * request carries a serial number; its answer is DONE with that serial, after any MARKER, REFUSED
 * or STORE messages that belong to it. Unknown types are ignored, another version is refused.
 *
 * An agent sends all messages of one moment as one message, BUNDLE: struct control_bundle, then
 * `count` messages, each as it would be alone, followed by one to eight zeros up to a multiple of
 * 8, `bytes` together. If a memfd comes with it (SCM_RIGHTS; sealed against shrinking), the
 * messages are in the memfd, from offset 0, and not in the packet. So the agent never waits for a
 * tool that reads slowly. A bundle holds no other bundle, and no message that carries a descriptor.
 *
 * Sockets are in a directory of mode 0700 that the user owns (both sides check it before use):
 * $XDG_RUNTIME_DIR/waymark if that is set and the user's, else /tmp/waymark-UID; or the name that
 * base/socketdir.h finds if another user owns that one. An agent listens on PID.agent there, or on
 * PID-1.agent and so on if a process of another PID namespace has that name; a tool listens on
 * PID-SERIAL.tool.
 *
 * A launched program finds its tool by WAYMARK_TOOL=PATH and preloads the agent by LD_PRELOAD; the
 * agent passes both on to the programs that it executes. It waits GO_WAIT_MS for GO, so that
 * markers are armed before the program's own code runs. Then the program continues, recorded or
 * not.
 *
 * WAYMARK_FILTERS=NUMBER is the number of seccomp filters of the tool. A program that is executed
 * under more filters has one that might kill it for the agent's system calls; there the agent does
 * nothing at all.
 *
 * A tool's request proves progress for WAIT_MS. A tool that needs longer sends WAIT, at least every
 * WAIT_MS, as long as it makes progress. Then a program that waits for GO continues to wait,
 * WAIT_MAX_MS in all. A tool that hangs or dies sends nothing; an interrupted one sends GO. LATE
 * reports a program that continued without.
 */
#ifndef ABI_CONTROL_H
#define ABI_CONTROL_H

#include <stdint.h>

#define CONTROL_MAGIC 0x6b6d6157u /* "Wamk" */
#define CONTROL_VERSION 17
#define CONTROL_BYTES_MAX 65536
#define CONTROL_BUNDLE_BYTES_MAX (64u << 20)
#define CONTROL_BUNDLE_ALIGN 8u
#define CONTROL_GO_WAIT_MS 5000
#define CONTROL_WAIT_MS 3000
#define CONTROL_WAIT_MAX_MS 60000

/*
 * The agent's threads name themselves by prctl(PR_SET_NAME, name, CONTROL_NAMED, 0, 0). The kernel
 * ignores the number; the engine knows these threads by it. "waymark", the control
 * thread, has descriptors of its own, which no thread of the program's with that name has.
 */
#define CONTROL_NAMED UINT64_C(0x6e614d7779615761)

#define CONTROL_TOOL_ENV "WAYMARK_TOOL"
#define CONTROL_PREARM_ENV "WAYMARK_PREARM"
#define CONTROL_FILTERS_ENV "WAYMARK_FILTERS"

enum control_type {
	/* agent to tool */
	/*
	 * struct control_hello, then the path of the executable, then control_inherited if it says
	 * so
	 */
	CONTROL_HELLO = 1,
	CONTROL_DONE = 2,    /* struct control_done; the answer to a request */
	CONTROL_STORE = 3,   /* struct control_store; carries the memfd (SCM_RIGHTS) */
	CONTROL_EVENT = 4,   /* struct control_event, then its text: an id was given to a marker */
	CONTROL_REFUSED = 5, /* struct control_refused, then the site's text */
	CONTROL_MARKER = 6,  /* struct control_marker, then its text: a line of an answer to LIST */
	CONTROL_MODULE = 7,  /* struct control_module, then its path */
	/* struct control_bundle, then messages, or with a memfd that has them */
	CONTROL_BUNDLE = 8,
	/* struct control_foreign: another tool's breakpoint is at an armed place */
	CONTROL_FOREIGN = 13,
	CONTROL_LATE = 9, /* the program went on without GO */
	/*
	 * struct control_watch_table; carries the memfd, as STORE does (abi/watch.h, as the next
	 * one)
	 */
	CONTROL_WATCH_TABLE = 10,
	CONTROL_WATCH_LOST = 11, /* struct control_watch_lost: the session's watches can't stay */
	/*
	 * Instead of HELLO, or when the agent ends before the program does: struct
	 * control_unrecorded, then the path of the executable
	 */
	CONTROL_UNRECORDED = 14,
	/* carries a socket (SCM_RIGHTS) for a stopper (abi/stopper.h); not answered but there */
	CONTROL_STOPPER = 15,
	CONTROL_HANDLER_FAILED = 16, /* why an object can't be loaded, in words */

	/* tool to agent */
	CONTROL_OPEN = 32,   /* struct control_open, then the path where children find the tool */
	CONTROL_ARM = 33,    /* struct control_rules, then NUL-terminated SUBSYS:EVENT globs */
	CONTROL_DISARM = 34, /* likewise; no glob at all: everything of this session */
	CONTROL_LIST = 35,
	CONTROL_GO = 36,    /* a launched program may run */
	CONTROL_QUIET = 37, /* disarm all; DONE comes when nothing writes to the store any more */
	CONTROL_LEAVE = 38, /* QUIET, then this session is gone; the last ends the agent's thread */
	CONTROL_PLACE = 39, /* struct control_place, then detours, as abi/detour.h says */
	/* struct control_commit: arm what PLACE has prepared, all in one batch */
	CONTROL_COMMIT = 40,
	/* the watches are what they should be with a module; in the order of the MODULEs */
	CONTROL_SEEN = 41,
	CONTROL_WAIT = 42,  /* struct control_wait: who waits for GO is to wait on; not answered */
	CONTROL_ADOPT = 43, /* struct control_adopt: arm what the parent had at the fork */
	/* struct control_watch, then its text: take that watch's hits (abi/watch.h) */
	CONTROL_WATCH = 44,
	CONTROL_UNWATCH = 45, /* struct control_unwatch */
	/* struct control_cost, then as ARM: what the markers armed from here on record besides */
	CONTROL_COST = 46,
	/*
	 * struct control_predicates, then struct predicate (abi/predicate.h), then struct sum_field
	 * (abi/sum.h), then one glob: of the markers armed from here on, which hits are recorded,
	 * or added up
	 */
	CONTROL_PREDICATES = 47,
	CONTROL_HANDLER_FILE = 48, /* struct control_handler_file, then a piece (abi/handler.h) */
	/* struct control_handlers, then struct control_handler: load that object */
	CONTROL_HANDLERS = 49,
	CONTROL_UNLOAD = 50,
};

struct wm_message {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t serial;
	uint32_t bytes;
};

/* How the agent writes text; found out once, when it starts. In order of preference. */
enum control_way {
	WAY_PROC_MEM = 1, /* /proc/self/mem */
	WAY_MPROTECT = 2, /* writable and executable for the moment of the store */
	WAY_NONE = 3,	  /* neither is allowed: only portable and pre-armed sites can be armed */
};

#define HELLO_FORKED 1
#define HELLO_SHARES 2 /* its events go to its parent's store until it has its own (abi/page.h) */

struct control_hello {
	uint32_t pid;
	uint32_t ppid;
	uint32_t agent_tid; /* the control thread: strict mode stops all others */
	uint32_t way;
	uint64_t start_time; /* field 22 of /proc/PID/stat */
	uint32_t uid;
	uint8_t reserved;
	/* a child of fork of a process that this tool records: HELLO_FORKED, _SHARES */
	uint8_t forked;
	uint8_t launched; /* waits for GO */
	uint8_t inherits; /* has what this tool placed in its parent */
};

/*
 * Each COMMIT and ADOPT names a set: a number, not 0, for everything that the session has placed in
 * the process by then. A child of fork has its parent's trampolines, jumps and all, but no session
 * to write for. Its HELLO names the set that its parent had at the fork. A tool that knows that set
 * analyses and sends nothing: ADOPT, behind OPEN and before any other request, arms it all, and
 * DONE has the number of places. Events keep their parent's ids. All ids from `ids` on are the
 * child's own.
 */
struct control_inherited {
	uint64_t set;
	uint32_t ids;
	uint32_t reserved;
};

struct control_commit {
	uint64_t set;	   /* what is placed from now on; 0 or left out: not to be inherited */
	uint32_t replaces; /* what was not placed since the COMMIT before is disarmed */
	uint32_t watches;  /* threads in the loader wait for the session's SEEN */
};

struct control_adopt {
	uint64_t set;	  /* as in HELLO */
	uint64_t as;	  /* the child's own number for it, as with COMMIT */
	uint32_t watches; /* likewise */
	uint32_t reserved;
};

struct control_done {
	int32_t error;	   /* 0, -errno or -WM_E_* */
	uint32_t markers;  /* ARM: markers that match, now; DISARM: markers disarmed */
	uint32_t sites;	   /* sites that changed state */
	uint32_t refused;  /* sites refused; a REFUSED came for each */
	uint64_t ticks;	   /* the store's clock when the last site was live (or dormant) */
	uint64_t batch_ns; /* time from the request's arrival to then */
	/* COMMIT: of the markers, those that are not safe beside uprobes (abi/detour.h) */
	uint32_t unsafe;
	uint32_t reserved;
};

struct control_store {
	uint64_t bytes;
};

struct control_event {
	uint32_t id;
	uint32_t reserved;
	uint8_t types[16];
	/* the site's text follows, NUL-terminated */
};

struct control_refused {
	int32_t error;
	uint32_t reserved;
	uint64_t address; /* of the site; 0 when the marker as a whole is refused */
	uint8_t expected[8], found[8];
	/* the site's text follows; for WM_E_FIELD_TYPES the other site's text after its NUL */
};

/* A program that was launched or executed can't have its agent, or no longer. */
struct control_unrecorded {
	int32_t error; /* why; -errno or -WM_E_* */
	uint32_t reserved;
};

#define CONTROL_HITS_UNKNOWN UINT64_MAX

/*
 * LIST answers with one MARKER for each module that has the marker and each list of field types.
 * Its hits count that name, kind and types in all modules together, and each MARKER repeats the
 * sum: since the agent came, by all threads, for any session.
 */
struct control_marker {
	uint32_t sites;
	uint32_t armed; /* sites that are live, for whatever session */
	uint64_t hits;	/* CONTROL_HITS_UNKNOWN: not counted */
	uint8_t types[16];
	/* the text of its first site follows, then the module's path, each NUL-terminated */
};

struct control_module {
	uint64_t base;
	uint8_t build_id[20];
	uint8_t build_id_bytes;
	uint8_t gone;
	uint8_t reserved[2];
	/* when the agent found it, CLOCK_MONOTONIC, before its code ran; 0: unknown */
	uint64_t came_ns;
};

struct control_bundle {
	uint64_t bytes;
	uint32_t count; /* not 0 */
	uint32_t reserved;
};

/*
 * From its first COMMIT on, which may come without any PLACE, a session gets a MODULE for each
 * module that comes, with markers or without. Its markers are armed before any code of it runs;
 * what the session then places is armed when that is committed.
 *
 * A watch may have to end before a module's code runs (code of Go has no room for a hit's signal).
 * So the thread that loads the module waits for the SEEN of all sessions that have watches, for
 * SEEN_WAIT_MS. It does not wait for one that still has to send SEEN for modules that it was waited
 * for in vain.
 */
#define CONTROL_SEEN_WAIT_MS 5000

struct control_wait {
	uint32_t ms; /* from its arrival on */
	uint32_t reserved;
};

/*
 * Events may be missing since then. Sent again with the end once the event is armed again.
 * CLOCK_MONOTONIC.
 */
struct control_foreign {
	uint32_t id;
	uint32_t reserved;
	uint64_t begin_ns, end_ns; /* end_ns 0: the breakpoint is still there */
};

struct control_open {
	uint64_t buffer_bytes; /* data part of the store; rounded up to pages */
	uint64_t block_ns;
	uint32_t policy;
	uint32_t clock;
	uint32_t tool_pid; /* abi/page.h; 0: children of fork don't write to this store */
	uint32_t reserved;
	uint64_t tsc_hz; /* for the durations of calls */
};

struct control_rules {
	uint32_t count;
	uint32_t strict; /* the tool has stopped the program: wait for no lock, fail with -EBUSY */
};

/*
 * One mask for several globs. Where several match a marker, it records what any of them names, and
 * the most callers.
 *
 * The agent reads counts by system calls, which the tool has made itself, under its own seccomp
 * filters. A target with as many filters has the same ones: it inherited them from the tool, or
 * both did from their container. If a thread has more, DONE has -EACCES, and the values are
 * COST_UNAVAILABLE.
 */
struct control_cost {
	uint32_t count;	  /* globs */
	uint32_t kinds;	  /* a bit for each enum cost_kind (abi/cost.h) */
	uint32_t filters; /* of the tool; where `kinds` are */
	uint32_t callers; /* of a callchain, at most; 0: none (abi/page.h) */
};

/*
 * One spec of markers; none: it wants all hits. A tool with a predicate or a sum in any spec sends
 * this for every spec of markers, before ARM.
 */
struct control_predicates {
	uint32_t count; /* PREDICATES_MAX at most */
	uint16_t is_summed;
	uint16_t sums; /* SUM_FIELDS_MAX at most; 0 with is_summed: hits are counted */
};

_Static_assert(sizeof(struct wm_message) == 16, "fixed");
_Static_assert(sizeof(struct control_hello) == 32, "fixed");
_Static_assert(sizeof(struct control_unrecorded) == 8, "fixed");
_Static_assert(sizeof(struct control_done) == 40, "fixed");
_Static_assert(sizeof(struct control_event) == 24, "fixed");
_Static_assert(sizeof(struct control_refused) == 32, "fixed");
_Static_assert(sizeof(struct control_marker) == 32, "fixed");
_Static_assert(sizeof(struct control_module) == 40, "fixed");
_Static_assert(sizeof(struct control_bundle) == 16, "fixed");
_Static_assert(sizeof(struct control_inherited) == 16, "fixed");
_Static_assert(sizeof(struct control_commit) == 16, "fixed");
_Static_assert(sizeof(struct control_adopt) == 24, "fixed");
_Static_assert(sizeof(struct control_wait) == 8, "fixed");
_Static_assert(sizeof(struct control_foreign) == 24, "fixed");
_Static_assert(sizeof(struct control_open) == 40, "fixed");
_Static_assert(sizeof(struct control_cost) == 16, "fixed");
_Static_assert(sizeof(struct control_predicates) == 8, "fixed");

#endif
