// SPDX-License-Identifier: GPL-2.0
/*
 * Files in debugfs for tests. They break the order of PAYGO on purpose and widen its
 * races. They also do at once what would wait for contention, age or other code.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/paygo.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/swap.h>
#include <linux/uaccess.h>

#include "folioref.h"
#include "paygo_host.h"

unsigned int paygo_mutant __read_mostly;
unsigned int paygo_window __read_mostly;

static const char * const paygo_mutants[NR_MUTANTS] = {
	[MUTANT_NONE]			= "none",
	[MUTANT_ENTRY_CLOSED_FIRST]	= "closed-first",
	[MUTANT_ENTRY_OWN_FIRST]	= "own-first",
	[MUTANT_ENTRY_SURPLUS_KEPT]	= "surplus-kept",
	[MUTANT_ENTRY_AWAY_BLIND]	= "away-blind",
	[MUTANT_ENTRY_AWAY_LOOK_FIRST]	= "away-look-first",
	[MUTANT_ENTRY_REUSED_EARLY]	= "reused-early",
	[MUTANT_ENTRY_BESIDE_TOMBSTONE]	= "beside-tombstone",
	[MUTANT_ENTRY_HIT_CLOSED]	= "hit-closed",
	[MUTANT_ENTRY_INSTALL_DISABLED]	= "install-disabled",
};

static int paygo_mutant_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "%s\n", paygo_mutants[paygo_mutant]);
	return 0;
}

static ssize_t paygo_mutant_write(struct file *file, const char __user *buf, size_t n,
				  loff_t *ppos)
{
	char text[32] = { };
	int i;

	if (n >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, n))
		return -EFAULT;
	i = sysfs_match_string(paygo_mutants, text);
	if (i < 0)
		return i;
	WRITE_ONCE(paygo_mutant, i);
	return n;
}
DEFINE_SHOW_STORE_ATTRIBUTE(paygo_mutant);

/* Written: folds all tables. */
static int paygo_drain_set(void *unused, u64 value)
{
	paygo_drain_all();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(paygo_drain_fops, NULL, paygo_drain_set, "%llu\n");

/* Written 1 or 0: as code that forbids entries for a while. */
static int paygo_disable_set(void *unused, u64 value)
{
	static bool disabled;

	if (!!value == disabled)
		return -EINVAL;
	if (value)
		lru_cache_disable();
	else
		lru_cache_enable();
	disabled = value;
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(paygo_disable_fops, NULL, paygo_disable_set, "%llu\n");

static int __init paygo_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("paygo", NULL);

	debugfs_create_file("mutant", 0600, dir, NULL, &paygo_mutant_fops);
	debugfs_create_u32("window", 0600, dir, &paygo_window);
	debugfs_create_bool("at_once", 0600, dir, &paygo_at_once);
	debugfs_create_file_unsafe("drain", 0200, dir, NULL, &paygo_drain_fops);
	debugfs_create_file_unsafe("disable", 0200, dir, NULL, &paygo_disable_fops);
	return 0;
}
late_initcall(paygo_debug_init);
