/* SPDX-License-Identifier: MIT */
/*
 * Spans: how long things take, each a pair of markers. A few seconds of work, then it ends.
 *	waymark record -o spans.trace -- ./spans && waymark report spans.trace
 */
#include <stdlib.h>
#include <unistd.h>
#include <waymark/marker.h>

static int fetch(int page)
{
	WAYMARK_BEGIN(site, fetch, page);
	usleep((useconds_t)(500 + rand() % 1500));

	int bytes = 100 + rand() % 4000;

	WAYMARK_END(site, fetch, bytes); /* an end has fields of its own */
	return bytes;
}

static int render(int page)
{
	WAYMARK_SCOPE(site, render, page); /* ends where the block ends, whichever way it is left */
	if (page % 10 == 0)
		return -1;
	for (int part = 0; part < 3; part++) {
		WAYMARK_SCOPE(site, part, page, part); /* spans nest */
		usleep(200);
	}
	return 0;
}

int main(void)
{
	for (int page = 1; page <= 500; page++) {
		fetch(page);
		if (render(page))
			WAYMARK(site, error, page, WM_FIELD(reason, "no template"));
	}
}
