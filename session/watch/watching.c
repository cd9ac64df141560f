/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "session/watch/watching_own.h"

#include "session/process.h"
#include "session/sealed.h"
#include "session/target.h"
#include "session/watch/change.h"

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

struct watched_spec *watched_result(struct wm_session *session, size_t spec)
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
	if (!list->all[spec].words)
		list->all[spec].words = strdup(about->watch->words);
	list->all[spec].is_code = about->watch->kind == WATCH_EXECUTE;
	return list->all[spec].text && list->all[spec].words ? &list->all[spec] : NULL;
}

void watched_spec_release(struct watched_spec *one)
{
	watch_type_release(&one->type);
	free(one->text);
	free(one->words);
	if (one->earlier)
		watched_spec_release(one->earlier);
	free(one->earlier);
}

void watched_list_release(struct watched_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		watched_spec_release(&list->all[i]);
	free(list->all);
	*list = (struct watched_list){ 0 };
}

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

int finding_place(struct finding *finding, const struct spec *spec, struct watched_spec *result)
{
	struct code_process process = loaded_process(&finding->list);
	struct watch_place place = { 0 };
	struct watch_trouble trouble = { 0 };
	uint64_t address = 0;
	int err = watch_place_find(&place, spec->watch, finding->modules, finding->module_count,
				   &trouble);

	if (!err && place.base == WATCH_IN_THREAD)
		err = watch_trouble_set(&trouble, -WM_E_WATCH_THREAD, 0, 0, "%s", "");
	if (!err)
		err = watch_place_address(&place, &process.memory, 0, &address, &trouble);
	if (!err && !is_mapped(&process, address, place.bytes))
		err = watch_trouble_set(&trouble, -WM_E_WATCH_UNMAPPED, 0, 0, "0x%llx",
					(unsigned long long)address);
	if (!err)
		err = ask_make(&finding->asked, spec->watch, &place, address, &trouble);
	if (!err && finding->taken + finding->asked.count > EVENT_SOURCES_MAX)
		err = watch_trouble_set(&trouble, -WM_E_WATCH_LARGE, 0, 0,
					"with the watches before it, it would be the %uth register",
					finding->taken + finding->asked.count);
	if (!err) {
		result->address = address;
		result->bytes = place.bytes;
		result->pieces = finding->asked.count;
		result->callers_asked = spec->watch->options.frames;
		result->callers = finding->asked.about[0].callers;
		watch_type_release(&result->type);
		result->type = place.type;
		place.type = (struct watch_type){ 0 };
	}
	watch_place_release(&place);
	return err ? fail(finding->session, spec, err, trouble.detail) : 0;
}

/* ---- the agent ---- */

int finding_ask(struct finding *finding, unsigned int piece, const struct watched *one,
		uint32_t event)
{
	struct control_watch about = finding->asked.about[piece];
	char *text = finding->asked.text;
	struct iovec parts[] = { { &about, sizeof(about) }, { text, strlen(text) + 1 } };
	int has_text = !piece && text[0], err;

	about.number = one->number;
	about.magic = finding->watching->magic;
	about.event = (uint16_t)(text[0] ? event : one->number);
	err = process_request(finding->process, CONTROL_WATCH, parts, has_text ? 2 : 1);
	if (!err)
		finding->watching->is_asked = 1;
	return err;
}

static int ask_one(struct finding *finding, size_t spec)
{
	struct watching *watching = finding->watching;
	unsigned int first = watching->count;
	int err = 0;

	for (unsigned int i = 0; i < finding->asked.count && !err; i++) {
		const struct control_watch *about = &finding->asked.about[i];
		struct watched one = { .spec = spec,
				       .address = about->address,
				       .bytes = about->bytes,
				       .number = watching->count };

		err = finding_ask(finding, i, &one, first);
		if (!err)
			watching->all[watching->count++] = one;
	}
	finding->taken = watching->count;
	return err;
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

int finding_open(struct finding *finding)
{
	int err = loaded_read(&finding->list, finding->process->pid);

	if (err == -ESRCH)
		return -WM_E_GONE;
	if (!err)
		err = loaded_open(&finding->list);
	if (!err)
		err = choose_modules(finding);
	if (err)
		return session_fail(finding->session, err, "pid %d", (int)finding->process->pid);
	set_pulse(finding, (struct code_pulse){ on_beat, finding });
	return refuse_go(finding);
}

void finding_close(struct finding *finding)
{
	set_pulse(finding, (struct code_pulse){ 0 });
	free(finding->modules);
	loaded_release(&finding->list);
}

static int find_all(struct finding *finding)
{
	struct wm_session *session = finding->session;
	int err = finding_open(finding);

	for (size_t i = 0; i < session->specs.count && !err; i++) {
		struct watched_spec *result;

		if (!session->specs.all[i].watch)
			continue;
		result = watched_result(session, i);
		err = result ? finding_place(finding, &session->specs.all[i], result) : -ENOMEM;
		if (!err)
			err = ask_one(finding, i);
	}
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

int finding_wait(struct finding *finding)
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

void watched_value(const struct watching *watching, const struct watched *one)
{
	struct watch_row *row = &watching->table->rows[one->number];
	uint64_t value = 0;
	struct iovec local = { &value, one->bytes };
	struct iovec remote = { (void *)(uintptr_t)one->address, one->bytes };
	ssize_t got = process_vm_readv(watching->pid, &local, 1, &remote, 1, 0);

	row->last.value = value;
	row->last.ticks = got == one->bytes ? 0 : NOBODY_KNOWS;
}

/* All stands and nothing is enabled, with the program stopped if it can be: its values are what they are. */
static int settle(void *data, uint8_t generation)
{
	struct watching *watching = data;

	if (watching->changing)
		return change_settle(watching, generation);
	for (unsigned int i = 0; i < watching->count; i++) {
		const struct watched *one = &watching->all[i];

		watched_value(watching, one);
		__atomic_store_n(&watching->table->rows[one->number].gate,
				 WATCH_GATE(generation, WATCH_ON), __ATOMIC_RELEASE);
	}
	return 0;
}

struct event_source watched_source(const struct watching *watching, const struct watched *one,
				   enum watch_kind kind, const char *text)
{
	static const uint8_t kinds[] = { [WATCH_WRITE] = EVENT_WRITE,
					 [WATCH_READ_WRITE] = EVENT_READ_WRITE,
					 [WATCH_EXECUTE] = EVENT_EXECUTE };

	return (struct event_source){
		.kind = kinds[kind],
		.bytes = kind == WATCH_EXECUTE ? 0 : one->bytes,
		.address = one->address,
		.sig_data = WATCH_COOKIE(watching->magic, one->number, 0, 0),
		.what = text,
	};
}

static int arm(struct finding *finding)
{
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
	int err;

	for (unsigned int i = 0; i < watching->count; i++) {
		const struct spec *spec = &session->specs.all[watching->all[i].spec];

		sources[i] = watched_source(watching, &watching->all[i], spec->watch->kind,
					    spec->text);
	}
	err = event_object_new(&watching->object, &request, detail);
	if (!err)
		err = event_object_arm(watching->object, detail);
	if (err && err != -WM_E_GONE)
		return session_fail(session, err, "%s",
				    words[0] ? words
					     : session->specs.all[watching->all[0].spec].text);
	return err;
}

static void note_armed(struct wm_session *session, const struct watching *watching)
{
	struct event_coverage coverage;
	unsigned int threads = 0;

	if (!event_object_coverage(watching->object, &coverage)) {
		threads = coverage.opened + coverage.inherited;
		event_coverage_release(&coverage);
	}
	for (unsigned int i = 0; i < watching->count; i++) {
		struct watched_spec *result = watched_result(session, watching->all[i].spec);

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
	event_object_release(watching->object);
	if (watching->table)
		munmap(watching->table, sizeof(*watching->table));
	free(watching);
	process->watching = NULL;
}

static int find_and_arm(struct finding *finding)
{
	int err = find_all(finding);

	finding_close(finding);
	if (!err)
		err = finding_wait(finding);
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

void watched_add(const struct watching *watching, const struct watched *one, uint64_t hits,
		 struct watch_counts *to)
{
	const struct watch_row *row = &watching->table->rows[one->number];
	uint64_t told = row->taken + row->dropped;

	to->hits += hits;
	to->taken += row->taken;
	to->filtered += row->filtered;
	to->counted += row->counted;
	to->own += row->own;
	to->dropped += row->dropped;
	to->late += row->late;
	to->inexact += row->inexact;
	to->shared += row->shared;
	to->missed += hits > told ? hits - told : 0;
}

uint64_t watched_hits(const struct watching *watching, unsigned int source)
{
	uint64_t hits = 0;

	event_object_count(watching->object, source, &hits);
	return hits - watching->all[source].before;
}

static void count_one(const struct watching *watching, unsigned int i, struct watch_counts *to)
{
	watched_add(watching, &watching->all[i], watched_hits(watching, i), to);
}

/* Whether every hit that the kernel has counted has come to the handler. */
static int is_all_told(const struct watching *watching)
{
	struct watch_counts counts = { 0 };

	for (unsigned int i = 0; i < watching->count; i++)
		count_one(watching, i, &counts);
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
	if (watching->object && watching->table) {
		event_object_quiet(watching->object);
		for (int i = 0;
		     i < ON_ITS_WAY_TRIES && !is_all_told(watching) && !process_is_dead(process);
		     i++)
			usleep(ON_ITS_WAY_US);
		for (unsigned int i = 0; i < watching->count; i++) {
			struct watched_spec *result = watched_result(session,
								     watching->all[i].spec);

			watching->table->rows[watching->all[i].number].gate = WATCH_OFF;
			count_one(watching, i, &result->counts);
			result->counts.starved += event_object_starved(watching->object, i);
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
		watched_result(session, watching->all[i].spec)->lost = why;
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
	}
}
