/* SPDX-License-Identifier: MIT */
#include "record/drain/watermark.h"
#include "record/session/adopt.h"
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/session/stopper.h"
#include "record/session/unrecorded.h"
#include "record/spec/names.h"
#include "record/spec/spec.h"
#include "target/process/program.h"
#include "target/process/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

#define TEXTS_BYTES_MAX (64u << 20) /* of all events and modules of a process */
#define MESSAGES_MAX (1 << 17)	    /* in one pass: an agent that floods us must not block others */
#define NAME_BYTES 512

/* Copy what is inherited, which follows the path of the executable with its NUL. */
static void take_inherited(struct process *process, const struct link_message *message)
{
	size_t before = sizeof(process->hello) + strlen(process->exe) + 1;

	if (process->hello.inherits && message->bytes == before + sizeof(process->inherited))
		memcpy(&process->inherited, message->body + before, sizeof(process->inherited));
}

static int take_hello(struct process *process, const struct link_message *message)
{
	struct program program = { 0 };
	char path[64];

	if (process->state != PROCESS_NEW || message->bytes < sizeof(process->hello))
		return -WM_E_PROTOCOL;
	memcpy(&process->hello, message->body, sizeof(process->hello));
	/* the kernel reports the peer's pid, except from another PID namespace */
	if (process->pid <= 0)
		process->pid = (pid_t)process->hello.pid;
	process->exe = strdup((const char *)message->body + sizeof(process->hello));
	if (!process->exe)
		return -ENOMEM;
	take_inherited(process, message);
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)process->pid);
	program_read(&program, path);
	if (process_has_number(process)) {
		memcpy(process->build_id, program.build_id, sizeof(process->build_id));
		process->build_id_bytes = program.build_id_bytes;
	}
	process->state = PROCESS_READY; /* NEW -> READY */
	process->hello_ns = ticks_monotonic_ns();
	return 0;
}

/*
 * A program reports why it can have no agent. Returns that error, which ends the connection. Before
 * the session runs, wm_session_launch() returns it. One that is recorded already reports why its
 * agent ends: what it has recorded is kept.
 */
static int take_unrecorded(struct wm_session *session, struct process *process,
			   const struct link_message *message)
{
	struct control_unrecorded head;

	if (process->state >= PROCESS_HUNG_UP || message->bytes < sizeof(head))
		return -WM_E_PROTOCOL;
	memcpy(&head, message->body, sizeof(head));
	if (head.error >= 0)
		return -WM_E_PROTOCOL;
	if (session->running)
		unrecorded_add(session, process->pid, (const char *)message->body + sizeof(head),
			       head.error, "");
	return process->state == PROCESS_NEW ? head.error : 0;
}

static int take_store(struct wm_session *session, struct process *process,
		      const struct link_message *message)
{
	struct stat file;
	int err;

	if ((process->state != PROCESS_READY && process->state != PROCESS_OPENING) ||
	    message->fd < 0)
		return -WM_E_PROTOCOL;
	process->store_inode = fstat(message->fd, &file) ? 0 : file.st_ino;
	err = drain_new(&process->drain, message->fd, (uint32_t)process->pid);
	if (err)
		return err;
	process->state = PROCESS_OPENED; /* READY, OPENING -> OPENED */
	/* a child that writes to its parent's store is counted with that store */
	session->processes_ever += process->hello.forked != HELLO_SHARES;
	if (session->watermark)
		watermark_add(session->watermark, process->drain);
	return process_trace(session, process);
}

static int take_event(struct wm_session *session, struct process *process,
		      const struct link_message *message)
{
	const char *text = (const char *)message->body + sizeof(struct control_event);
	struct control_event head;
	char name[NAME_BYTES];
	int err;

	process->text_bytes += message->bytes;
	if (message->bytes <= sizeof(head) || process->text_bytes > TEXTS_BYTES_MAX)
		return -WM_E_PROTOCOL;
	memcpy(&head, message->body, sizeof(head));
	if (text[0] && text[1] != 'd' && !spec_name_of(text, name, sizeof(name)))
		spec_count_match(session->specs, name, 1);
	session->markers++;
	err = process_declare(session, process, head.id, head.types, text);
	return err == -E2BIG ? -WM_E_PROTOCOL : err;
}

/*
 * A thread may be in the loader until SEEN. Once a module is gone, even the same file at that base
 * will be another one. Returns 0 or an error that ends the connection.
 */
static int module_changed(struct wm_session *session, struct process *process,
			  const struct control_module *module, const char *path)
{
	int err = 0;

	FOR_SOURCES(source, module)
		err = err ? err : source->module(session, process, module, path);
	if (err > 0)
		return 0;
	if (!err && !module->gone)
		err = process_request(process, CONTROL_SEEN, NULL, 0);
	return err == -WM_E_GONE ? 0 : err;
}

static int take_module(struct wm_session *session, struct process *process,
		       const struct link_message *message)
{
	const char *path = (const char *)message->body + sizeof(struct control_module);
	struct control_module module;
	int err;

	if (message->bytes <= sizeof(module))
		return -WM_E_PROTOCOL;
	memcpy(&module, message->body, sizeof(module));
	process->text_bytes += message->bytes;
	if (module.build_id_bytes > sizeof(module.build_id) ||
	    process->text_bytes > TEXTS_BYTES_MAX)
		return -WM_E_PROTOCOL;
	err = process_module(session, process, &module, path);
	if (err || !process->probed.is_on)
		return err;
	return module_changed(session, process, &module, path);
}

/*
 * Whether the error says that the threads could not be stopped, as jumps of several bytes require.
 */
static int is_threads_error(int error)
{
	return error == -WM_E_NO_PTRACE || error == -WM_E_TRACED || error == -WM_E_SECCOMP ||
	       error == -WM_E_STRICT || error == -WM_E_NO_PROC;
}

static int take_done(struct wm_session *session, struct process *process,
		     const struct link_message *message)
{
	uint16_t type;

	if (message->bytes != sizeof(process->done))
		return -WM_E_PROTOCOL;
	type = process_answered(process, message->serial);
	if (!type && message->serial)
		return 0; /* of a request that was given up */
	process->answered_ns = ticks_monotonic_ns();
	memcpy(&process->done, message->body, sizeof(process->done));
	if (!type) /* unasked: the agent says why it takes no session */
		return process->done.error < 0 ? process->done.error : -WM_E_PROTOCOL;
	if (process->done.error > 0)
		return -WM_E_PROTOCOL;
	/* the agent refused each place separately; markers and other processes may work */
	if (type == CONTROL_COMMIT && is_threads_error(process->done.error))
		process->probed.refusal = process->done.error;
	else if (type == CONTROL_COST && process->done.error == -EACCES && !process->error)
		session_fail(session, -EACCES,
			     "a thread runs under a seccomp filter, which might kill the program "
			     "for the system calls that read counts: leave out /count=.../");
	/* if it can't adopt, adopt_answered() places everything */
	else if (process->done.error && !process->error && type != CONTROL_ADOPT &&
		 type != CONTROL_UNLOAD)
		process->error = process->done.error;
	if (type == CONTROL_ARM || type == CONTROL_COMMIT)
		session->sites += process->done.sites;
	if (type == CONTROL_LEAVE && !process->done.error)
		process->arming = PROCESS_QUIET; /* any -> QUIET */
	/* if it was armed again meanwhile, the answer says nothing of that */
	if (type == CONTROL_QUIET && !process->done.error && process->arming != PROCESS_ARMED)
		process->arming = PROCESS_QUIET; /* DISARMED -> QUIET */
	/* its resource limits allow no store */
	if (type == CONTROL_OPEN && process->done.error && session->running)
		unrecorded_add(session, process->pid, process->exe, process->done.error, "");
	if (type == CONTROL_GO)
		process->runs = 1;
	FOR_SOURCES(source, answered) {
		int err = source->answered(session, process, type);

		if (err)
			return err;
	}
	return type == CONTROL_ADOPT ? adopt_answered(session, process) : 0;
}

static int obey(struct wm_session *session, struct process *process,
		const struct link_message *message)
{
	switch (message->type) {
	case CONTROL_HELLO:
		return take_hello(process, message);
	case CONTROL_DONE:
		return take_done(session, process, message);
	case CONTROL_UNRECORDED:
		return take_unrecorded(session, process, message);
	case CONTROL_STORE:
		return take_store(session, process, message);
	case CONTROL_EVENT:
		return take_event(session, process, message);
	case CONTROL_MODULE:
		return take_module(session, process, message);
	case CONTROL_STOPPER:
		stopper_take(process, message->fd);
		return 0;
	default:
		break;
	}
	FOR_SOURCES(source, message) {
		int err = source->message(session, process, message);

		if (err <= 0)
			return err;
	}
	return 0;
}

/* Its connection is closed because of a message that we could not handle. */
static void note_dropped(struct wm_session *session, struct process *process, int error)
{
	const char *program = process->exe;
	struct target target;
	char words[64];

	process->is_dropped = error;
	snprintf(words, sizeof(words), "process %d is not recorded to its end", (int)process->pid);
	/* the pid may be of another process by now */
	if (!program && (target_read(&target, process->pid) || !process_has_number(process)))
		program = "a process that has ended";
	else if (!program)
		program = *target.exe ? target.exe : target.comm;
	if (session->running || session->is_ending)
		unrecorded_add(session, process->pid, program, error, words);
}

int messages_pump(struct wm_session *session, struct process *process)
{
	struct link_message message;
	int count = 0, err = 0;

	/* handling a message may step the session: meanwhile the next messages wait */
	if (process->state >= PROCESS_HUNG_UP || process->is_pumped)
		return 0;
	/* without an agent there are no messages */
	FOR_SOURCES(source, take)
		if (process->outside)
			return source->take(session, process);
	process->is_pumped = 1;
	while (count < MESSAGES_MAX && (err = link_receive(&process->link, &message)) > 0) {
		count++;
		err = obey(session, process, &message);
		if (message.fd >= 0)
			close(message.fd);
		if (err == -WM_E_TRACE_FULL || err == -ENOSPC) {
			/* an error of the folder, not of the process */
			if (!session->trace_error)
				session->trace_error = err;
			continue;
		}
		if (err)
			break;
	}
	process->unread = count == MESSAGES_MAX;
	process->is_pumped = 0;
	if (err < 0)
		process_hang_up(process, err);
	/* the excepted messages carry the cause, which is reported elsewhere */
	if (err < 0 && err != -WM_E_GONE && message.type != CONTROL_UNRECORDED &&
	    (message.type != CONTROL_DONE || err == -WM_E_PROTOCOL))
		note_dropped(session, process, err);
	return count;
}
