/* SPDX-License-Identifier: MIT */
/*
 * The kernel's system calls of x86-64, from the headers of the machine that builds, and the newer
 * ones that Debian 12's headers lack. The numbers are ABI. base/meson.build makes the table of
 * syscall_name.c of it.
 */
#include <asm/unistd_64.h>

#define __NR_cachestat 451
#define __NR_fchmodat2 452
#define __NR_map_shadow_stack 453
#define __NR_futex_wake 454
#define __NR_futex_wait 455
#define __NR_futex_requeue 456
#define __NR_statmount 457
#define __NR_listmount 458
#define __NR_lsm_get_self_attr 459
#define __NR_lsm_set_self_attr 460
#define __NR_lsm_list_modules 461
#define __NR_mseal 462
#define __NR_setxattrat 463
#define __NR_getxattrat 464
#define __NR_listxattrat 465
#define __NR_removexattrat 466
#define __NR_open_tree_attr 467
