/* SPDX-License-Identifier: MIT */
/* Hold debug registers of a process until a line comes: reserve PID COUNT. Link with -lwaymark. */
#include <stdio.h>
#include <stdlib.h>
#include <waymark/claim.h>
#include <waymark/error.h>

static int show(const struct wm_claim_row *row, void *out)
{
	if (row->unit != WM_CLAIM_UNIT_DEBUG_REGISTER)
		return 0;
	return fprintf((FILE *)out, "%s %d holds %d of %d\n", row->name, (int)row->pid,
		       (int)row->count, (int)row->target) < 0;
}

int main(int argc, char **argv)
{
	struct wm_claim_request request = WM_CLAIM_REQUEST_INIT;
	struct wm_claim *claim;

	request.unit = WM_CLAIM_UNIT_DEBUG_REGISTER;
	request.scope = WM_CLAIM_SCOPE_PROCESS;
	request.pid = argc < 3 ? 0 : atoi(argv[1]);
	request.count = argc < 3 ? 0 : strtoull(argv[2], NULL, 0);
	request.what = "the example";
	int err = wm_claim_reserve(&claim, &request);

	if (err) {
		fprintf(stderr, "reserve: %s: %s\n", wm_error_text(err), wm_claim_detail());
		return 1;
	}
	err = wm_claim_list(show, stdout);
	fflush(stdout);
	getchar();
	wm_claim_release(claim);
	return err != 0;
}
