/* SPDX-License-Identifier: MIT */
#include "inside/detour/trap_book.h"

__thread struct trap_thread trap_thread __attribute__((tls_model("initial-exec")));
