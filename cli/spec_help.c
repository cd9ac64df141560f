/* SPDX-License-Identifier: MIT */
/* Prints the kinds and options of event specs, from the table that reads them. */
#include "cli/cli.h"
#include "record/spec/syntax.h"

#include <stdio.h>

int spec_help(int is_manual)
{
	const char *of_kind = is_manual ? "**%s%s**\n:   %s\n\n" : "\n%s%s\n    %s\n";
	const char *of_option = is_manual ? "    - **%s%s%s**: %s\n" : "      %s%s%s: %s\n";

	fputs(is_manual ? "# KINDS AND OPTIONS\n\n"
			: "A spec of what to record is KIND[:NAME][/OPTION,OPTION=VALUE.../]; see\n"
			  "waymark-spec(7).\n",
	      stdout);
	for (const struct spec_kind *kind = spec_kinds; kind->name; kind++) {
		printf(of_kind, kind->name, kind->form, kind->meaning);
		for (unsigned int i = 0; i < kind->option_count; i++) {
			const struct spec_option *option = &kind->options[i];

			printf(of_option, option->name, option->value ? "=" : "",
			       option->value ? option->value : "", option->meaning);
		}
		if (kind->field)
			printf(of_option, SPEC_FIELD_FORM, "", "", SPEC_FIELD_MEANING);
		if (is_manual && kind->option_count)
			putchar('\n');
	}
	return CLI_FINE;
}
