/* SPDX-License-Identifier: MIT */
/* What a session's places came to, in words: the refused, the late, those of other tools. */
#include "base/quantity.h"
#include "record/probe/probes.h"
#include "record/session/findings.h"
#include "record/session/patience.h"
#include "record/session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define COUNT_BYTES 32

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

/* One for all, and a part for each, by their reasons. */
static void refusal_findings(const struct probes *probes, struct findings *list)
{
	const struct probe_refusals *refusals = &probes->refusals;
	const struct probe_refusal **all = calloc(refusals->count + 1, sizeof(*all));
	char count[COUNT_BYTES], of[COUNT_BYTES + 8] = "", wanted[COUNT_BYTES];

	if (!all || !refusals->count) {
		free(all);
		return;
	}
	for (size_t i = 0; i < refusals->count; i++)
		all[i] = &refusals->all[i];
	qsort(all, refusals->count, sizeof(*all), error_order);
	if (!refusals->has_markers)
		snprintf(of, sizeof(of), " of %s",
			 quantity_show_count(probes->wanted, wanted, sizeof(wanted)));
	finding_add(list, "refused", FINDING_LOSS, "%s%s place%s refused",
		    quantity_show_count(refusals->count, count, sizeof(count)), of,
		    refusals->count == 1 && !*of ? " was" : "s were")
		->count = refusals->count;
	for (size_t i = 0; i < refusals->count; i++) {
		struct finding *finding = finding_part(list, "refusal", all[i]->name, all[i]->error,
						       all[i]->detail);

		finding->count = 1;
		/* the remedy is to look at the process */
		finding->pid = all[i]->error == -WM_E_NO_PTRACE ? all[i]->pid : 0;
		finding->address = all[i]->address;
		finding->module = all[i]->module[0] ? strdup(all[i]->module) : NULL;
	}
	free(all);
}

static void foreign_findings(const struct probes *probes, struct findings *list)
{
	if (!probes->foreign_count)
		return;
	finding_add(
		list, "missing-hits", FINDING_LOSS,
		"hits are missing: another tool's breakpoint was there, or the program changed the place");
	for (size_t i = 0; i < probes->foreign_count; i++) {
		const struct probe_foreign *foreign = &probes->foreign[i];
		double seconds = (double)(foreign->end_ns - foreign->begin_ns) / 1e9;
		struct finding *finding = foreign->end_ns
						  ? finding_add(list, "missing-hits-of",
								FINDING_LOSS, "for %.3f s", seconds)
						  : finding_add(list, "missing-hits-of",
								FINDING_LOSS, "until the end");

		finding->is_part = 1;
		finding->subject = strdup(foreign->name);
		finding->pid = foreign->pid;
	}
}

/* A condition on the caller that names a function, say: no hit met it, or every one did. */
static void caller_findings(const struct spec_list *specs, struct findings *list)
{
	for (size_t i = 0; i < specs->count; i++) {
		const struct spec *spec = &specs->all[i];

		for (unsigned int k = 0; spec->request && k < spec->request->predicate_count; k++) {
			const struct predicate *predicate = &spec->request->predicates[k];
			struct finding *finding;

			if (!spec_is_on_caller(predicate) || !spec->modules ||
			    spec->callers_seen & 1u << k)
				continue;
			finding = finding_add(
				list, "caller", FINDING_LOSS,
				"caller is compared with modules, and none was called so: %s",
				predicate->text);
			finding->subject = strdup(spec->text);
			finding->remedy =
				"name a module, as libz; of functions that call, by=caller has sums, and bt=N each hit's";
		}
	}
}

void probe_findings(const struct wm_session *session, int is_over, struct findings *list)
{
	const struct probes *probes = session->probes;
	char count[COUNT_BYTES], all[COUNT_BYTES];

	if (!is_over)
		return;
	if (patience_is_over(session))
		finding_add(list, "interrupted", FINDING_LOSS,
			    "interrupted before all places were planned and armed");
	finding_counted(list, "unarmed", probes->unarmed, "place",
			"not armed: their process or the recording ended first");
	finding_counted(list, "late-processes", probes->late_starts, "process",
			"kept waiting for too long, which ran unrecorded at first");
	finding_counted(
		list, "late-modules", probes->late, "module",
		"came while the program ran, and ran unprobed at first, for %.3f ms at most",
		(double)probes->late_ns / 1e6);
	finding_counted(list, "refusals-unlisted", probes->refusals.left_out, "refusal",
			"not listed: waymark keeps 1 MB of names for a process");
	refusal_findings(probes, list);
	caller_findings(session->specs, list);
	if (probes->unsafe)
		finding_add(
			list, "unsafe", FINDING_DETAIL,
			"%s of %s events are unsafe beside uprobes: one that is removed within 100 ms can crash the program (/safe/ refuses such places)",
			quantity_show_count(probes->unsafe, count, sizeof(count)),
			quantity_show_count(probes->wanted, all, sizeof(all)))
			->count = probes->unsafe;
	foreign_findings(probes, list);
}
