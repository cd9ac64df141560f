/* SPDX-License-Identifier: MIT */
/*
 * The trace folder's writer: CTF 1.8, readable by babeltrace2 and Trace Compass.
 *
 *	DIR/metadata		TSDL; whole on disk before any packet that needs it
 *	DIR/facts		a stream: what our reader needs to read the others (trace/facts.h)
 *	DIR/PID-TID[-DEPTH]-N	a stream: the packets of one thread, at one depth of nesting
 *	DIR/cpuCPU-N		a stream of the kernel's events: the packets of one CPU
 *	DIR/cpus-N		likewise: what is counted over several CPUs
 *	DIR/.perf-PID.map	names of code that the process made (trace/perf_map.h)
 *	DIR/.kernel-symbols	names of the kernel's functions (trace/kernel_names.h)
 *	DIR/.index		all packets; how the recording ended (trace/index.h)
 *
 * A packet is written whole or not at all. While the writer is open it holds locks (flock) on the
 * folder and on the index. By the latter a reader knows that more is to come: repairs and
 * compression lock the folder too.
 *
 * One thread at a time uses a writer. Functions return 0 (or what is said) or a negative error.
 */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

#include "abi/control.h"
#include "abi/page.h"
#include "base/enumeration.h"

#include <stddef.h>
#include <stdint.h>

struct trace_writer;

struct trace_process {
	uint32_t pid, ppid;  /* pid 0: the kernel; its packets are of CPUs (struct wm_packet) */
	uint64_t start_time; /* field 22 of /proc/PID/stat */
	uint32_t uid;	     /* whose perf map is trusted (trace/perf_map.h), beside root's */
	const char *exe;
	const char *hostname;
	uint8_t build_id[20];
	uint8_t build_id_bytes;
	uint32_t clock;	   /* enum store_clock */
	uint64_t ticks_hz; /* of that clock; 1,000,000,000 for CLOCK_MONOTONIC */
	char way;	   /* enum life_kind of trace/facts.h */
	uint64_t begin_ns; /* when that was, by the wall clock */
};

/*
 * Make a trace in `dir`, which is made (mode 0700) when it is not there; its parents must be.
 * -WM_E_TRACE_DIR when it is not empty, -WM_E_OUTPUT_OWNER when another user can change it. *writer
 * is released with trace_writer_close(); it is NULL after a failure.
 */
int trace_writer_open(struct trace_writer **writer, const char *dir);

/*
 * The same without a folder: the newest packets are kept in memory, of `bytes` with their heads and
 * of the last `age_ns`; 0: any. 0 or -ENOMEM.
 */
int trace_writer_keep(struct trace_writer **writer, uint64_t bytes, uint64_t age_ns);

/* How long ago the oldest packet came that is kept in memory; 0: none is. */
uint64_t trace_kept_ns(const struct trace_writer *writer);

/*
 * Make the next folder. Errors as of trace_writer_open(), and -EBUSY: there is one. Then note all
 * that the present folder ends with. trace_next_begin() closes that one. It gives the next one what
 * is known of the processes that live, or have packets in memory. The next one has begun also after
 * an error, which is the first of both.
 */
int trace_next_open(struct trace_writer *writer, const char *dir);
int trace_next_begin(struct trace_writer *writer);

/* Write what is kept in memory to the folder that has begun, and from now on all. */
int trace_kept_write(struct trace_writer *writer);

/*
 * Take what is kept in memory, and the folder that has begun, for trace_snapshot_write(), which
 * another thread may call meanwhile. Then there is no folder, and packets are kept as before.
 * *snapshot is NULL after an error. trace_snapshot_free() is called by the writer's thread.
 */
struct trace_snapshot;
int trace_snapshot_take(struct trace_writer *writer, struct trace_snapshot **snapshot);
int trace_snapshot_write(struct trace_snapshot *snapshot);
void trace_snapshot_free(struct trace_snapshot *snapshot);

struct trace_end {
	uint64_t length_ns;	    /* of the recording, without what came before its start */
	uint64_t discarded;	    /* events lost in all, also those that no packet says */
	uint64_t unwritten_blocks;  /* of trails: recorded, but not in the folder */
	uint32_t unwritten_threads; /* that are not in the folder */
};

/*
 * What a recording came to, at its end. The index has room for it from the start, so that a full
 * disk keeps it. The writer adds its own first error.
 */
void trace_end_set(struct trace_writer *writer, const struct trace_end *end);

/*
 * These ("events", "branches") are in memory alone until the recording ends, so that all of them
 * are lost should the recorder be killed. Before the first packet. 0 or -errno.
 */
int trace_in_memory_add(struct trace_writer *writer, const char *what);

/* Note processes of a program that ran unrecorded, and why; once for each pair, at the end. */
void trace_unrecorded_add(struct trace_writer *writer, const char *program, uint64_t processes,
			  const char *reason);

/* What a watch came to, at the end: note it, and then figures under the number that it returns. */
uint32_t trace_watch_add(struct trace_writer *writer, const char *spec);
void trace_figure_add(struct trace_writer *writer, uint32_t watch, const char *name,
		      uint64_t value);

/* Take a process in; what *process points to is copied. Returns its number, 0 or more. */
int trace_process_add(struct trace_writer *writer, const struct trace_process *process);

/* The process has ended, at that time by the wall clock. Once for a process. */
int trace_process_end(struct trace_writer *writer, int process, uint64_t end_ns);

/*
 * No packet of its comes any more, though it may run another program now. So does
 * trace_process_end(). A second later it is past: no folder that begins then has it.
 */
void trace_process_over(struct trace_writer *writer, int process);

/*
 * Declare an event of a process before its first packet that may hold it. `text` is a site's text
 * (abi/site.h), `types` its WM_TYPE_*. The same event given again is ignored; another event under
 * the same id is -EEXIST, a type that doesn't exist -EINVAL, as is an event of the kernel's that
 * does not begin with a pid and a tid.
 */
int trace_event_add(struct trace_writer *writer, int process, uint32_t id, const uint8_t types[16],
		    const char *text);

/* The same, with the names of each field's values. names[i] may be NULL. The writer copies them. */
int trace_event_add_named(struct trace_writer *writer, int process, uint32_t id,
			  const uint8_t types[16], const char *text,
			  const struct enumeration *const names[16]);

/*
 * A process may have events of another one that was added before it, those with an id below `ids`,
 * under the same ids: a child of fork. They are declared as they turn up in its packets, since of
 * thousands it may have a few. Once for a process, and before its first packet.
 */
int trace_events_inherit(struct trace_writer *writer, int process, int from, uint32_t ids);

/* Copy the perf maps of all processes, before the end. 0 or the first error. */
int trace_perf_maps_copy(struct trace_writer *writer);

/*
 * Keep the names of the kernel's functions at these addresses, which the call sorts. Once, before
 * the end. 0 also where the kernel shows no names.
 */
int trace_kernel_names_add(struct trace_writer *writer, uint64_t *addresses, size_t count);

/* Note a module of a process. `ns`: when it came or went; 0: unknown. */
int trace_module_add(struct trace_writer *writer, int process, const struct control_module *module,
		     const char *path, uint64_t ns);

/* A spec that went, and one that came; either may be "". */
struct trace_change {
	const char *from, *to;
	uint64_t begin_ns; /* the wall clock, when the change began */
	uint64_t gap_ns;   /* how long it took: within, processes had either */
};

/* From when to when hits are missing. */
struct trace_gap {
	const char *name;	   /* SUBSYSTEM:EVENT, or the module's path for all of its places */
	const char *cause;	   /* "overwritten", "loaded late" */
	uint64_t begin_ns, end_ns; /* the wall clock; end_ns 0: until now */
};

/* Note it when it begins, and again with its end. */
int trace_gap_add(struct trace_writer *writer, int process, const struct trace_gap *gap);

/* Note it. */
int trace_change_add(struct trace_writer *writer, int process, const struct trace_change *change);

/*
 * Append a packet to its stream, which is named by (process, head->instance) and made when it is
 * new; `events` are in it. Fills in head's magic, stream_id, content_bits and packet_bits.
 * -WM_E_TRACE_FULL when there is no room (nothing of the packet stays behind; it may be tried
 * again), -WM_E_GONE when the process had ended before the folder began, else -errno.
 *
 * A write past RLIMIT_FSIZE raises SIGXFSZ: the program ignores it, or is ended by it.
 */
int trace_packet_write(struct trace_writer *writer, int process, struct wm_packet *head,
		       const void *content, size_t bytes, uint32_t events);

/* An event that was declared is of these triggers, a bit for each; so is one that inherits it. */
void trace_triggers_set(struct trace_writer *writer, int process, uint32_t id, uint32_t triggers);

/*
 * Call for each event in a packet's content, whose fields are at `at`, until that returns other
 * than 0, which is returned. -1: an event was not declared, nor is inherited, or can't be read.
 */
struct trace_class;
int trace_packet_each(const struct trace_writer *writer, int process, const void *content,
		      size_t bytes,
		      int (*call)(const struct trace_class *class, const uint8_t *at, void *data),
		      void *data);

/* Whether all events in a packet's content were declared, or are inherited. */
int trace_packet_is_declared(const struct trace_writer *writer, int process, const void *content,
			     size_t bytes);

/*
 * The clock of `ticks_hz` stood at `ticks` when the wall clock said `realtime_ns`. A clock that was
 * never set is taken from the first packet that uses it. 1,000,000,000 means CLOCK_MONOTONIC, any
 * other rate the TSC.
 */
int trace_clock_set(struct trace_writer *writer, uint64_t ticks_hz, uint64_t ticks,
		    uint64_t realtime_ns);

/* Write what is left, and release everything, also after a failure. NULL is allowed. */
int trace_writer_close(struct trace_writer *writer);

/*
 * Make a damaged trace readable to every CTF reader: what follows the last whole packet of a stream
 * is moved to a hidden file `.cut-STREAM` beside it, and a packet is made to end before the first
 * event in it that can't be read. Returns the number of streams changed, -EBUSY while the trace is
 * being written, -WM_E_TRACE_PACKED, -WM_E_NOT_A_TRACE (also where some of its facts can't be
 * read), -WM_E_OUTPUT_OWNER (trace/folder.h), or -errno.
 */
int trace_repair(const char *dir);

/*
 * Remove all that a trace has in a folder, and the folder if that leaves it empty; keeps_dir: not
 * that. Does nothing in a folder that another user can change.
 */
void trace_remove(const char *dir, int keeps_dir);

#endif
