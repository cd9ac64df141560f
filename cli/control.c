/* SPDX-License-Identifier: MIT */
/*
 * A request is one packet: "list", "add SPEC", "remove SPEC", "snapshot" or "rotate". So is its
 * answer. Only the recorder's user and root are answered. Each side takes the other for hostile:
 * what comes is bounded, and printed as complain_words() does.
 */
#include "cli/control.h"

#include "base/text_buffer.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/output.h"
#include "record/session/session.h"
#include "record/spec/spec.h"
#include "trace/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <waymark/error.h>

#define SOCKET_NAME ".control"
#define QUEUE 8
#define REQUEST_BYTES 1100 /* what a spec may have, and a word */
#define REQUEST_NS 1000000000u
#define ANSWER_S 60 /* the recorder may have to read many files before it arms */

struct answer {
	int32_t status; /* or a negative error, about which the text is */
	/* of a list: for each spec a line, with a tab and why it is armed nowhere */
	char text[128 * 1024];
};

/* Bind or connect a socket to a name below a descriptor; "": to what the descriptor is. */
static int call_at(int (*call)(int, const struct sockaddr *, socklen_t), int fd, int at,
		   const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d%s", at, name);
	return call(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
}

/* ---- the recorder ---- */

void control_begin(struct control *control, const char *dir)
{
	mode_t before;

	*control = (struct control){ .folder = folder_open(dir), .listener = -1, .client = -1 };
	if (control->folder < 0)
		return;
	unlinkat(control->folder, SOCKET_NAME, 0); /* of a recorder that was killed */
	control->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	before = umask(077);
	if (call_at(bind, control->listener, control->folder, "/" SOCKET_NAME) ||
	    listen(control->listener, QUEUE))
		control_end(control);
	umask(before);
}

static void client_drop(struct control *control)
{
	if (control->client >= 0)
		close(control->client);
	control->client = -1;
}

void control_end(struct control *control)
{
	client_drop(control);
	if (control->listener >= 0)
		close(control->listener);
	if (control->folder >= 0) {
		unlinkat(control->folder, SOCKET_NAME, 0);
		close(control->folder);
	}
	control->listener = control->folder = -1;
}

static void answer(int fd, int32_t status, const char *text)
{
	static struct answer one;
	size_t bytes = strlen(text);

	one.status = bytes < sizeof(one.text) ? status : -E2BIG;
	snprintf(one.text, sizeof(one.text), "%s", text);
	send(fd, &one, offsetof(struct answer, text) + strlen(one.text) + 1,
	     MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void answer_list(int fd, const struct spec_list *specs)
{
	struct text lines = { 0 };

	for (size_t i = 0; i < specs->count; i++) {
		int missing = spec_missing(&specs->all[i]);

		if (!specs->all[i].is_removed)
			text_format(&lines, "%s\t%s\n", specs->all[i].text,
				    missing ? wm_error_text(missing) : "");
	}
	text_add(&lines, "", 0); /* no list is NULL */
	answer(fd, lines.error, lines.error ? "" : lines.at);
	text_release(&lines);
}

static int is_folder_verb(const char *verb)
{
	return !strcmp(verb, "snapshot") || !strcmp(verb, "rotate");
}

static void answer_folder(struct control *control, struct wm_session *session, int is_rotation)
{
	const char *name = "";
	int err = control->folder_write ? control->folder_write(control->data, is_rotation, &name)
					: -EOPNOTSUPP;

	if (err == -EOPNOTSUPP)
		answer(control->client, err,
		       is_rotation ? "record it with --rotate: it is in one folder"
				   : "record it with --last: it keeps nothing in memory");
	else
		answer(control->client, err, err ? wm_session_detail(session) : name);
}

static void obey(struct control *control, struct wm_session *session, const char *request)
{
	int fd = control->client;
	int adds = !strncmp(request, "add ", 4), removes = !strncmp(request, "remove ", 7);
	const char *spec = request + (adds ? 4 : 7);
	int err = -WM_E_PROTOCOL;

	if (!strcmp(request, "list")) {
		answer_list(fd, session->specs);
		return;
	}
	if (is_folder_verb(request)) {
		answer_folder(control, session, !strcmp(request, "rotate"));
		return;
	}
	if (adds || removes)
		err = wm_session_change(session, &spec, (size_t)adds, &spec, (size_t)removes);
	answer(fd, err, err && (adds || removes) ? wm_session_detail(session) : "");
}

static int client_accept(struct control *control)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	control->client = accept4(control->listener, NULL, NULL, SOCK_CLOEXEC);
	control->since_ns = ticks_monotonic_ns();
	if (control->client < 0)
		return 0;
	if (!getsockopt(control->client, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) &&
	    (peer.uid == geteuid() || !peer.uid))
		return 1;
	answer(control->client, -EPERM, "");
	client_drop(control);
	return 0;
}

void control_serve(struct control *control, struct wm_session *session)
{
	char request[REQUEST_BYTES + 1] = "";
	ssize_t got;

	if (control->listener < 0 || (control->client < 0 && !client_accept(control)))
		return;
	got = recv(control->client, request, REQUEST_BYTES, MSG_DONTWAIT | MSG_TRUNC);
	if (got < 0 && errno == EAGAIN && ticks_monotonic_ns() - control->since_ns < REQUEST_NS)
		return;
	if (got > 0 && (size_t)got == strlen(request))
		obey(control, session, request);
	else
		answer(control->client, -WM_E_PROTOCOL, "");
	client_drop(control);
}

/* ---- the command ---- */

static const char usage[] =
	"Usage: waymark control [--json] DIR|PID add SPEC\n"
	"       waymark control [--json] DIR|PID remove SPEC\n"
	"       waymark control [--json] DIR|PID list\n"
	"       waymark control [--json] DIR|PID snapshot\n"
	"       waymark control [--json] DIR|PID rotate\n"
	"\n"
	"Change what a running `waymark record` records: DIR is the folder that it writes, or PID its\n"
	"process. SPEC is an event spec as record's -e takes it; `list` shows those that it has now.\n"
	"`snapshot` has record --last write what it keeps in memory, `rotate` has record --rotate\n"
	"begin a new folder; both print the folder's name.\n"
	"\n"
	"  --json      print what came of it as one JSON object\n"
	"  -h, --help  this text\n";

struct control_options {
	int json;
};

static const struct command_option table[] = {
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(control_options, json), .min = 1 },
	{ .name = NULL },
};
static const struct command_line line = { "control", usage, table, 0 };

/*
 * Connect to the recorder that listens in a folder. The folder may be anyone's: a file that is no
 * socket of the folder's owner, such as a link to another socket, gets no request. Root's request
 * goes to any user's recorder.
 */
static int connect_in(int fd, const char *path)
{
	int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), at, err;
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	struct stat found;

	if (folder < 0)
		return -errno;
	at = openat(folder, SOCKET_NAME, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	err = at < 0 || fstat(at, &found) ? -errno : 0;
	close(folder);
	if (!err && !S_ISSOCK(found.st_mode))
		err = -ENOTSOCK;
	if (!err && geteuid() && found.st_uid != geteuid())
		err = -EACCES;
	if (!err)
		err = call_at(connect, fd, at, "");
	if (!err &&
	    (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) || peer.uid != found.st_uid))
		err = -EACCES;
	if (at >= 0)
		close(at);
	return err;
}

/* Of the folders that the process has open, the one where it listens. */
static int connect_to_process(int fd, const char *pid)
{
	int err = -ESRCH;
	char path[64];
	DIR *folders;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	folders = opendir(path);
	if (!folders)
		return -errno;
	for (struct dirent *entry; err && (entry = readdir(folders));) {
		snprintf(path, sizeof(path), "/proc/%.20s/fd/%.20s", pid, entry->d_name);
		if (entry->d_name[0] != '.' && !connect_in(fd, path))
			err = 0;
	}
	closedir(folders);
	return err;
}

static int connect_to(int fd, const char *where)
{
	return access(where, F_OK) && !where[strspn(where, "0123456789")]
		       ? connect_to_process(fd, where)
		       : connect_in(fd, where);
}

static int ask(int fd, const char *where, const char *request)
{
	struct timeval wait = { .tv_sec = ANSWER_S };
	int err;

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	err = connect_to(fd, where);
	if (!err && send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		err = -errno;
	return err;
}

/* 0, or why there is no answer. */
static int hear(int fd, struct answer *answer)
{
	ssize_t got = recv(fd, answer, sizeof(*answer), 0);

	if (got <= (ssize_t)offsetof(struct answer, text))
		return got < 0 ? -errno : -ECONNRESET;
	((char *)answer)[got - 1] = '\0';
	return 0;
}

static const struct row_column spec_columns[] = {
	{ "spec", ROW_TEXT, ROW_PLAIN, 0, "that is recorded" },
	{ "missing", ROW_TEXT, ROW_PLAIN, 0, "what of it is not; null: nothing" },
};
static ROW_TABLE(spec_table, "spec", "What waymark control lists.", spec_columns);

static const struct row_column control_columns[] = {
	{ "error", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "what failed; null: nothing" },
};
static ROW_TABLE(control_table, "control", "What waymark control --json begins with.",
		 control_columns);

static const struct row_column folder_columns[] = {
	{ "dir", ROW_TEXT, ROW_PLAIN, 0, "the folder that was written, or is written now" },
};
static ROW_TABLE(folder_table, "written", "What waymark control snapshot and rotate print.",
		 folder_columns);

static void show_spec(struct rows *rows, char *spec)
{
	char *missing = strchr(spec, '\t');

	if (!missing)
		return; /* no recorder's */
	*missing++ = '\0';
	ROWS_PUT(rows, spec_columns, row_text(spec), row_words(missing));
}

static int complain_control(const char *where, const char *request, int err,
			    const struct answer *answer)
{
	if (!err && is_folder_verb(request) && answer->status == -EOPNOTSUPP) {
		complain_words("waymark: %s: %s\n", where, answer->text);
		return CLI_FAILED;
	}
	if (!err && (answer->status != -ENOENT || is_folder_verb(request)))
		return complain(answer->status, "%s", answer->text);
	complain_words("waymark: %s: %s\n", err ? where : answer->text,
		       !err		    ? "it is not recorded now"
		       : err == -EAGAIN	    ? "the recorder does not answer"
		       : err == -ECONNRESET ? "the recording ended before it answered"
		       : err == -EACCES	    ? "that is another user's"
					    : "no recording runs here that could be changed");
	return CLI_FAILED;
}

static int run(const char *where, const char *request, int is_json)
{
	static struct answer answer;
	struct rows *rows = output_rows(is_json ? ROWS_JSON : ROWS_TEXT);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int err = ask(fd, where, request);
	int is_folder = is_folder_verb(request);
	char *lines = answer.text;
	struct row_value failed = row_null();
	int status;

	err = err ? err : hear(fd, &answer);
	if (err || answer.status)
		failed = row_text(wm_error_text(err ? err : answer.status));
	rows_record(rows, &control_table, &failed);
	rows_open(rows, is_folder ? &folder_table : &spec_table,
		  &(struct rows_layout){ .is_bare = 1 });
	if (is_folder && !err && !answer.status)
		ROWS_PUT(rows, folder_columns, row_text(answer.text));
	while (!is_folder && !err && !answer.status && *lines)
		show_spec(rows, strsep(&lines, "\n"));
	rows_close(rows);
	status = output_rows_end(CLI_FINE);
	close(fd);
	return err || answer.status ? complain_control(where, request, err, &answer) : status;
}

int cmd_control(int argc, char **argv)
{
	struct control_options options = { 0 };
	int status = command_line_read(&line, argc, argv, &options);
	int count = argc - optind, has_spec;
	char request[REQUEST_BYTES + 1];

	if (status >= 0)
		return status;
	argv += optind;
	has_spec = count > 1 && (!strcmp(argv[1], "add") || !strcmp(argv[1], "remove"));
	if (count != 2 + has_spec ||
	    (!has_spec && strcmp(argv[1], "list") != 0 && !is_folder_verb(argv[1])))
		return complain_usage("control",
				      "a folder or a process, then add SPEC, remove SPEC, "
				      "list, snapshot or rotate");
	if (snprintf(request, sizeof(request), "%s%s%s", argv[1], has_spec ? " " : "",
		     has_spec ? argv[2] : "") >= (int)sizeof(request))
		return complain_usage("control", "a spec has at most 1024 bytes");
	return run(argv[0], request, options.json);
}
