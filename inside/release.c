/* SPDX-License-Identifier: MIT */
/* The note by which the agent's file and the engine's say what they are from. Nothing here runs. */
#include "abi/release.h"

RELEASE_HERE;
