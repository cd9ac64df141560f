/* SPDX-License-Identifier: MIT */
/* Every condition, short and near, taken and not. */
#include "program.inc"

/* 2261: all that conditions ask for is set, OF SF ZF AF PF CF */

	.macro	condition cc, flags
	push	$\flags
	popf
	j\cc	short_taken_\cc\()_\flags
short_not_\cc\()_\flags:
	nop
short_taken_\cc\()_\flags:
	push	$\flags
	popf
	{disp32} j\cc	near_taken_\cc\()_\flags
near_not_\cc\()_\flags:
	nop
near_taken_\cc\()_\flags:
	.endm

	/* the jump that is passed over shows what was taken */
	expect	short_not_no_2261 near_not_no_2261 short_not_ae_2261 near_not_ae_2261
	expect	short_not_ne_2261 near_not_ne_2261 short_not_a_2261 near_not_a_2261
	expect	short_not_ns_2261 near_not_ns_2261 short_not_np_2261 near_not_np_2261
	expect	short_not_l_2261 near_not_l_2261 short_not_g_2261 near_not_g_2261
	expect	short_not_o_0 near_not_o_0 short_not_b_0 near_not_b_0
	expect	short_not_e_0 near_not_e_0 short_not_be_0 near_not_be_0
	expect	short_not_s_0 near_not_s_0 short_not_p_0 near_not_p_0
	expect	short_not_l_0 near_not_l_0 short_not_le_0 near_not_le_0
	expect	done
	oracle	short_not_ near_not_
_start:
	.irp	cc, o, no, b, ae, e, ne, be, a, s, ns, p, np, l, ge, le, g
	condition \cc, 2261
	.endr
	.irp	cc, o, no, b, ae, e, ne, be, a, s, ns, p, np, l, ge, le, g
	condition \cc, 0
	.endr
done:
	quit
