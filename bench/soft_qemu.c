/* SPDX-License-Identifier: MIT */
/*
 * A plugin for qemu-user that puts the address of each block that runs into a ring of 64 MB: the
 * same work as a trail by translation does, for soft.sh. Debian has no package with qemu-plugin.h,
 * so what is used of it (version 1, of qemu 4.2 and later) is declared here.
 */
#include <stdint.h>
#include <stdlib.h>

#define RING_WORDS (UINT64_C(8) << 20)
#define EXPORT __attribute__((visibility("default")))

#if __has_include(<qemu-plugin.h>)
#include <qemu-plugin.h>
#else
typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
struct qemu_plugin_tb;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*call)(qemu_plugin_id_t id,
							struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
					  void (*call)(unsigned int processor, void *data),
					  enum qemu_plugin_cb_flags flags, void *data);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);
#endif

EXPORT extern int qemu_plugin_version;
EXPORT int qemu_plugin_version = 1;

static uint64_t *ring;
static uint64_t at;

static void on_block(unsigned int processor, void *data)
{
	(void)processor;
	ring[at++ % RING_WORDS] = (uint64_t)(uintptr_t)data;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	(void)id;
	qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS,
					     (void *)(uintptr_t)qemu_plugin_tb_vaddr(block));
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	(void)argc;
	(void)argv;
	ring = calloc(RING_WORDS, sizeof(*ring));
	if (!ring)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
