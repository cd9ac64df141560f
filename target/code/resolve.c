/* SPDX-License-Identifier: MIT */
#include "target/code/resolve.h"

#include "base/name_match.h"
#include "target/code/function.h"
#include "target/code/line.h"
#include "target/code/probe_fields.h"
#include "target/code/sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

void code_module_init(struct code_module *module, struct code_file *file, uint64_t base)
{
	*module = (struct code_module){ .file = file, .base = base };
}

void code_module_release(struct code_module *module)
{
	code_symbols_release(&module->symbols);
	code_usdt_release(&module->usdt);
	if (module->outline)
		sweep_release(module->outline);
	free(module->outline);
	code_file_close(module->file);
	*module = (struct code_module){ 0 };
}

const struct code_symbols *code_module_symbols(struct code_module *module)
{
	if (!module->has_symbols && code_symbols_read(&module->symbols, module->file)) {
		code_symbols_release(&module->symbols);
		return NULL;
	}
	module->has_symbols = 1;
	return &module->symbols;
}

const struct code_usdt_list *code_module_usdt(struct code_module *module)
{
	if (!module->has_usdt) {
		module->usdt_err = code_usdt_read(&module->usdt, module->file);
		if (module->usdt_err == -ENOMEM) {
			code_usdt_release(&module->usdt);
			return NULL;
		}
	}
	module->has_usdt = 1;
	return &module->usdt;
}

/* The function around a point, if a symbol shows it. */
static void set_function(struct code_place *place, struct code_module *module)
{
	const struct code_symbols *symbols = code_module_symbols(module);
	const struct code_function *function = symbols ? code_function_at(symbols, place->address)
						       : NULL;

	if (function) {
		place->function = function->address;
		place->function_bytes = function->bytes;
	}
}

static int semaphore_is_good(const struct code_file *file, uint64_t semaphore)
{
	const struct code_segment *segment = code_file_segment(file, semaphore);

	return !semaphore || (segment && segment->flags & PF_W && !(semaphore & 1) &&
			      segment->bytes - (semaphore - segment->address) >= 2);
}

static int usdt_place(const struct code_request *request, struct code_module *module,
		      const struct code_usdt *usdt, code_found *found, void *data)
{
	struct code_values values = { .is_told = 1, .lost_err = -WM_E_OPERAND };
	struct code_place place = { .kind = PLACE_USDT,
				    .subsystem = usdt->provider,
				    .event = usdt->name,
				    .source = "",
				    .address = usdt->address,
				    .semaphore = usdt->semaphore };
	char detail[256] = "", argument[160], name[64];
	int err, count;

	if (!code_file_is_text(module->file, usdt->address, 1))
		return found(&place, -WM_E_NOT_CODE, detail, data);
	if (!semaphore_is_good(module->file, usdt->semaphore))
		return found(&place, -WM_E_MODULE_DAMAGED, "its semaphore is outside of its data",
			     data);
	count = code_usdt_fields(usdt, module->file, values.all, CODE_VALUES_MAX);
	values.count = count < CODE_VALUES_MAX ? (unsigned int)count : CODE_VALUES_MAX;
	err = code_fields_choose(request, &values, &place, name);
	if (err == -WM_E_OPERAND) {
		code_usdt_argument(usdt, atoi(name + 3), argument, sizeof(argument));
		snprintf(detail, sizeof(detail), "%s is %s", name, argument);
	} else if (err) {
		snprintf(detail, sizeof(detail), "%s", name);
	} else {
		set_function(&place, module);
	}
	return found(&place, err, detail, data);
}

static int resolve_usdt(const struct code_request *request, struct code_module *module,
			code_found *found, void *data)
{
	const struct code_usdt_list *list = code_module_usdt(module);
	int count = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++) {
		const struct code_usdt *usdt = &list->all[i];
		char name[1024];
		int ret;

		if (snprintf(name, sizeof(name), "%s:%s", usdt->provider, usdt->name) >=
			    (int)sizeof(name) ||
		    !name_match(request->name, name))
			continue;
		ret = usdt_place(request, module, usdt, found, data);
		if (ret)
			return ret;
		count++;
	}
	if (count)
		return count;
	return module->usdt_err ? module->usdt_err : -WM_E_NO_USDT;
}

/* A point at an address: only the user knows which register holds what. */
static int address_place(const struct code_request *request, struct code_module *module,
			 struct code_place *place, code_found *found, void *data)
{
	struct code_values values = { .with_registers = 1 };
	char name[64];
	int err;

	if (!code_file_is_text(module->file, place->address, 1))
		return found(place, -WM_E_NOT_CODE, "", data);
	code_values_registers(&values);
	err = code_fields_choose(request, &values, place, name);
	if (!err)
		set_function(place, module);
	return found(place, err, name, data);
}

static int resolve_offset(const struct code_request *request, struct code_module *module,
			  code_found *found, void *data)
{
	char event[32];
	struct code_place place = { .kind = PLACE_ADDRESS,
				    .subsystem = module->file->name,
				    .event = event,
				    .source = "",
				    .address = request->offset };
	int ret;

	snprintf(event, sizeof(event), "+0x%" PRIx64, request->offset);
	ret = address_place(request, module, &place, found, data);
	return ret ? ret : 1;
}

static int resolve_line(const struct code_request *request, struct code_module *module,
			code_found *found, void *data)
{
	const char *slash = strrchr(request->name, '/');
	char event[256], detail[64] = "";
	struct code_place place = { .kind = PLACE_ADDRESS,
				    .subsystem = module->file->name,
				    .event = event,
				    .source = request->name,
				    .line = request->line };
	struct code_lines lines;
	int ret = code_lines_find(&lines, module->file, request->name, request->line), count = 0;

	snprintf(event, sizeof(event), "%.200s:%u", slash ? slash + 1 : request->name,
		 request->line);
	for (size_t i = 0; !ret && i < lines.count; i++) {
		place.address = lines.all[i].address;
		place.source = lines.all[i].source;
		ret = address_place(request, module, &place, found, data);
		count++;
	}
	if (!ret && !lines.has_source) {
		ret = -WM_E_NO_DEBUG;
	} else if (!ret && !count) {
		if (lines.after)
			snprintf(detail, sizeof(detail), "the next that has code is %u",
				 lines.after);
		ret = found(&place, -WM_E_NO_LINE, detail, data);
		count = 1;
	}
	code_lines_release(&lines);
	return ret ? ret : count;
}

int code_resolve(const struct code_request *request, struct code_module *module,
		 const struct code_process *process, code_found *found, void *data)
{
	if (module->file->is_vdso)
		return -WM_E_KERNEL_CODE;
	switch (request->kind) {
	case REQUEST_USDT:
		return resolve_usdt(request, module, found, data);
	case REQUEST_FUNCTION:
		return code_resolve_function(request, module, process, found, data);
	case REQUEST_OFFSET:
		return resolve_offset(request, module, found, data);
	default:
		return resolve_line(request, module, found, data);
	}
}
