/* SPDX-License-Identifier: MIT */
/* What is Waymark's own: the folder of sockets, the agent's file and the engine's, and whether a program comes up with the agent. */
#include "session/doctor/look.h"

#include "abi/release.h"
#include "base/elf.h"
#include "session/agentpath.h"
#include "session/doctor/launched.h"
#include "session/place.h"

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
	if (!err) {
		finding_say(finding, FINDING_FINE, "%s, ours alone", dir);
		return;
	}
	finding_say(finding, FINDING_ABSENT, "%s: %s", dir, wm_error_text(err));
	finding_change(finding, "%s",
		       wm_error_hint(err)[0] ? wm_error_hint(err)
					     : "XDG_RUNTIME_DIR: a folder of one's own "
					       "that can be written");
}

/* Whether it is of the same release as we. */
static void look_at_release(struct finding *finding, const char *path)
{
	char text[RELEASE_BYTES_MAX];
	struct elf elf;
	int err = elf_open(&elf, path);

	if (!err)
		err = elf_release_text(&elf, text, sizeof(text));
	elf_release(&elf);
	if (!err && !strcmp(text, RELEASE_TEXT)) {
		finding_say(finding, FINDING_FINE, "%s, %s as we are", path, WAYMARK_VERSION);
		return;
	}
	if (!err)
		finding_say(finding, FINDING_LIMITED, "%s is %s, and we are %s", path, text,
			    RELEASE_TEXT);
	else if (err == -ENOENT)
		finding_say(finding, FINDING_LIMITED, "%s does not say its version: we are %s",
			    path, RELEASE_TEXT);
	else
		finding_say(finding, FINDING_ABSENT, "%s: %s", path, wm_error_text(err));
	finding_change(finding, "install both from one build");
}

static void look_at_file(struct finding_list *list, const char *name, const char *variable,
			 int (*find)(char path[PATH_MAX]), int cause)
{
	struct finding *finding = finding_add(list, "waymark", name);
	char path[PATH_MAX];
	int err = find(path);

	finding->is_basic = 1;
	if (err) {
		finding_say(finding, FINDING_ABSENT, "looked for last: %s", path);
		finding_change(finding, "%s", wm_error_hint(cause));
		return;
	}
	look_at_release(finding, path);
	if (getenv(variable) && *getenv(variable))
		finding_more(finding, "%s names it", variable);
}

static void look_at_launch(struct finding_list *list, const struct machine *machine)
{
	static const char *const ways[] = { [WAY_PROC_MEM] = "writes code by /proc/self/mem",
					    [WAY_MPROTECT] = "writes code by mprotect(2)",
					    [WAY_NONE] = "can't write code" };
	struct finding *finding = finding_add(list, "waymark", "preload");
	struct launched launched;

	finding->is_basic = 1;
	if (!machine->trial) {
		finding_say(finding, FINDING_UNKNOWN, "not tried: /proc/self/exe names no program");
		return;
	}
	machine_calls(machine)->launch(&launched, machine->trial);
	if (launched.error) {
		finding_say(finding, FINDING_ABSENT, "%s", wm_error_text(launched.error));
		if (launched.words[0])
			finding_more(finding, "%s", launched.words);
		finding_change(finding, "%s",
			       wm_error_hint(launched.error)[0]
				       ? wm_error_hint(launched.error)
				       : "waymark record -- PROGRAM says more");
		return;
	}
	if (launched.way < WAY_PROC_MEM || launched.way > WAY_NONE) {
		finding_say(finding, FINDING_LIMITED,
			    "the agent came up; how it writes code it did not say");
		return;
	}
	finding_say(finding, launched.way == WAY_NONE ? FINDING_LIMITED : FINDING_FINE,
		    "a program that was started has the agent, which %s", ways[launched.way]);
	if (launched.way == WAY_NONE)
		finding_change(finding, "%s", wm_error_hint(WM_E_NO_TEXT_WRITE));
}

void look_files(struct finding_list *list, const struct machine *machine)
{
	look_at_sockets(list);
	look_at_file(list, "agent", "WAYMARK_AGENT", agentpath_find, WM_E_NO_AGENT);
	look_at_file(list, "engine", "WAYMARK_ENGINE", agentpath_find_engine, WM_E_NO_ENGINE);
	look_at_launch(list, machine);
}
