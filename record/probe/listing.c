/* SPDX-License-Identifier: MIT */
#include "record/probe/listing.h"

#include "base/elf.h"
#include "record/probe/probe_plan.h"
#include "target/process/loaded.h"
#include "target/process/reach.h"
#include "target/process/target.h"

#include <stdio.h>
#include <waymark/error.h>

const struct control_detour *listing_choice_next(const struct control_detour *choice)
{
	return (const void *)((const char *)choice + choice->bytes);
}

/* Fill in the forms that this process allows for each choice, and the best. */
static void judge(const struct listing *listing, struct listing_place *to)
{
	const struct control_detour *choice = to->choices;
	unsigned int all = 0;

	for (unsigned int i = 0; i < to->choice_count; i++, choice = listing_choice_next(choice)) {
		to->forms[i] = forms_of(choice, listing->room, listing->base);
		if (listing->is_unstoppable)
			to->forms[i] &= 1u << FORM_BYTE;
		if (listing->refusal[0])
			to->forms[i] = 0;
		all |= to->forms[i];
	}
	to->best = forms_best(all);
	while (to->best_choice + 1 < to->choice_count &&
	       !(to->forms[to->best_choice] >> to->best & 1))
		to->best_choice++;
}

static void take_place(const struct code_place *place, int err, const char *detail,
		       const struct control_detour *choices, unsigned int count, void *data)
{
	struct listing *listing = data;
	struct listing_place to = {
		.place = place,
		.module = listing->path,
		.pid = listing->pid,
		.base = listing->base,
		.address = place->address ? place->address + listing->base : 0,
		.error = err,
		.detail = detail,
		.choices = choices,
		.choice_count = count,
	};

	judge(listing, &to);
	/* the code allows it, but the process forbids it or has no room */
	if (!err && !to.best) {
		to.error = listing->refusal[0]	     ? -WM_E_INJECT
			   : listing->is_unstoppable ? -WM_E_NO_PTRACE
			   : place->is_safe	     ? -WM_E_SPAN_UNSAFE
						     : -WM_E_PUN_TAKEN;
		to.detail = listing->refusal[0] ? listing->refusal : detail;
	}
	listing->place(&to, listing->data);
}

static int list_module(struct listing *listing, struct code_module *module, const char *path,
		       const struct code_process *process)
{
	struct plan_listener listener = { take_place, listing };
	struct plan *plan;
	int err;

	listing->path = path;
	listing->base = module->base;
	err = plan_make(&plan, listing->specs, module, process, &listener);
	if (!err)
		err = plan_names(&listing->names, listing->specs, module);
	plan_free(plan);
	return err;
}

/* Find out what the process forbids. */
static void look_at_process(struct listing *listing, pid_t pid)
{
	struct target target;

	listing->pid = pid;
	listing->is_unstoppable = 0;
	listing->refusal[0] = '\0';
	if (!pid || target_read(&target, pid))
		return;
	listing->is_unstoppable = !target_may_be_stopped(&target);
	reach_limits(&target, (struct detail){ listing->refusal, sizeof(listing->refusal) });
}

int listing_file(struct listing *listing, const char *path)
{
	struct code_module module = { 0 };
	struct code_file *file;
	int err = code_file_open(&file, path);

	look_at_process(listing, 0);
	if (err)
		return err;
	code_module_init(&module, file, 0);
	err = list_module(listing, &module, path, NULL);
	code_module_release(&module);
	return err;
}

/* Without this, a process of a foreign architecture would just have no modules. */
static int process_check(pid_t pid)
{
	struct elf elf;
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	err = elf_open(&elf, path);
	elf_release(&elf);
	return err == -WM_E_FOREIGN_ARCH ? err : 0;
}

int listing_process(struct listing *listing, pid_t pid)
{
	struct loaded_list list;
	struct code_process process;
	int err = loaded_read(&list, pid);

	look_at_process(listing, pid);
	if (!err)
		err = process_check(pid);
	if (!err)
		err = loaded_open(&list);
	if (!err)
		err = forms_room_read(&listing->room, pid);
	process = loaded_process(&list);
	for (size_t i = 0; !err && i < list.count; i++) {
		const struct loaded *loaded = &list.all[i];

		if (listing->is_over && listing->is_over(listing->data))
			break;
		if (!plan_concerns(listing->specs, loaded->path, &loaded->aliases))
			continue;
		if (loaded->module)
			err = list_module(listing, loaded->module, loaded->path, &process);
		else
			listing->fault(loaded->path, loaded->error, listing->data);
	}
	loaded_release(&list);
	forms_room_free(listing->room);
	listing->room = NULL;
	return err;
}
