/* SPDX-License-Identifier: MIT */
/*
 * A program's own handler on its marker counts bytes; the code that receives does not know of it.
 * Link with -lwaymark-agent.
 */
#include <stdio.h>
#include <waymark/probe.h>

WM_PROBE(net, rx, int, const char *);

static void receive(int bytes, const char *peer)
{
	WAYMARK(net, rx, bytes, peer);
}

static void on_rx(void *data, int bytes, const char *peer)
{
	(void)peer;
	__atomic_fetch_add((long *)data, bytes, __ATOMIC_RELAXED);
}

int main(void)
{
	long total = 0;
	struct wm_probe *probe;
	int error;

	receive(1000, "not counted");
	error = wm_probe_add_net_rx(&probe, on_rx, &total);
	if (error) {
		fprintf(stderr, "probe: error %d\n", error);
		return 1;
	}
	for (int i = 0; i < 10; i++)
		receive(100, "10.0.0.1");
	wm_probe_remove(probe); /* from here on it is not running, and never will be */
	receive(1000, "nor this");
	printf("%ld bytes counted\n", __atomic_load_n(&total, __ATOMIC_RELAXED));
	return total != 1000;
}
