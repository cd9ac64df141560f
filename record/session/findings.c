/* SPDX-License-Identifier: MIT */
#include "record/session/findings.h"

#include "base/array.h"
#include "base/quantity.h"
#include "record/handler/handler_file.h"
#include "record/session/session.h"
#include "record/session/sources.h"
#include "record/session/unrecorded.h"
#include "target/claim/ledger.h"
#include "target/trial/trial.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

static void finding_release(struct finding *finding)
{
	free(finding->subject);
	free(finding->text);
	free(finding->detail);
	free(finding->module);
	*finding = (struct finding){ 0 };
}

struct finding *finding_add(struct findings *list, const char *kind, enum finding_severity severity,
			    const char *format, ...)
{
	struct finding *finding = &list->spare;
	va_list args;

	if (!array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		finding = &list->all[list->count++];
	else
		finding_release(finding);
	*finding = (struct finding){ .kind = kind, .severity = severity, .remedy = "" };
	va_start(args, format);
	if (vasprintf(&finding->text, format, args) < 0)
		finding->text = NULL;
	va_end(args);
	return finding;
}

struct finding *finding_counted(struct findings *list, const char *kind, uint64_t count,
				const char *noun, const char *format, ...)
{
	size_t bytes = strlen(noun);
	char number[32], words[1024];
	struct finding *finding;
	va_list args;

	if (!count)
		return &list->spare;
	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	finding = finding_add(list, kind, FINDING_LOSS, "%s %s%s %s",
			      quantity_show_count(count, number, sizeof(number)), noun,
			      count == 1	       ? ""
			      : noun[bytes - 1] == 's' ? "es"
						       : "s",
			      words);
	finding->count = count;
	return finding;
}

struct finding *finding_error(struct findings *list, const char *kind,
			      enum finding_severity severity, const char *subject, int error,
			      const char *detail)
{
	struct finding *finding = finding_add(list, kind, severity, "%s", wm_error_text(error));

	finding->subject = strdup(subject);
	finding->detail = detail && *detail ? strdup(detail) : NULL;
	finding->remedy = wm_error_hint(error);
	return finding;
}

struct finding *finding_part(struct findings *list, const char *kind, const char *subject,
			     int error, const char *detail)
{
	struct finding *finding = finding_error(list, kind, FINDING_LOSS, subject, error, detail);

	finding->is_part = 1;
	return finding;
}

const struct finding *findings_failure(const struct findings *list)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->all[i].severity == FINDING_FAILURE)
			return &list->all[i];
	return NULL;
}

void findings_release(struct findings *list)
{
	for (size_t i = 0; i < list->count; i++)
		finding_release(&list->all[i]);
	finding_release(&list->spare);
	free(list->all);
	*list = (struct findings){ 0 };
}

/* Where a trial showed that the time stamp counter misleads: what that means for the trace. */
static void clock_findings(struct findings *list)
{
	static const enum trial trials[] = { TRIAL_TSC_RATE, TRIAL_TSC_AGREES };

	for (size_t i = 0; i < sizeof(trials) / sizeof(*trials); i++) {
		struct trial_answer answer;

		trial_ask(trials[i], &answer);
		if (answer.state == TRIAL_FAILS)
			finding_add(list, "clock", FINDING_NOTE,
				    "%s: %s: times in the trace can mislead",
				    trial_row(trials[i])->fails, answer.words);
	}
}

static void ledger_findings(const struct wm_session *session, struct findings *list)
{
	char path[256] = "";
	int err = session->ledger ? ledger_trouble(session->ledger, path, sizeof(path)) : 0;

	if (err)
		finding_add(list, "ledger", FINDING_NOTE,
			    "what this takes is not in the ledger of claims: %s: %s",
			    wm_error_text(err), path)
			->remedy = "it is recorded all the same; others do not see who has it";
}

static void unrecorded_findings(const struct unrecorded_list *unrecorded, struct findings *list)
{
	uint64_t processes = unrecorded->unnamed;
	struct finding *finding;

	for (size_t i = 0; i < unrecorded->count; i++)
		processes += unrecorded->all[i].processes;
	if (!processes)
		return;
	finding = finding_add(list, "unrecorded", FINDING_LOSS,
			      "%llu process%s ran unrecorded, wholly or in part",
			      (unsigned long long)processes, processes == 1 ? "" : "es");
	finding->count = processes;
	finding->remedy = "others that ended within some 20 ms may be missing here (waymark-limits(7))";
	for (size_t i = 0; i < unrecorded->count; i++) {
		const struct unrecorded *one = &unrecorded->all[i];

		finding_part(list, "unrecorded-program", one->program, one->error, one->detail)
			->count = one->processes;
	}
	if (!unrecorded->unnamed)
		return;
	finding = finding_add(list, "unrecorded-program", FINDING_LOSS, UNRECORDED_UNNAMED);
	finding->is_part = 1;
	finding->count = unrecorded->unnamed;
}

static void condition_findings(const struct wm_session *session, struct findings *list)
{
	const char *by = session->handlers->count ? "were rejected by conditions or handlers"
						  : "did not meet the conditions";
	struct drain_counts counts;

	session_count(session, &counts);
	finding_counted(list, "rejected", counts.rejected, "hit", "%s", by)->severity = FINDING_NOTE;
	finding_counted(list, "unreadable", counts.unreadable, "hit",
			"left out: a text that their condition compares can't be read");
}

void session_findings(struct wm_session *session, int is_over, struct findings *list)
{
	FOR_SOURCES_BACK(source, findings)
		source->findings(session, is_over, list);
	if (is_over) {
		unrecorded_findings(session->unrecorded, list);
		condition_findings(session, list);
		return;
	}
	ledger_findings(session, list);
	clock_findings(list);
}
