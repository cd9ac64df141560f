/* SPDX-License-Identifier: MIT */
/*
 * Writes claims on debug registers of a process into the ledger, reports that by a line, and waits
 * to be ended: claimant PID WHAT... On an error it prints the error's name instead, and continues.
 */
#include "target/claim/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <waymark/error.h>

int main(int argc, char **argv)
{
	struct ledger *ledger;
	char path[256];
	int err;

	if (argc < 3 || ledger_new(&ledger))
		return 1;
	for (int i = 2; i < argc; i++) {
		struct claim claim = { .resource = CLAIM_DEBUG_REGISTER,
				       .scope = CLAIM_OF_PROCESS,
				       .target = atoi(argv[1]),
				       .count = 1,
				       .address = 0x404040,
				       .bytes = 8 };
		uint64_t id;

		snprintf(claim.what, sizeof(claim.what), "%s", argv[i]);
		ledger_claim(ledger, &claim, 1, &id);
		ledger_confirm(ledger, &id, 1);
	}
	err = ledger_trouble(ledger, path, sizeof(path));
	puts(err ? wm_error_name(err) : "claimed");
	fflush(stdout);
	for (;;)
		pause();
}
