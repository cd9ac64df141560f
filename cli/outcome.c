/* SPDX-License-Identifier: MIT */
#include "cli/outcome.h"

#include "base/quantity.h"
#include "cli/cli.h"
#include "target/claim/ledger.h"
#include "record/session/patience.h"
#include "record/probe/probes.h"
#include "record/spec/spec.h"
#include "record/session/unrecorded.h"
#include "target/trial/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define FOREIGN_SHOWN 10
#define REFUSALS_NAMED 5 /* of each reason */
#define UNSTOPPABLE_SHOWN 10

static void complain_request(const struct spec *spec, int error, const struct name_list *names)
{
	int is_name = error == -WM_E_NO_FUNCTION || error == -WM_E_NO_USDT;

	if (spec->detail)
		complain(error, "%s: %s", spec->text, spec->detail);
	else if (is_name && spec->request->name)
		complain_near(error, spec->request->name, (const char *const *)names->all,
			      names->count);
	else
		complain(error, "%s", spec->text);
}

size_t outcome_unmatched(const struct spec_list *specs, const struct name_list *names, int placed,
			 char *why, size_t bytes)
{
	size_t count = 0;

	for (size_t i = 0; i < specs->count; i++) {
		const struct spec *spec = &specs->all[i];
		int error;

		/* a watch that is no place says so when it is armed */
		if (spec->trail || spec->watch || spec->kernel)
			continue;
		if (placed ? spec->placed : spec->matches)
			continue;
		count++;
		error = spec_missing(spec);
		if (spec->request)
			complain_request(spec, error, names);
		else if (spec->matches)
			complain(error, "%s", spec->text);
		else
			complain_near(error, spec->glob, (const char *const *)names->all,
				      names->count);
		if (!why[0])
			snprintf(why, bytes, "%s: %s", wm_error_text(error), spec->text);
	}
	return count;
}

int outcome_may_come(const struct spec *spec)
{
	const char *module = spec->request ? spec->request->module : NULL;
	int error = spec_missing(spec);

	return error == -WM_E_NO_MODULE ||
	       (spec_is_glob(spec) && (!module || code_is_glob(module)) &&
		(error == -WM_E_NO_MARKER || error == -WM_E_NO_FUNCTION || error == -WM_E_NO_USDT));
}

void outcome_ambiguous(const struct wm_session *session)
{
	for (size_t i = 0; i < session->specs->count; i++) {
		const struct spec *spec = &session->specs->all[i];

		if (spec->names.count < 2)
			continue;
		fprintf(stderr,
			"waymark: %s names %llu functions, and all are recorded:", spec->text,
			(unsigned long long)spec->placed);
		for (size_t n = 0; n < spec->names.count; n++)
			complain_words("%s %s", n ? "," : "", spec->names.all[n]);
		fputs("\n  NAME@FILE names those of one program or library, NAME(TYPES) those with these parameters; addr:FILE+OFFSET a single one\n",
		      stderr);
	}
}

void outcome_clock(void)
{
	static const enum trial trials[] = { TRIAL_TSC_RATE, TRIAL_TSC_AGREES };

	for (size_t i = 0; i < sizeof(trials) / sizeof(*trials); i++) {
		struct trial_answer answer;

		trial_ask(trials[i], &answer);
		if (answer.state != TRIAL_FAILS)
			continue;
		complain_words("waymark: %s: %s: times in the trace can mislead",
			       trial_row(trials[i])->fails, answer.words);
		fputc('\n', stderr);
	}
}

void outcome_unclaimed(const struct wm_session *session)
{
	char path[256] = "";
	int err = session->ledger ? ledger_trouble(session->ledger, path, sizeof(path)) : 0;

	if (!err)
		return;
	complain_words("waymark: what this takes is not in the ledger of claims: %s: %s",
		       wm_error_text(err), path);
	fputs("\n  it is recorded all the same; others do not see who has it\n", stderr);
}

static int error_order(const void *a, const void *b)
{
	const struct probe_refusal *const *left = a, *const *right = b;
	int order = ((*left)->error > (*right)->error) - ((*left)->error < (*right)->error);

	order = order ? order : strcmp((*left)->name, (*right)->name);
	order = order ? order : strcmp((*left)->module, (*right)->module);
	return order ? order
		     : ((*left)->address > (*right)->address) -
			       ((*left)->address < (*right)->address);
}

/* The refusals by their reasons; free() it. NULL: none, or no memory. */
static const struct probe_refusal **sorted(const struct probe_refusals *list)
{
	const struct probe_refusal **all = list->count ? malloc(list->count * sizeof(*all)) : NULL;

	for (size_t i = 0; all && i < list->count; i++)
		all[i] = &list->all[i];
	if (all)
		qsort(all, list->count, sizeof(*all), error_order);
	return all;
}

static void print_refusal(const struct probe_refusal *refusal)
{
	complain_words("    %s", refusal->name);
	if (refusal->address)
		fprintf(stderr, " at 0x%llx", (unsigned long long)refusal->address);
	if (refusal->module[0])
		complain_words(" in %s", refusal->module);
	if (refusal->detail[0])
		complain_words(": %s", refusal->detail);
	fputc('\n', stderr);
}

static void name_some(const struct probe_refusal **all, size_t count)
{
	for (size_t i = 0; i < count && i < REFUSALS_NAMED; i++)
		complain_words("%s%s", i ? ", " : ": ", all[i]->name);
	if (count > REFUSALS_NAMED)
		fprintf(stderr, ", and %zu more", count - REFUSALS_NAMED);
}

void outcome_refusals(const struct wm_session *session, int verbose)
{
	const struct probe_refusals *list = &session->probes->refusals;
	const struct probe_refusal **all = sorted(list);
	char refused[32], wanted[32];

	if (patience_is_over(session))
		fputs("waymark: interrupted before all places were planned and armed\n", stderr);
	if (session->probes->unarmed)
		fprintf(stderr,
			"waymark: %s places were not armed: their process or the recording ended first\n",
			quantity_show_count(session->probes->unarmed, wanted, sizeof(wanted)));
	if (session->probes->late_starts)
		fprintf(stderr,
			"waymark: %s processes were kept waiting for too long, and ran unrecorded at first\n",
			quantity_show_count(session->probes->late_starts, wanted, sizeof(wanted)));
	if (session->probes->late)
		fprintf(stderr,
			"waymark: %s modules took so long that their code ran unrecorded at first\n",
			quantity_show_count(session->probes->late, wanted, sizeof(wanted)));
	if (list->left_out)
		fprintf(stderr,
			"waymark: %s refusals are not listed: waymark keeps 1 MB of names for a process\n",
			quantity_show_count(list->left_out, wanted, sizeof(wanted)));
	if (!all)
		return;
	fprintf(stderr, "waymark: %s", quantity_show_count(list->count, refused, sizeof(refused)));
	if (!list->has_markers)
		fprintf(stderr, " of %s",
			quantity_show_count(session->probes->wanted, wanted, sizeof(wanted)));
	fprintf(stderr, " places were refused%s\n", verbose ? ":" : " (-v names all):");
	for (size_t i = 0, next; i < list->count; i = next) {
		for (next = i; next < list->count && all[next]->error == all[i]->error;)
			next++;
		fprintf(stderr, "  %s%s: %s",
			quantity_show_count(next - i, refused, sizeof(refused)),
			all[i]->error == -WM_E_PUN_TAKEN ? ", others in another run" : "",
			wm_error_text(all[i]->error));
		if (!verbose)
			name_some(all + i, next - i);
		fputc('\n', stderr);
		if ((verbose || !session->sites) && *wm_error_hint(all[i]->error))
			fprintf(stderr, "    (%s)\n", wm_error_hint(all[i]->error));
		for (size_t k = i; verbose && k < next; k++)
			print_refusal(all[k]);
	}
	free(all);
}

void outcome_foreign(const struct probes *probes, int verbose)
{
	char count[32], all[32];

	if (probes->unsafe && verbose)
		fprintf(stderr,
			"waymark: %s of %s events are unsafe beside uprobes: one that is removed within 100 ms can crash the program (/safe/ refuses such places)\n",
			quantity_show_count(probes->unsafe, count, sizeof(count)),
			quantity_show_count(probes->wanted, all, sizeof(all)));
	if (!probes->foreign_count)
		return;
	fputs("waymark: hits are missing: another tool's breakpoint was there, or the program changed the place:\n",
	      stderr);
	for (size_t i = 0; i < probes->foreign_count; i++) {
		const struct probe_foreign *foreign = &probes->foreign[i];

		if (i == FOREIGN_SHOWN && !verbose) {
			fprintf(stderr, "  and %s more times (-v lists them)\n",
				quantity_show_count(probes->foreign_count - i, count,
						    sizeof(count)));
			break;
		}
		complain_words("  %s in process %d: ", foreign->name, (int)foreign->pid);
		if (foreign->end_ns)
			fprintf(stderr, "for %.3f s\n",
				(double)(foreign->end_ns - foreign->begin_ns) / 1e9);
		else
			fputs("until the end\n", stderr);
	}
}

void outcome_unstoppable(const struct probes *probes, int verbose)
{
	char count[32];

	for (size_t i = 0; i < probes->unstoppable_count; i++) {
		const struct probe_unstoppable *one = &probes->unstoppable[i];

		if (i == UNSTOPPABLE_SHOWN && !verbose) {
			fprintf(stderr, "  and in %s more processes (-v lists them)\n",
				quantity_show_count(probes->unstoppable_count - i, count,
						    sizeof(count)));
			break;
		}
		complain_words(
			"waymark: process %d (%s) %smay not stop its own threads: ", (int)one->pid,
			one->comm, one->is_dumpable ? "" : "is not dumpable, so it ");
		fprintf(stderr, "%s place%s refused there\n",
			quantity_show_count(one->places, count, sizeof(count)),
			one->places == 1 ? " was" : "s were");
	}
	if (probes->unstoppable_count)
		fprintf(stderr, "  %s\n", wm_error_hint(-WM_E_NO_PTRACE));
}

static void unstoppable_json(struct json *json, const struct probes *probes)
{
	json_open(json, "unstoppable", '[');
	for (size_t i = 0; i < probes->unstoppable_count; i++) {
		const struct probe_unstoppable *one = &probes->unstoppable[i];

		json_open(json, NULL, '{');
		json_number(json, "pid", (uint64_t)one->pid);
		json_string(json, "program", one->comm);
		json_number(json, "places", one->places);
		json_string(json, "reason",
			    one->is_dumpable ? wm_error_text(-WM_E_NO_PTRACE)
					     : "the process is not dumpable");
		json_string(json, "remedy", wm_error_hint(-WM_E_NO_PTRACE));
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void foreign_json(struct json *json, const struct probes *probes)
{
	json_open(json, "held", '[');
	for (size_t i = 0; i < probes->foreign_count; i++) {
		const struct probe_foreign *foreign = &probes->foreign[i];

		json_open(json, NULL, '{');
		json_string(json, "name", foreign->name);
		json_number(json, "pid", (uint64_t)foreign->pid);
		if (foreign->end_ns)
			json_decimal(json, "seconds",
				     (double)(foreign->end_ns - foreign->begin_ns) / 1e9, 6);
		else
			json_null(json, "seconds");
		json_close(json, '}');
	}
	json_close(json, ']');
}

void outcome_json(struct json *json, const struct probes *probes)
{
	const struct probe_refusal **all = sorted(&probes->refusals);

	foreign_json(json, probes);
	unstoppable_json(json, probes);
	json_number(json, "unsafe", probes->unsafe);

	json_number(json, "places", probes->wanted);
	json_number(json, "unarmed", probes->unarmed);
	json_number(json, "late_modules", probes->late);
	json_number(json, "late_processes", probes->late_starts);
	json_open(json, "refusals", '[');
	for (size_t i = 0; all && i < probes->refusals.count; i++) {
		const struct probe_refusal *refusal = all[i];

		json_open(json, NULL, '{');
		json_string(json, "name", refusal->name);
		json_string(json, "module", refusal->module);
		json_number(json, "address", refusal->address);
		json_string(json, "reason", wm_error_text(refusal->error));
		json_string(json, "detail", refusal->detail);
		json_close(json, '}');
	}
	json_close(json, ']');
	free(all);
}

void outcome_unrecorded(const struct unrecorded_list *list)
{
	uint64_t processes = list->unnamed;
	char count[32];

	for (size_t i = 0; i < list->count; i++)
		processes += list->all[i].processes;
	if (!processes)
		return;
	fprintf(stderr, "waymark: %s process%s ran unrecorded, wholly or in part:\n",
		quantity_show_count(processes, count, sizeof(count)), processes == 1 ? "" : "es");
	for (size_t i = 0; i < list->count; i++) {
		complain_words("  %s: %s: %s",
			       quantity_show_count(list->all[i].processes, count, sizeof(count)),
			       list->all[i].program, wm_error_text(list->all[i].error));
		if (list->all[i].detail)
			complain_words(": %s", list->all[i].detail);
		fputc('\n', stderr);
	}
	if (list->unnamed)
		fprintf(stderr, "  %s: " UNRECORDED_UNNAMED "\n",
			quantity_show_count(list->unnamed, count, sizeof(count)));
	fputs("  others that ended within some 20 ms may be missing here (waymark-limits(7))\n",
	      stderr);
}

void outcome_unrecorded_json(struct json *json, const struct unrecorded_list *list)
{
	json_open(json, "unrecorded", '[');
	for (size_t i = 0; i < list->count; i++) {
		json_open(json, NULL, '{');
		json_string(json, "program", list->all[i].program);
		json_number(json, "processes", list->all[i].processes);
		json_string(json, "reason", wm_error_text(list->all[i].error));
		json_string(json, "detail", list->all[i].detail ? list->all[i].detail : "");
		json_string(json, "remedy", wm_error_hint(list->all[i].error));
		json_close(json, '}');
	}
	json_close(json, ']');
	json_number(json, "unrecorded_unnamed", list->unnamed);
}
