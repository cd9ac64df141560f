/* SPDX-License-Identifier: MIT */
#include "target/process/agentpath.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
#include <waymark/error.h>

/*
 * One of Waymark's files; `built`: its places in a build tree, from the folder of the command, and
 * of libwaymark.so.
 */
struct ours {
	const char *file, *environment, *built[2];
};

static const struct ours agent = { "libwaymark-agent.so",
				   "WAYMARK_AGENT",
				   { "/../inside/", "/inside/" } };
static const struct ours engine = { "libwaymark-trail.so",
				    "WAYMARK_ENGINE",
				    { "/../inside/engine/", "/inside/engine/" } };

static const char *const beside[] = { "/", "/../lib/", "/../lib64/" };

/*
 * The folder of the file that holds this very function: the command, libwaymark.so, or a program
 * that has libwaymark.a.
 */
static int own_folder(char folder[PATH_MAX])
{
	char self[PATH_MAX];
	Dl_info info;
	char *slash;

	if (!dladdr((void *)own_folder, &info) || !info.dli_fname)
		return 0;
	/* for the executable the loader gives argv[0], which may be anything */
	if (!strchr(info.dli_fname, '/') || !realpath(info.dli_fname, self)) {
		ssize_t got = readlink("/proc/self/exe", self, sizeof(self) - 1);

		if (got <= 0)
			return 0;
		self[got] = 0;
	}
	slash = strrchr(self, '/');
	if (!slash)
		return 0;
	*slash = 0;
	strcpy(folder, self);
	return 1;
}

static int path_take(char path[PATH_MAX], const char *folder, const char *step, const char *file)
{
	char candidate[PATH_MAX];
	int got = snprintf(candidate, sizeof(candidate), "%s%s%s", folder, step, file);

	if (got <= 0 || got >= (int)sizeof(candidate))
		return 0;
	if (realpath(candidate, path) && access(path, R_OK) == 0)
		return 1;
	strcpy(path, candidate);
	return 0;
}

static int find(char path[PATH_MAX], const struct ours *ours, const char *named)
{
	char folder[PATH_MAX];

	if (!named || !named[0])
		named = secure_getenv(ours->environment);
	if (named && named[0])
		return path_take(path, named, "", "") ? 0 : -WM_E_NO_AGENT;
	/*
	 * the caller of a program that gains privileges chooses its argv[0], and may link it
	 * elsewhere
	 */
	if (!getauxval(AT_SECURE) && own_folder(folder)) {
		for (size_t i = 0; i < 2; i++)
			if (path_take(path, folder, ours->built[i], ours->file))
				return 0;
		for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
			if (path_take(path, folder, beside[i], ours->file))
				return 0;
	}
	return path_take(path, WAYMARK_LIBDIR, "/", ours->file) ? 0 : -WM_E_NO_AGENT;
}

int agentpath_find(char path[PATH_MAX])
{
	return find(path, &agent, NULL);
}

int agentpath_find_as(char path[PATH_MAX], const char *named)
{
	return find(path, &agent, named);
}

int agentpath_find_engine(char path[PATH_MAX])
{
	return find(path, &engine, NULL);
}

/*
 * glibc replaces "$LIB" by "lib/x86_64-linux-gnu", or the system's own name; for other libraries it
 * is a folder that does not exist. The root's parent is the root, so any number of steps up will
 * do.
 */
#define ONLY_GLIBC "/usr/$LIB/../../../../../../../.."

static int finds_itself(const char *prefix)
{
	char path[PATH_MAX], real[PATH_MAX];
	void *handle;
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)getpid, &info) || !info.dli_fname ||
	    !realpath(info.dli_fname, real) ||
	    snprintf(path, sizeof(path), "%s%s", prefix, real) >= (int)sizeof(path))
		return 0;
	handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (handle)
		dlclose(handle);
	return handle != NULL;
}

void agentpath_for_glibc(char path[PATH_MAX])
{
	char whole[PATH_MAX];
	int bytes = snprintf(whole, sizeof(whole), "%s%s", ONLY_GLIBC, path);

	if (path[0] == '/' && bytes < (int)sizeof(whole) && finds_itself(ONLY_GLIBC))
		memcpy(path, whole, (size_t)bytes + 1);
}
