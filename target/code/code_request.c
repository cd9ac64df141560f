/* SPDX-License-Identifier: MIT */
#include "target/code/code_request.h"

#include "base/name_match.h"
#include "target/code/file.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void code_request_release(struct code_request *request)
{
	free(request->name);
	free(request->module);
	*request = (struct code_request){ 0 };
}

static int takes_name(const char *wanted, const char *path)
{
	char text[PATH_MAX];

	if (name_match_module(wanted, path))
		return 1;
	if (strchr(wanted, '/'))
		return 0;
	code_file_short_name(path, text,
			     sizeof(text)); /* its events may have '_' for a character */
	return name_match(wanted, text);
}

int code_request_takes(const struct code_request *request, const char *path,
		       const struct code_aliases *aliases)
{
	const char *wanted = request->module;
	char text[PATH_MAX];

	if (!wanted || takes_name(wanted, path))
		return 1;
	if (strchr(wanted, '/') && realpath(wanted, text) && !strcmp(text, path))
		return 1;
	return aliases && ((aliases->link && takes_name(wanted, aliases->link)) ||
			   (aliases->argument && takes_name(wanted, aliases->argument)));
}
