/* SPDX-License-Identifier: MIT */
#ifndef INSIDE_CONTROL_AGENT_START_H
#define INSIDE_CONTROL_AGENT_START_H

#endif
