/* SPDX-License-Identifier: MIT */
/*
 * A library with a variable, alone or with -DOF=__thread one of each thread, and a function that
 * adds 1, or -DBY, to it. With -DGO there seems to be code of Go.
 */
#ifndef BY
#define BY 1
#endif
#ifndef OF
#define OF volatile
__attribute__((constructor)) static void begin(void);
#endif
OF unsigned long in_library;

#ifdef GO
__attribute__((section(".gopclntab"), used)) static const char go[64];
#endif

void library_write(void)
{
	in_library = in_library + BY;
}

static void begin(void)
{
	in_library = 100;
}
