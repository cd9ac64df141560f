/* SPDX-License-Identifier: MIT */
/*
 * A handler whose parameters differ from those declared is an error in each language level: of
 * these lines those that say "refused", and no other.
 */
#include <waymark/probe.h>

WM_PROBE(net, rx, int, const char *);
WM_PROBE(net, idle);
WM_PROBE_END(net, call, double);

void rx(void *, int, const char *);
void rx_const(void *, const int, const char *);
void rx_unsigned_int(void *, unsigned int, const char *);
void rx_long(void *, long, const char *);
void rx_char(void *, int, char *);
void rx_void(void *, int, const void *);
void rx_one(void *, int);
void rx_three(void *, int, const char *, int);
void rx_no_data(int, const char *);
void rx_int_data(int *, int, const char *);
void rx_nothing(void);
int rx_result(void *, int, const char *);
void idle(void *);
void idle_int(void *, int);
void call(void *, double);
void call_float(void *, float);

void add(struct wm_probe **probe);
void add(struct wm_probe **probe)
{
	wm_probe_add_net_rx(probe, rx, 0);
	wm_probe_add_net_rx(probe, &rx_const, probe);
	wm_probe_add_net_rx(probe, rx_unsigned_int, 0); /* refused */
	wm_probe_add_net_rx(probe, rx_long, 0);		/* refused */
	wm_probe_add_net_rx(probe, rx_char, 0);		/* refused */
	wm_probe_add_net_rx(probe, rx_void, 0);		/* refused */
	wm_probe_add_net_rx(probe, rx_one, 0);		/* refused */
	wm_probe_add_net_rx(probe, rx_three, 0);	/* refused */
	wm_probe_add_net_rx(probe, rx_no_data, 0);	/* refused */
	wm_probe_add_net_rx(probe, rx_int_data, 0);	/* refused */
	wm_probe_add_net_rx(probe, rx_nothing, 0);	/* refused */
	wm_probe_add_net_rx(probe, rx_result, 0);	/* refused */
	wm_probe_add_net_idle(probe, idle, 0);
	wm_probe_add_net_idle(probe, idle_int, 0); /* refused */
	wm_probe_end_net_call(probe, call, 0);
	wm_probe_end_net_call(probe, call_float, 0); /* refused */
}
