/* SPDX-License-Identifier: MIT */
/*
 * coverage [NAME FILE PROGRAM ARG...]: which share of a module's functions of more than 5 bytes can
 * take an event at their entry in a running process, by the symbols that there are; the same for
 * all that have a frame, with a name or without. In any form; in those that are safe beside
 * uprobes; with one byte written. Why the others can't, and how long reading the module's code
 * takes.
 *
 * The program runs a few times, since its addresses differ each time. For each line it answers and
 * waits for the next one.
 */
#include "bench/measure.h"
#include "target/code/symbol.h"
#include "target/code/trampoline.h"
#include "record/probe/forms.h"
#include "target/process/loaded.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define SMALL_BYTES 5
#define RUNS_USUAL 25
#define REASONS_MAX 64
#define PIPE_BYTES 4096
#define ANSWER_MS 10000

/* A process that waits. */
struct running {
	pid_t pid;
	int in, out; /* what it reads, what it wrote */
	struct forms_room *room;
	uint64_t base; /* of the module */
};

struct subject {
	const char *name;
	struct running all[MEASURE_RUNS_MAX];
	unsigned int count;
	struct sweep sweep;
	struct counts {
		unsigned int functions;
		unsigned int forms[FORM_FIRST +
				   1]; /* the best, of each function in each process; 0: none */
		struct {
			int err;
			unsigned int count;
		} reasons[REASONS_MAX];
	} named, framed;
};

/* ---- processes ---- */

static void child(char *const argv[], int in, int out)
{
	int null = open("/dev/null", O_WRONLY);

	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
		_exit(127);
	execv(argv[0], argv);
	_exit(127);
}

static int start(struct running *running, char *const argv[])
{
	struct pollfd answer = { .events = POLLIN };
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) ||
	    fcntl(out[1], F_SETPIPE_SZ, PIPE_BYTES) < 0)
		return -errno;
	running->pid = fork();
	if (!running->pid)
		child(argv, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	running->in = in[1];
	running->out = answer.fd = out[0];
	if (running->pid < 0 || write(running->in, "\n", 1) != 1)
		return -errno;
	return poll(&answer, 1, ANSWER_MS) == 1 && answer.revents & POLLIN ? 0 : -ETIMEDOUT;
}

static void end(struct running *running)
{
	forms_room_free(running->room);
	if (running->pid <= 0)
		return;
	kill(running->pid, SIGKILL);
	waitpid(running->pid, NULL, 0);
	close(running->in);
	close(running->out);
}

/* ---- functions ---- */

static void reason_count(struct counts *counts, int err)
{
	int i = 0;

	while (i < REASONS_MAX - 1 && counts->reasons[i].err && counts->reasons[i].err != err)
		i++;
	counts->reasons[i].err = err;
	counts->reasons[i].count++;
}

/* Two arguments by register, as a function's events have. */
static struct code_place entry_at(uint64_t address)
{
	struct code_place place = { .kind = PLACE_FUNCTION,
				    .address = address,
				    .is_entry = 1,
				    .wants_entry = 1,
				    .field_count = 2 };

	for (unsigned int i = 0; i < 2; i++) {
		place.fields[i].type = WM_TYPE_U64;
		place.fields[i].from = (struct code_operand){
			.kind = OPERAND_REGISTER,
			.bytes = 8,
			.reg = (uint8_t)(5 - i),
			.index = OPERAND_NONE,
		};
	}
	return place;
}

static void entry_try(const struct subject *subject, uint64_t address, struct counts *counts)
{
	static struct trampoline trampoline;
	struct code_place place = entry_at(address);
	unsigned int forms[MEASURE_RUNS_MAX] = { 0 }, number = 0;
	int err;

	while (!(err = trampoline_compose(&subject->sweep, &place, number, &trampoline))) {
		for (unsigned int i = 0; i < subject->count; i++)
			forms[i] |= forms_of(&trampoline.detour, subject->all[i].room,
					     subject->all[i].base);
		number++;
	}
	counts->functions++;
	for (unsigned int i = 0; i < subject->count; i++) {
		enum detour_form best = forms_best(forms[i]);

		counts->forms[best]++;
		if (!best)
			reason_count(counts, number ? -WM_E_PUN_TAKEN : err);
	}
}

static void print_share(const char *kind, const struct subject *subject, const char *which,
			double share)
{
	char name[128];

	snprintf(name, sizeof(name), "probe.coverage_%s%s%s", kind, subject->name, which);
	measure_print(name, share, "share");
}

static void print_counts(const struct subject *subject, const char *which,
			 const struct counts *counts)
{
	const unsigned int *forms = counts->forms;
	double all = (double)counts->functions * subject->count;

	all = all > 0 ? all : 1;
	print_share("", subject, which, 1 - forms[0] / all);
	print_share("uprobe_safe_", subject, which, (forms[FORM_BYTE] + forms[FORM_BEHIND]) / all);
	print_share("safe_", subject, which, forms[FORM_BYTE] / all);
	printf("raw coverage_%s%s %u functions in %u processes: %u byte, %u behind, %u first, %u refused\n",
	       subject->name, which, counts->functions, subject->count, forms[FORM_BYTE],
	       forms[FORM_BEHIND], forms[FORM_FIRST], forms[0]);
	for (int i = 0; i < REASONS_MAX && counts->reasons[i].err; i++)
		printf("raw coverage_%s%s %u: %s\n", subject->name, which, counts->reasons[i].count,
		       wm_error_text(counts->reasons[i].err));
}

/* ---- a module ---- */

static int cover(struct subject *subject, struct code_module *module)
{
	const struct code_symbols *symbols = code_module_symbols(module);
	uint64_t start_ns = measure_ns();
	char name[128];
	int err = symbols ? sweep_make(&subject->sweep, module->file, symbols) : -ENOMEM;

	if (err)
		return err;
	snprintf(name, sizeof(name), "probe.sweep_%s_ms", subject->name);
	measure_print(name, (double)(measure_ns() - start_ns) / 1e6, "ms");
	for (size_t i = 0; i < symbols->function_count; i++) {
		const struct code_function *function = &symbols->functions[i];

		if (function->bytes > SMALL_BYTES && !function->is_part &&
		    sweep_part_at(&subject->sweep, function->address))
			entry_try(subject, function->address, &subject->named);
	}
	for (size_t i = 0; i < subject->sweep.frames.count; i++) {
		const struct frame *frame = &subject->sweep.frames.all[i];

		if (frame->end - frame->start > SMALL_BYTES)
			entry_try(subject, frame->start, &subject->framed);
	}
	print_counts(subject, "", &subject->named);
	print_counts(subject, "_frames", &subject->framed);
	return 0;
}

/* One more process, and where the file's module is in it; `list` has the module. */
static int look(struct subject *subject, const char *file, char *const argv[],
		struct loaded_list *list, struct code_module **module)
{
	struct running *running = &subject->all[subject->count++];
	int err = start(running, argv);

	if (!err)
		err = loaded_read(list, running->pid);
	if (!err)
		err = loaded_open(list);
	if (!err)
		err = forms_room_read(&running->room, running->pid);
	for (size_t i = 0; !err && i < list->count; i++) {
		if (list->all[i].error || strcmp(list->all[i].path, file) != 0)
			continue;
		running->base = list->all[i].base;
		*module = list->all[i].module;
		return 0;
	}
	return err ? err : -WM_E_NO_MODULE;
}

static int cover_file(const char *name, const char *file, char *const argv[])
{
	static struct subject subject;
	struct loaded_list lists[MEASURE_RUNS_MAX] = { 0 };
	struct code_module *module = NULL;
	char *path = realpath(file, NULL);
	unsigned int runs = measure_runs(RUNS_USUAL);
	int err = 0;

	subject = (struct subject){ .name = name };
	if (!path || access(argv[0], X_OK)) {
		printf("skipped probe.coverage_%s: %s: %s\n", name, path ? argv[0] : file,
		       strerror(errno));
		free(path);
		return 0;
	}
	for (unsigned int i = 0; i < runs && !err; i++)
		err = look(&subject, path, argv, &lists[i], &module);
	if (!err)
		err = cover(&subject, module);
	if (err)
		fprintf(stderr, "%s in %s: %s\n", path, argv[0], wm_error_text(err));
	sweep_release(&subject.sweep);
	for (unsigned int i = 0; i < subject.count; i++) {
		loaded_release(&lists[i]);
		end(&subject.all[i]);
	}
	free(path);
	return err;
}

int main(int argc, char **argv)
{
	static char *const cat[] = { "/bin/cat", NULL };
	static char *const python[] = { "/usr/bin/python3.11", "-c",
					"import math; input(); print(flush=True); input()", NULL };
	static char *const postgres[] = { "/usr/lib/postgresql/15/bin/postgres",
					  "--describe-config", NULL };
	int err;

	signal(SIGPIPE, SIG_IGN); /* one that ended at once shows in poll() */
	if (argc > 3)
		return cover_file(argv[1], argv[2], argv + 3) ? 1 : 0;
	err = cover_file("libc", "/lib/x86_64-linux-gnu/libc.so.6", cat);
	err |= cover_file("libm", "/lib/x86_64-linux-gnu/libm.so.6", python);
	err |= cover_file("python", python[0], python);
	err |= cover_file("postgres", postgres[0], postgres);
	return err ? 1 : 0;
}
