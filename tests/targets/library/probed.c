/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <waymark/probe.h>
WM_PROBE(install, probed, int);
static volatile int sum;
static void add(void *data, int value)
{
	(void)data;
	sum += value;
}
int main(void)
{
	struct wm_probe *probe;
	int err = wm_probe_add_install_probed(&probe, add, 0);

	for (int i = 0; i < 3; i++)
		WAYMARK(install, probed, i + 1);
	return err || wm_probe_remove(probe) || sum != 6 || !*wm_error_text(-WM_E_FIELD_TYPES) ||
	       !*wm_error_text(-2) || strcmp(wm_error_name(-2), "ENOENT") ||
	       !wm_error_name(-WM_E_SPEC) || !wm_error_hint(-WM_E_SPEC);
}
