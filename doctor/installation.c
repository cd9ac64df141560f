/* SPDX-License-Identifier: MIT */
/*
 * Waymark itself: the folder of its sockets, the files of agent and engine, and whether a program
 * comes up with the agent.
 */
#include "doctor/doctor.h"

#include "abi/release.h"
#include "base/elf.h"
#include "doctor/launched.h"
#include "process/agentpath.h"
#include "process/socket_owner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

static void look_at_sockets(struct finding_list *list)
{
	struct finding *finding = finding_add(list, "waymark", "sockets");
	char dir[SOCKETDIR_BYTES];
	int err = place_own(dir);

	finding->is_basic = 1;
	if (!err && access(dir, W_OK | X_OK))
		err = -errno;
	if (!err)
		finding_say(finding, FINDING_FINE, "%s, for this user alone", dir);
	else
		finding_error(finding, err, dir);
	if (err && !finding->change[0])
		finding_change(finding, "set XDG_RUNTIME_DIR to a folder that this user can write");
}

/* Whether it is of the same release as this command. */
static void look_at_release(struct finding *finding, const char *path)
{
	char text[RELEASE_BYTES_MAX];
	struct elf elf;
	int err = elf_open(&elf, path);

	if (!err)
		err = elf_release_text(&elf, text, sizeof(text));
	elf_release(&elf);
	if (!err && !strcmp(text, RELEASE_TEXT)) {
		finding_say(finding, FINDING_FINE, "%s, version %s", path, WAYMARK_VERSION);
		return;
	}
	if (!err || err == -ENOENT)
		finding_say(finding, FINDING_LIMITED, "%s is %s, and this command is %s", path,
			    err ? "of an unknown version" : text, RELEASE_TEXT);
	else
		finding_error(finding, err, path);
	finding_change(finding, "install both from one build");
}

static void look_at_file(struct finding_list *list, const char *name, const char *variable,
			 int (*find)(char path[PATH_MAX]), int cause)
{
	struct finding *finding = finding_add(list, "waymark", name);
	char path[PATH_MAX];
	finding->is_basic = 1;
	if (find(path))
		finding_error(finding, cause, path);
	else
		look_at_release(finding, path);
	if (getenv(variable) && *getenv(variable))
		finding_more(finding, "%s names it", variable);
}

static void look_at_launch(struct finding_list *list, const struct machine *machine)
{
	static const char *const ways[] = { [WAY_PROC_MEM] = "writes code by /proc/self/mem",
					    [WAY_MPROTECT] = "writes code by mprotect(2)",
					    [WAY_NONE] = "cannot write code" };
	struct finding *finding = finding_add(list, "waymark", "preload");
	struct launched launched;

	finding->is_basic = 1;
	if (!machine->program) {
		finding_say(finding, FINDING_UNKNOWN, "not tried: /proc/self/exe names no program");
		return;
	}
	launched_try(&launched, machine->program);
	if (launched.error) {
		finding_error(finding, launched.error, launched.words);
	} else if (launched.way < WAY_PROC_MEM || launched.way > WAY_NONE) {
		finding_say(
			finding, FINDING_LIMITED,
			"a program was started with the agent, which reported no way to write code");
	} else {
		finding_say(finding, launched.way == WAY_NONE ? FINDING_LIMITED : FINDING_FINE,
			    "a program was started with the agent, which %s", ways[launched.way]);
		if (launched.way == WAY_NONE)
			finding_change(finding, "%s", wm_error_hint(WM_E_NO_TEXT_WRITE));
	}
}

void look_files(struct finding_list *list, const struct machine *machine)
{
	look_at_sockets(list);
	look_at_file(list, "agent", "WAYMARK_AGENT", agentpath_find, WM_E_NO_AGENT);
	look_at_file(list, "engine", "WAYMARK_ENGINE", agentpath_find_engine, WM_E_NO_ENGINE);
	look_at_launch(list, machine);
}
