/* SPDX-License-Identifier: MIT */
/*
 * Reading and checking a module's site table (abi/site.h). Part of module.c, which alone calls it.
 */
#ifndef INSIDE_MARKER_MODULE_SITES_H
#define INSIDE_MARKER_MODULE_SITES_H

#include "abi/site.h"
#include "inside/marker/module.h"

struct table_place {
	uintptr_t note; /* of the note's description; 0: none */
	struct wm_site_note bounds;
};

/*
 * Fill in module->sites and what belongs to them. Returns 0 or -ENOMEM. Where the note was moved,
 * the table is found by its entries (base/site_table.h). A table that can't be right leaves no site
 * and -WM_E_MODULE_DAMAGED in module->error.
 */
int module_table_read(struct module *module, const struct text *text,
		      const struct table_place *place);

#endif
