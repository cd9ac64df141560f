/* SPDX-License-Identifier: MIT */
#include "target/process/launch.h"

#include "abi/control.h"
#include "target/process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* "NAME=value" of one of Waymark's variables, or NULL when it is not wanted. */
static int ours_make(char *ours[LAUNCH_OURS], const struct launch_options *options)
{
	const char *preload = getenv("LD_PRELOAD");

	memset(ours, 0, LAUNCH_OURS * sizeof(*ours));
	if (asprintf(&ours[0], "LD_PRELOAD=%s%s%s", options->agent,
		     preload && preload[0] ? ":" : "", preload ? preload : "") < 0 ||
	    asprintf(&ours[1], CONTROL_TOOL_ENV "=%s", options->tool) < 0 ||
	    asprintf(&ours[2], CONTROL_FILTERS_ENV "=%ld", target_filters(gettid())) < 0 ||
	    (options->prearm && asprintf(&ours[3], CONTROL_PREARM_ENV "=1") < 0))
		return -ENOMEM;
	return 0;
}

static int is_ours(const char *entry)
{
	static const char *const names[] = { "LD_PRELOAD=", CONTROL_TOOL_ENV "=",
					     CONTROL_FILTERS_ENV "=", CONTROL_PREARM_ENV "=" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(entry, names[i], strlen(names[i])))
			return 1;
	return 0;
}

/* The environment of the child; its strings are ours[] and those of environ. */
static char **environment_make(char *ours[LAUNCH_OURS])
{
	size_t count = 0, at = 0;
	char **made;

	while (environ && environ[count])
		count++;
	made = malloc((count + LAUNCH_OURS + 1) * sizeof(*made));
	if (!made)
		return NULL;
	for (size_t i = 0; i < count; i++)
		if (!is_ours(environ[i]))
			made[at++] = environ[i];
	for (size_t i = 0; i < LAUNCH_OURS; i++)
		if (ours[i])
			made[at++] = ours[i];
	made[at] = NULL;
	return made;
}

/* The child's errno, read until the pipe closes, which is when execve(2) has succeeded. */
static int exec_result(int fd, pid_t pid)
{
	int failure = 0;
	ssize_t got;

	do {
		got = read(fd, &failure, sizeof(failure));
	} while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(failure))
		return 0;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return -failure;
}

static int start(pid_t *pid, const char *path, char *const argv[], char **environment,
		 const struct launch_options *options)
{
	int ends[2], err;
	pid_t self = getpid();

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*pid = fork();
	if (*pid == 0) {
		if (options->is_traced)
			prctl(PR_SET_PTRACER, self, 0, 0, 0);
		execve(path, argv, environment);
		err = errno;
		if (write(ends[1], &err, sizeof(err)) < 0)
			_exit(126);
		_exit(127);
	}
	err = *pid < 0 ? -errno : 0;
	close(ends[1]);
	if (!err)
		err = exec_result(ends[0], *pid);
	close(ends[0]);
	return err;
}

int launch_environment_make(struct launch_environment *environment,
			    const struct launch_options *options)
{
	int err = ours_make(environment->ours, options);

	environment->list = err ? NULL : environment_make(environment->ours);
	return environment->list ? 0 : -ENOMEM;
}

void launch_environment_release(struct launch_environment *environment)
{
	for (size_t i = 0; i < LAUNCH_OURS; i++)
		free(environment->ours[i]);
	free(environment->list);
	*environment = (struct launch_environment){ 0 };
}

int launch_start(pid_t *pid, const char *path, char *const argv[],
		 const struct launch_options *options)
{
	struct launch_environment environment;
	int err = launch_environment_make(&environment, options);

	if (!err)
		err = start(pid, path, argv, environment.list, options);
	launch_environment_release(&environment);
	return err;
}
