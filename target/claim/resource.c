/* SPDX-License-Identifier: MIT */
#include "target/claim/resource.h"

static const char *const resources[CLAIM_RESOURCE_END] = {
	"?",
	[CLAIM_DEBUG_REGISTER] = "debug-register",
	[CLAIM_BRANCH_UNIT] = "branch-unit",
	[CLAIM_LOCKED_MEMORY] = "locked-memory",
	[CLAIM_DESCRIPTORS] = "descriptors",
	[CLAIM_SIGTRAP] = "sigtrap",
	[CLAIM_COUNTER] = "counter",
};

static const char *const scopes[CLAIM_SCOPE_END] = {
	"?",
	[CLAIM_OF_THREAD] = "thread",
	[CLAIM_OF_PROCESS] = "process",
	[CLAIM_OF_CPU] = "cpu",
	[CLAIM_OF_USER] = "user",
	[CLAIM_OF_SYSTEM] = "system",
};

const char *claim_resource_name(enum claim_resource resource)
{
	return resources[resource < CLAIM_RESOURCE_END ? resource : 0];
}

const char *claim_scope_name(enum claim_scope scope)
{
	return scopes[scope < CLAIM_SCOPE_END ? scope : 0];
}
