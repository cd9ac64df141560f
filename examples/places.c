/* SPDX-License-Identifier: MIT */
/* What can be recorded: places FILE|PID SPEC, as places ./psql 'usdt:*:*'. Link with -lwaymark. */
#include <stdio.h>
#include <stdlib.h>
#include <waymark/error.h>
#include <waymark/list.h>

static int print(const struct wm_list_place *place, void *data)
{
	int *count = (int *)data;

	printf("%#14llx  %s(", place->address + 0ULL, place->name);
	for (uint32_t i = 0; i < place->field_count; i++)
		printf("%s%s", i ? ", " : "", place->fields[i].name);
	printf(")  %s:%u  %s\n", place->source, place->line, place->module);
	if (place->error)
		printf("\tnot: %s %s\n", wm_error_text(place->error), place->detail);
	++*count;
	return 0;
}

int main(int argc, char **argv)
{
	int count = 0, pid, err;

	if (argc < 3)
		return 2;
	pid = atoi(argv[1]);
	err = pid ? wm_list_process(pid, argv[2], print, &count)
		  : wm_list_file(argv[1], argv[2], print, &count);
	if (err)
		fprintf(stderr, "places: %s: %s\n", argv[1], wm_error_text(err));
	printf("%d places\n", count);
	return err != 0;
}
