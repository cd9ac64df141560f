/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "session/watch/watching.h"

#include "session/event/object.h"
#include "session/loaded.h"
#include "session/process.h"
#include "session/sealed.h"
#include "session/target.h"
#include "session/watch/ask.h"
#include "session/watch/locals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <waymark/error.h>

#define KERNEL_MAJOR                                                                               \
	5 /* since 5.18 a hit while SIGTRAP is blocked does not kill (send_sig_perf()) */
#define KERNEL_MINOR 18
#define ON_ITS_WAY_TRIES 40
#define ON_ITS_WAY_US 500
#define NOBODY_KNOWS UINT64_MAX
#define AGENT_NAME "libwaymark-agent.so"

struct watched {
	size_t spec;
	uint64_t address;
	uint8_t bytes;
};

/* Of one process. Pieces are numbered as they come: that is their source in the object, too. */
struct watching {
	struct event_object *object;
	struct watch_table *table;
	pid_t pid;
	uint32_t magic;
	unsigned int count;
	struct watched all[EVENT_SOURCES_MAX];
	struct locals *locals; /* of local variables; NULL: there are none */
	int is_asked;	       /* the agent was */
	/* it is worked on in steps, in which the process may end or the agent let go: that is only noted */
	int is_arming;
	int has_ended;
	int lost; /* why */
};

/* ---- what is wanted ---- */

static size_t count_wanted(const struct wm_session *session)
{
	size_t count = 0;

	for (size_t i = 0; i < session->specs.count; i++)
		count += session->specs.all[i].watch != NULL;
	return count;
}

static int kernel_is_new_enough(void)
{
	struct utsname name;
	int major, minor;

	if (uname(&name) || sscanf(name.release, "%d.%d", &major, &minor) != 2)
		return 0;
	return major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR);
}

static int fail(struct wm_session *session, const struct spec *spec, int err, const char *detail)
{
	return session_fail(session, err, "%s%s%s", spec->text, *detail ? ": " : "", detail);
}

/* NULL: no memory. */
static struct watched_spec *results(struct wm_session *session, size_t spec)
{
	struct watched_list *list = &session->watched;
	const struct spec *about = &session->specs.all[spec];

	if (!list->all) {
		list->all = calloc(session->specs.count, sizeof(*list->all));
		list->count = list->all ? session->specs.count : 0;
	}
	if (!list->all)
		return NULL;
	if (!list->all[spec].text)
		list->all[spec].text = strdup(about->text);
	list->all[spec].is_code = about->watch->kind == WATCH_EXECUTE;
	return list->all[spec].text ? &list->all[spec] : NULL;
}

void watched_list_release(struct watched_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		watch_type_release(&list->all[i].type);
		free(list->all[i].text);
	}
	free(list->all);
	*list = (struct watched_list){ 0 };
}

/* A pass over one process's expressions. */
struct finding {
	struct wm_session *session;
	struct process *process;
	struct watching *watching;
	struct loaded_list list;
	struct code_module **modules; /* the program's own: without the agent */
	size_t module_count;
	struct asked_watch asked;
};

static int on_beat(size_t done, size_t total, void *data)
{
	struct finding *finding = data;
	struct session_progress progress = { "debug information", done, total };

	finding->process->probed.steps++;
	return patience_beat(finding->session, &progress);
}

static void set_pulse(struct finding *finding, struct code_pulse pulse)
{
	for (size_t i = 0; i < finding->list.module_count; i++)
		finding->list.modules[i]->file->pulse = pulse;
}

static int is_mapped(const struct code_process *process, uint64_t address, uint64_t bytes)
{
	const struct code_memory *memory = &process->memory;
	uint8_t byte;

	return !memory->read(memory->data, address, &byte, 1) &&
	       (bytes < 2 || !memory->read(memory->data, address + bytes - 1, &byte, 1));
}

static void describe(struct watched_spec *result, const struct spec *spec,
		     struct watch_place *place)
{
	result->bytes = place->bytes;
	result->callers_asked = spec->watch->options.frames;
	result->callers = spec->watch->options.frames < WATCH_CALLERS_MAX
				  ? spec->watch->options.frames
				  : WATCH_CALLERS_MAX;
	watch_type_release(&result->type);
	result->type = place->type;
	place->type = (struct watch_type){ 0 };
}

/* Where an expression's value lies in the process, and what is asked of the agent for it. */
static int find_one(struct finding *finding, const struct spec *spec, struct watched_spec *result)
{
	struct code_process process = loaded_process(&finding->list);
	struct watch_place place = { 0 };
	struct watch_trouble trouble = { 0 };
	uint64_t address = 0;
	int err = watch_place_find(&place, spec->watch, finding->modules, finding->module_count,
				   &trouble);

	finding->asked.count = 0; /* a frame's is asked for when all are known */
	if (!err && place.base == WATCH_IN_FRAME) {
		err = locals_want(&finding->watching->locals,
				  (size_t)(spec - finding->session->specs.all), spec->text,
				  spec->watch, &place, &trouble);
		if (!err)
			describe(result, spec, &place);
		watch_place_release(&place);
		return err ? fail(finding->session, spec, err, trouble.detail) : 0;
	}
	if (!err && place.base == WATCH_IN_THREAD)
		err = watch_trouble_set(&trouble, -WM_E_WATCH_THREAD, 0, 0, "%s", "");
	if (!err)
		err = watch_place_address(&place, &process.memory, 0, &address, &trouble);
	if (!err && !is_mapped(&process, address, place.bytes))
		err = watch_trouble_set(&trouble, -WM_E_WATCH_UNMAPPED, 0, 0, "0x%llx",
					(unsigned long long)address);
	if (!err)
		err = ask_make(&finding->asked, spec->watch, &place, address, &trouble);
	if (!err && finding->watching->count + finding->asked.count > EVENT_SOURCES_MAX)
		err = watch_trouble_set(&trouble, -WM_E_WATCH_LARGE, 0, 0,
					"with the watches before it, it would be the %uth register",
					finding->watching->count + finding->asked.count);
	if (!err) {
		result->address = address;
		result->pieces = finding->asked.count;
		describe(result, spec, &place);
	}
	watch_place_release(&place);
	return err ? fail(finding->session, spec, err, trouble.detail) : 0;
}

/* ---- the agent ---- */

static int ask_one(struct finding *finding, size_t spec)
{
	struct watching *watching = finding->watching;
	struct asked_watch *asked = &finding->asked;
	unsigned int first = watching->count;

	for (unsigned int i = 0; i < asked->count; i++) {
		struct control_watch about = asked->about[i];
		struct iovec parts[] = { { &about, sizeof(about) },
					 { asked->text, strlen(asked->text) + 1 } };
		int has_text = !i && asked->text[0], err;

		about.number = watching->count;
		about.magic = watching->magic;
		about.event = (uint16_t)(asked->text[0] ? first : watching->count);
		err = process_request(finding->process, CONTROL_WATCH, parts, has_text ? 2 : 1);
		if (err)
			return err;
		watching->is_asked = 1;
		watching->all[watching->count++] = (struct watched){ spec, about.address,
								     about.bytes };
	}
	return 0;
}

/* What the agent calls its variables is nobody's business. */
static int choose_modules(struct finding *finding)
{
	finding->modules = calloc(finding->list.module_count + 1, sizeof(struct code_module *));
	if (!finding->modules)
		return -ENOMEM;
	for (size_t i = 0; i < finding->list.module_count; i++) {
		struct code_module *module = finding->list.modules[i];
		const char *name = strrchr(module->file->path, '/');

		if (strcmp(name ? name + 1 : module->file->path, AGENT_NAME))
			finding->modules[finding->module_count++] = module;
	}
	return 0;
}

/* A hit's signal comes on the stack that its thread is on. */
static int refuse_go(const struct finding *finding)
{
	for (size_t i = 0; i < finding->module_count; i++)
		if (code_file_is_go(finding->modules[i]->file))
			return session_fail(finding->session, -WM_E_WATCH_GO, "%s",
					    finding->modules[i]->file->path);
	return 0;
}

static int find_all(struct finding *finding)
{
	struct wm_session *session = finding->session;
	int err = loaded_read(&finding->list, finding->process->pid);

	if (err == -ESRCH)
		return -WM_E_GONE;
	if (!err)
		err = loaded_open(&finding->list);
	if (!err)
		err = choose_modules(finding);
	if (err)
		return session_fail(session, err, "pid %d", (int)finding->process->pid);
	err = refuse_go(finding);
	set_pulse(finding, (struct code_pulse){ on_beat, finding });
	for (size_t i = 0; i < session->specs.count && !err; i++) {
		struct watched_spec *result;

		if (!session->specs.all[i].watch)
			continue;
		result = results(session, i);
		err = result ? find_one(finding, &session->specs.all[i], result) : -ENOMEM;
		if (!err)
			err = ask_one(finding, i);
	}
	if (!err && finding->watching->locals)
		err = locals_ask(finding->watching->locals, session, finding->process,
				 finding->watching->count, finding->watching->magic,
				 &finding->watching->is_asked);
	if (!err && finding->watching->locals && !finding->process->hello.launched)
		err = locals_ask_living(finding->watching->locals, finding->process,
					finding->list.modules, finding->list.module_count);
	set_pulse(finding, (struct code_pulse){ 0 });
	return err;
}

int watching_table(struct process *process, int fd, uint64_t bytes)
{
	struct watching *watching = process->watching;
	uint64_t file_bytes;
	void *map;

	if (!watching || watching->table)
		return 0;
	if (bytes != sizeof(*watching->table) || sealed_bytes(fd, &file_bytes) ||
	    file_bytes != bytes)
		return -WM_E_PROTOCOL;
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	watching->table = map;
	return 0;
}

/* What the agent says of SIGTRAP is of breakpoints in its words: it is a detail here. */
static int explain(struct wm_session *session, int err)
{
	static const int causes[] = { WM_E_TRAP_GUARDS, WM_E_TRAP_IGNORED, WM_E_TRAP_FILTER,
				      WM_E_TRAP_REPLACED };

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (err == -causes[i])
			return session_fail(session, -WM_E_WATCH_TRAP, "%s", wm_error_text(err));
	return err;
}

static int wait_for_agent(struct finding *finding)
{
	int err = session_wait(finding->session, finding->process, ANSWER_WAIT_MS);

	finding->process->error = 0;
	if (!err && finding->watching->lost)
		err = finding->watching->lost;
	if (!err && finding->watching->has_ended)
		err = -WM_E_GONE;
	if (err)
		return explain(finding->session, err);
	return finding->watching->table ? 0 : -WM_E_PROTOCOL;
}

/* ---- the kernel ---- */

/* All stands and nothing is enabled, with the program stopped if it can be: its values are what they are. */
static int settle(void *data, uint8_t generation)
{
	struct watching *watching = data;

	for (unsigned int i = 0; i < watching->count; i++) {
		const struct watched *one = &watching->all[i];
		struct watch_row *row = &watching->table->rows[i];
		uint64_t value = 0;
		struct iovec local = { &value, one->bytes };
		struct iovec remote = { (void *)(uintptr_t)one->address, one->bytes };
		ssize_t got = process_vm_readv(watching->pid, &local, 1, &remote, 1, 0);

		row->last.value = value;
		row->last.ticks = got == one->bytes ? 0 : NOBODY_KNOWS;
		__atomic_store_n(&row->gate, WATCH_GATE(generation, WATCH_ON), __ATOMIC_RELEASE);
	}
	return 0;
}

static int arm(struct finding *finding)
{
	static const uint8_t kinds[] = { [WATCH_WRITE] = EVENT_WRITE,
					 [WATCH_READ_WRITE] = EVENT_READ_WRITE,
					 [WATCH_EXECUTE] = EVENT_EXECUTE };
	struct wm_session *session = finding->session;
	struct watching *watching = finding->watching;
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request = {
		.scope = EVENT_PROCESS,
		.flags = EVENT_SIGNAL,
		.pid = watching->pid,
		.sources = sources,
		.source_count = watching->count,
		.ledger = session_ledger(session),
		.settle = settle,
		.settle_data = watching,
	};
	char words[512] = "";
	struct detail detail = { words, sizeof(words) };
	int err = 0;

	for (unsigned int i = 0; i < watching->count; i++) {
		const struct watched *one = &watching->all[i];
		const struct spec *spec = &session->specs.all[one->spec];
		enum event_kind kind = kinds[spec->watch->kind];

		sources[i] = (struct event_source){
			.kind = kind,
			.bytes = kind == EVENT_EXECUTE ? 0 : one->bytes,
			.address = one->address,
			.sig_data = WATCH_COOKIE(watching->magic, i, 0, 0),
			.what = spec->text,
		};
	}
	if (watching->count)
		err = event_object_new(&watching->object, &request, detail);
	if (!err && watching->count)
		err = event_object_arm(watching->object, detail);
	if (!err && watching->locals)
		err = locals_arm(watching->locals, watching->pid, watching->table,
				 session_ledger(session), detail);
	if (err && err != -WM_E_GONE)
		return session_fail(session, err, "%s",
				    words[0] ? words
				    : watching->count
					    ? session->specs.all[watching->all[0].spec].text
					    : "");
	return err;
}

static void note_armed(struct wm_session *session, const struct watching *watching)
{
	struct event_coverage coverage;
	unsigned int threads = 0;

	for (size_t i = 0; watching->locals && i < session->specs.count; i++)
		if (locals_has(watching->locals, i)) {
			locals_describe(watching->locals, i, results(session, i));
			session->specs.all[i].matches++;
		}
	if (watching->count && !event_object_coverage(watching->object, &coverage)) {
		threads = coverage.opened + coverage.inherited;
		event_coverage_release(&coverage);
	}
	for (unsigned int i = 0; i < watching->count; i++) {
		struct watched_spec *result = results(session, watching->all[i].spec);

		if (i && watching->all[i].spec == watching->all[i - 1].spec)
			continue;
		result->processes++;
		result->threads = threads;
		session->specs.all[watching->all[i].spec].matches++;
	}
}

static void unask(struct process *process)
{
	struct control_unwatch all = { 0, UINT32_MAX };
	struct iovec part = { &all, sizeof(all) };

	if (process->link.fd >= 0)
		process_request(process, CONTROL_UNWATCH, &part, 1);
}

void watching_drop(struct process *process)
{
	struct watching *watching = process->watching;

	if (!watching)
		return;
	locals_release(watching->locals);
	event_object_release(watching->object);
	if (watching->table)
		munmap(watching->table, sizeof(*watching->table));
	free(watching);
	process->watching = NULL;
}

static int find_and_arm(struct finding *finding)
{
	int err = find_all(finding);

	free(finding->modules);
	loaded_release(&finding->list);
	if (!err)
		err = wait_for_agent(finding);
	return err ? err : arm(finding);
}

int watching_arm(struct wm_session *session, struct process *process)
{
	struct finding finding = { .session = session, .process = process };
	int err = 0;

	if (!count_wanted(session) || process->watching)
		return 0;
	if (!kernel_is_new_enough())
		return session_fail(session, -WM_E_WATCH_TRAP, "Linux %d.%d or later is needed",
				    KERNEL_MAJOR, KERNEL_MINOR);
	process->watching = calloc(1, sizeof(*process->watching));
	if (!process->watching)
		return -ENOMEM;
	finding.watching = process->watching;
	finding.watching->pid = process->pid;
	while (!finding.watching->magic)
		if (getrandom(&finding.watching->magic, sizeof(finding.watching->magic),
			      GRND_NONBLOCK) < 0)
			finding.watching->magic = (uint32_t)ticks_monotonic_ns();
	finding.watching->is_arming = 1;
	err = find_and_arm(&finding);
	finding.watching->is_arming = 0;
	if (!err) {
		note_armed(session, finding.watching);
		return 0;
	}
	if (finding.watching->object)
		event_object_disarm(finding.watching->object);
	if (finding.watching->is_asked)
		unask(process);
	watching_drop(process);
	return err;
}

/* ---- ending ---- */

static void count_one(const struct watching *watching, unsigned int i, struct watch_counts *to)
{
	uint64_t hits = 0;

	event_object_count(watching->object, i, &hits);
	watch_counts_add(to, &watching->table->rows[i], hits);
}

/* Whether every hit that the kernel has counted has come to the handler. */
static int is_all_told(const struct watching *watching, size_t specs)
{
	struct watch_counts counts = { 0 };

	for (unsigned int i = 0; i < watching->count; i++)
		count_one(watching, i, &counts);
	for (size_t i = 0; i < specs; i++)
		locals_count(watching->locals, i, &counts);
	return !counts.missed;
}

void watching_end(struct wm_session *session, struct process *process)
{
	struct watching *watching = process->watching;

	if (!watching)
		return;
	if (watching->is_arming) {
		watching->has_ended = 1;
		return;
	}
	if (watching->table) {
		locals_quiet(watching->locals);
		if (watching->object)
			event_object_quiet(watching->object);
		for (int i = 0;
		     i < ON_ITS_WAY_TRIES && !is_all_told(watching, session->specs.count) &&
		     !process_is_dead(process);
		     i++)
			usleep(ON_ITS_WAY_US);
		for (size_t i = 0; i < session->specs.count; i++)
			if (locals_has(watching->locals, i))
				locals_count(watching->locals, i, &results(session, i)->counts);
		for (unsigned int i = 0; i < watching->count; i++) {
			struct watched_spec *result = results(session, watching->all[i].spec);

			watching->table->rows[i].gate = WATCH_OFF;
			count_one(watching, i, &result->counts);
		}
	}
	if (watching->object)
		event_object_disarm(watching->object);
	if (watching->is_asked)
		unask(process);
	watching_drop(process);
}

void watching_lost(struct wm_session *session, struct process *process, int why)
{
	struct watching *watching = process->watching;

	if (watching && watching->is_arming) {
		watching->lost = why < 0 ? why : -WM_E_PROTOCOL;
		return;
	}
	for (unsigned int i = 0; watching && i < watching->count; i++)
		results(session, watching->all[i].spec)->lost = why;
	watching_end(session, process);
}

const struct watched_spec *watches_of(const struct watched_list *list, size_t spec)
{
	return spec < list->count && list->all[spec].processes ? &list->all[spec] : NULL;
}

void watches_count(const struct wm_session *session, size_t spec, struct watch_counts *counts)
{
	const struct watched_list *list = &session->watched;

	*counts = spec < list->count ? list->all[spec].counts : (struct watch_counts){ 0 };
	for (const struct process *p = session->processes; p; p = p->next) {
		const struct watching *watching = p->watching;

		for (unsigned int i = 0;
		     watching && watching->object && watching->table && i < watching->count; i++)
			if (watching->all[i].spec == spec)
				count_one(watching, i, counts);
		locals_count(watching ? watching->locals : NULL, spec, counts);
	}
}
