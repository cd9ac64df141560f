/* SPDX-License-Identifier: MIT */
/*
 * The registry: every marker of the process, what is to be done at each, and its sites. A variant
 * is one marker name, kind and list of fields, merged over all modules; it is never freed, since a
 * thread may be about to use it at any time. A marker whose sites disagree on the fields has
 * several variants. Where they disagree on the types, only one of them may ever be armed: see
 * change.c.
 *
 * Everything here is called under the agent's lock, except planning_reap() and where noted.
 * Calls that take a struct text may write code.
 */
#ifndef INSIDE_MARKER_MARKER_H
#define INSIDE_MARKER_MARKER_H

#include "inside/marker/module.h"
#include "inside/marker/plan.h"
#include "inside/patch/batch.h"

#include <stdint.h>

struct predicate;
struct sum_field;

struct variant {
	struct marker hit; /* first: wm_record.agent_word points here */
	struct variant *next_in_bucket, *next;
	const char *name; /* "SUBSYSTEM:EVENT" */
	char kind;
	uint8_t types[16];
	uint8_t level;			    /* base/level.h */
	const char *fields;		    /* as written in the source */
	const struct predicate *predicates; /* of a detour: its sessions' */
	uint8_t predicate_count;
	uint8_t predicate_first;      /* those of fields before it are another event's */
	uint8_t is_summed, sum_count; /* of a detour, likewise: abi/sum.h */
	const struct sum_field *sums;
	uint8_t handler;    /* of a detour: its session's number (abi/handler.h); 0: none */
	uint8_t keeps;	    /* plan.h; then predicates of other fields are the return's */
	uint8_t is_once;    /* the event of a call with DETOUR_ONCE */
	uint8_t replaces;   /* likewise, DETOUR_REPLACE */
	struct site *sites; /* in modules that are loaded */
	uint32_t site_count, armed_count;
	uint32_t foreign_sites; /* another tool's byte is there, or was (restored.c) */
	uint64_t held_ns;	/* since when some of them may have been; else, when it was armed */
	uint32_t lanes;		/* sessions in the plan, a bit each */
	uint32_t lanes_next;	/* what they are to be, in a change */
	uint32_t lanes_before;	/* what they were, before that */
	uint32_t number;	/* of its hit counter + 1 (plan.h); 0 before its first plan */
	uint32_t ids[SESSIONS_MAX];    /* EVENT_ID_NONE before the session's first arming */
	uint16_t costs[SESSIONS_MAX];  /* what the events of that id count (cost.h) */
	uint8_t callers[SESSIONS_MAX]; /* how many callers they have at most; 0: no callchain */
	const struct control_detour *record; /* NULL: a marker */
	uint8_t is_return;		     /* of its function */
	struct plan_probe *probes, *probes_next;
	uint32_t probe_count, probe_count_next;
	struct variant *next_in_change;
	uint8_t in_change, was_live;
	uint8_t is_named;	   /* while a request's markers are counted */
	uint8_t is_careful;	   /* its strings may lead anywhere: plan.h */
	uint8_t is_call;	   /* a begin or an end of a detour's calls: PLAN_BEGUN */
	int error;		   /* in a change: why it was refused */
	const struct module *left; /* the last module that went from it */
	/* spans.h: */
	const struct plan_span *spans; /* of an end: with each begin */
	struct variant *begin, *end; /* of a span as one event; NULL: it is a marker or a detour */
	uint8_t is_half;	     /* a begin or an end of such */
};

#define EVENT_ID_NONE UINT32_MAX

/* Several variants to be changed at once; see change.c. Begin with { .lane = -1 }. */
struct change {
	struct variant *variants, *last; /* in the order in which they were added */
	int lane;			 /* the session whose request it is; -1: none */
	/* out */
	uint32_t markers; /* variants that are as wanted */
	uint32_t sites;	  /* that changed state */
	uint32_t refused; /* sites */
	uint32_t unsafe;  /* detours armed that are not safe beside uprobes (abi/detour.h) */
	uint64_t done_ns; /* CLOCK_MONOTONIC when the last site was live, or dormant */
	uint64_t ticks;	  /* the lane's clock then */
};

struct refusal {
	int error;
	const struct site *site;  /* report its text, and its address unless `whole` */
	const struct site *other; /* WM_E_FIELD_TYPES: where it is declared otherwise */
	int whole;		  /* the marker as a whole */
	uint8_t expected[5], found[5];
};

/*
 * How sessions are notified. Only the control thread sets and calls it (a program's own thread
 * notifies none). event(): an id was given; nothing is armed for a session that flush() then names.
 */
struct registry_listener {
	void (*event)(unsigned int lane, uint32_t id, const struct variant *variant);
	void (*refused)(unsigned int lane, const struct refusal *refusal);
	/* to all sessions that want to hear of it: one without markers only to some */
	void (*module)(const struct module *module, int gone);
	/* send all queued messages; returns the sessions, a bit each, that missed one */
	uint32_t (*flush)(void);
	/* another tool's byte replaces the event's from begin_ns to end_ns; 0: still there */
	void (*held)(unsigned int lane, uint32_t id, uint64_t begin_ns, uint64_t end_ns);
};

/*
 * Detours and watches follow the modules in which their places are, whether a tool is there or not.
 */
struct registry_observer {
	/* new: nothing is armed in it yet. NULL: nothing is to be done */
	void (*came)(const struct module *module);
	void (*gone)(const struct module *module); /* its memory is gone: touch nothing there */
	struct registry_observer *next;		   /* the registry's */
};

/* linkmap_init() comes before all of these. `listener` may be NULL. */
void registry_listen(const struct registry_listener *listener);

/* One more, for ever; it is called after those before it. Before the first registry_scan(). */
void registry_observe(struct registry_observer *observer);

/* ---- modules ---- */

/*
 * Look at the loader's list again: new modules' markers are registered, vanished modules forgotten.
 * Nothing is armed yet: see registry_follow(). Returns 0; -EAGAIN if the loader is at work.
 */
int registry_scan(const struct text *text);

/*
 * Arm in modules that are new since the last call what rules and probes want there. 0 or an error.
 */
int registry_follow(const struct text *text);

/* Whether the loader is taking modules away now: nothing may be patched. */
int registry_is_frozen(const struct text *text);

/* The modules, linked by `next`. */
const struct module *registry_modules(void);

/* ---- requests ---- */

/*
 * Add globs to a session's rules (want: arm; else disarm) and carry them out. `globs` are `count`
 * NUL-terminated strings one after another, already checked to be whole. No glob and no want: every
 * rule of the session goes, and what it wants counted or tested. Returns 0 or an error of the
 * request as a whole; refusals of single markers are reported to the listener and counted in
 * *change.
 */
int registry_rule(const struct text *text, unsigned int lane, const char *globs, uint32_t count,
		  int want, struct change *change);

/* A new session in this lane: its event ids start over. */
void registry_lane_open(unsigned int lane);

/* All variants, in the order in which they were found. NULL ends. */
const struct variant *registry_first(void);

/*
 * Disarm text that could not be made dormant before; plan again what lost its plan for want of
 * memory. Returns the number of sites that are left so.
 */
uint32_t registry_retry(const struct text *text);

/* Patch every site permanently (except WAYMARK_IF's, whose code would run): for locked text. */
int registry_prearm(const struct text *text);
int registry_is_prearmed(void);

/* ---- probes of the program itself (include/waymark/probe.h); any thread ---- */

/*
 * Add a probe to the marker `name` of kind `kind`, in all variants of these field types.
 * Returns 0; -WM_E_NO_MARKER if no module has it (with `pending`: 1, and it is added as soon as one
 * does); -WM_E_FIELD_TYPES; -ENOMEM; what refused its sites.
 */
int registry_probe_add(const struct text *text, const char *name, char kind,
		       const uint8_t types[16], const struct plan_probe *probe, int pending);

/*
 * Remove a probe that was added with the same name, kind and members; also a pending one. The
 * caller must then have store_quiesce() return 0, with the lock dropped, before the probe's data
 * may go. Returns 0 or -ENOENT.
 */
int registry_probe_remove(const struct text *text, const char *name, char kind,
			  const struct plan_probe *probe);

/*
 * How many sites call it; -WM_E_FIELD_TYPES: some have other types; else why some don't.
 */
int registry_probe_status(const char *name, char kind, const uint8_t types[16],
			  const struct plan_probe *probe);

/* Whether the program has probes, so that modules to come must be looked at without any session. */
int registry_waits(void);

/* ---- memory, fork ---- */

/*
 * Put the plan (plan.h) that fits a variant's lanes and probes in place; the old one is retired.
 * Returns 0, or -ENOMEM with nothing changed; never fails when there is nothing left to do at the
 * marker.
 */
int planning_publish(struct variant *variant);

/* Take the variant's plan away without allocating. */
void planning_drop(struct variant *variant);

/*
 * Free plans that were replaced, once no hit uses them any more; takes and drops the agent's lock,
 * so the caller must not hold it. `self_ok` as store_quiesce() has it. Returns 0 when nothing is
 * left, -ETIMEDOUT.
 */
int planning_reap(unsigned int timeout_ms, int self_ok);

/*
 * The child of a fork: no session wants anything; the program's own probes stay. `whole`: the lock
 * was held at the fork, so the registry is; else it is abandoned, and 0 is returned.
 *
 * `lanes` are the parent's sessions that follow to the child, a bit for each. They keep their
 * markers.
 */
int registry_forked(int whole, uint32_t lanes);

/*
 * The child's own session `lane` replaces the sessions `of` that it inherits from its parent: an
 * event that `lane` arms is taken from them, so that no hit is recorded twice.
 */
void registry_replace(unsigned int lane, uint32_t of);
uint32_t registry_replaced(unsigned int lane);

/* ---- what other tools do to armed sites (restored.c); as inside/detour/foreign_bytes.h ---- */

/* Sites were armed or disarmed, or have gone. */
void restored_changed(void);

/* What another tool has held is armed, or gone: what is missing ends here. */
void restored_end(struct site *site);

/* Whether any site is armed. */
int restored_any(void);

/* Compare all armed sites; re-arm those that another tool reset, and report since when. */
void restored_look(const struct text *text);

/* ---- inside the registry ---- */

/* The next variant of that name after `variant`; the first for NULL. NULL ends. */
struct variant *registry_next_named(const struct variant *variant, const char *name);
/* Some text may be armed that no session wants: registry_retry() is to look. */
void registry_expect_stuck(void);
/* Another variant of the same name and kind, with other types, that has sites, or NULL. */
const struct variant *registry_rival(const struct variant *variant);
/* Whether the module in memory is still the one registered: its build id, and its records. */
int registry_is_current(const struct module *module, const struct text *text);
void change_add(struct change *change, struct variant *variant);
/* Carry out: lanes_next and probes_next of every variant. 0 or -errno; see change.c. */
int change_commit(struct change *change, const struct text *text);
extern const struct registry_listener *registry_listener;
/* Add a variant, whole but for its place in lists and ids, to those of its name. */
void registry_add(struct variant *variant);
uint32_t registry_next_id(unsigned int lane);

/* How many were given; give the next ones from there on. */
uint32_t registry_ids(unsigned int lane);
void registry_ids_from(unsigned int lane, uint32_t id);

/* Wanted markers that have no site yet. */
int probelist_pending_add(const char *name, char kind, const uint8_t types[16],
			  const struct plan_probe *probe);
int probelist_pending_remove(const char *name, char kind, const struct plan_probe *probe);
int probelist_pending_any(void);
/* Copy what waits for this variant into its probes_next. 0 or -ENOMEM. */
int probelist_pending_claim(struct variant *variant);
/* After the change: what a variant has then waits no longer; what was refused waits on. */
void probelist_pending_settle(void);
int probelist_has(const struct variant *variant, const struct plan_probe *probe);
/* A variant without probes gets those of another. 0 or -ENOMEM. */
int probelist_copy(struct variant *variant, const struct variant *from);
/* probes_next becomes probes, with one more or without one. 0, -ENOMEM or -ENOENT. */
int probelist_with(struct variant *variant, const struct plan_probe *probe);
int probelist_without(struct variant *variant, const struct plan_probe *probe);
void probelist_settle(struct variant *variant, int accepted);

#endif
