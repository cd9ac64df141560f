/* SPDX-License-Identifier: MIT */
#include "session/trap.h"

#include "session/claim/ledger.h"
#include "session/process.h"

#include <stdio.h>

void trap_claim(struct wm_session *session, struct process *process)
{
	struct claim claim = { .resource = CLAIM_SIGTRAP,
			       .scope = CLAIM_OF_PROCESS,
			       .target = process->pid,
			       .count = 1 };

	for (size_t i = 0; i < session->specs.count && !process->trap_claim; i++) {
		const struct spec *spec = &session->specs.all[i];

		if (!spec->request || !spec->request->breakpoint || !session_ledger(session))
			continue;
		snprintf(claim.what, sizeof(claim.what), "%s", spec->text);
		if (!ledger_claim(session->ledger, &claim, 1, &process->trap_claim))
			ledger_confirm(session->ledger, &process->trap_claim, 1);
	}
}

void trap_unclaim(struct wm_session *session, struct process *process)
{
	if (process->trap_claim)
		ledger_remove(session->ledger, &process->trap_claim, 1);
	process->trap_claim = 0;
}
