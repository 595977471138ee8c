// SPDX-License-Identifier: GPL-2.0
/* KLOC: what tests and people who look for a fault read in debugfs. */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/pagevec.h>
#include <linux/seq_file.h>

#include "internal.h"
#include "kloc.h"

#ifdef CONFIG_KLOC_DEBUG
unsigned int kloc_mutant __read_mostly;

/* As enum kloc_mutant. */
static const char * const kloc_mutants[NR_KLOC_MUTANTS] = {
	"none", "close-first", "unlink-open", "aged-stays", "counter-ignored", "place-any-state",
	"close-twice", "stays-listed", "stays-pinned", "not-isolated", "pass-goes-on", "busy-lost",
	"uses-lost", "limit-ignored",
};

static int mutant_show(struct seq_file *m, void *v)
{
	seq_printf(m, "%s\n", kloc_mutants[READ_ONCE(kloc_mutant)]);
	return 0;
}

static int mutant_open(struct inode *inode, struct file *file)
{
	return single_open(file, mutant_show, NULL);
}

static ssize_t mutant_write(struct file *file, const char __user *from, size_t count,
			    loff_t *pos)
{
	char name[24] = "";
	int i;

	if (count >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, count))
		return -EFAULT;
	i = __sysfs_match_string(kloc_mutants, NR_KLOC_MUTANTS, name);
	if (i < 0)
		return i;
	WRITE_ONCE(kloc_mutant, i);
	return count;
}

static const struct file_operations mutant_fops = {
	.owner = THIS_MODULE,
	.open = mutant_open,
	.read = seq_read,
	.write = mutant_write,
	.llseek = seq_lseek,
	.release = single_release,
};
#endif

/* -- The knodes ------------------------------------------------------------------------ */

static const char * const kloc_state_names[] = { "free", "inactive", "active", "unlinked" };

/* Pages of a file on each node, as they are just now. */
static void kloc_pages(struct address_space *mapping, unsigned long *pages)
{
	struct folio_batch fbatch;
	pgoff_t index = 0;
	unsigned int i;

	folio_batch_init(&fbatch);
	while (filemap_get_folios(mapping, &index, ULONG_MAX, &fbatch)) {
		for (i = 0; i < folio_batch_count(&fbatch); i++)
			pages[folio_nid(fbatch.folios[i])] += folio_nr_pages(fbatch.folios[i]);
		folio_batch_release(&fbatch);
		cond_resched();
	}
}

static void knode_show(struct seq_file *m, u32 id, unsigned long *pages)
{
	struct inode *inode = kloc_pin(id);
	struct knode copy = {}, *k;
	int nid;

	if (!inode)
		return;
	k = knode_lock_id(id);
	if (k) {
		copy.life = k->life;
		copy.nr_moves = k->nr_moves;
		knode_unlock(k);
		memset(pages, 0, nr_node_ids * sizeof(*pages));
		kloc_pages(&inode->i_data, pages);
		seq_printf(m, "%u:%u %lu %s %u %u %u", MAJOR(inode->i_sb->s_dev),
			   MINOR(inode->i_sb->s_dev), inode->i_ino,
			   kloc_state_names[life_state(&copy.life) & 3], copy.life.nr_opens,
			   kloc_tick_now() - copy.life.last_use, copy.nr_moves);
		for (nid = 0; nid < nr_node_ids; nid++)
			seq_printf(m, " %lu", pages[nid]);
		seq_putc(m, '\n');
	}
	kloc_unpin(inode);
}

/* The position is a knode's id. */
static void *knodes_from(loff_t *pos)
{
	unsigned long id = *pos;
	void *k = xa_find(&kloc_map, &id, ULONG_MAX, XA_PRESENT);

	*pos = id;
	return k ? pos : NULL;
}

static void *knodes_start(struct seq_file *m, loff_t *pos)
{
	return knodes_from(pos);
}

static void *knodes_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return knodes_from(pos);
}

static void knodes_stop(struct seq_file *m, void *v)
{
}

static int knodes_show(struct seq_file *m, void *v)
{
	unsigned long *pages = kcalloc(nr_node_ids, sizeof(*pages), GFP_KERNEL);

	if (!pages)
		return -ENOMEM;
	knode_show(m, *(loff_t *)v, pages);
	kfree(pages);
	return 0;
}

static const struct seq_operations knodes_sops = {
	.start = knodes_start,
	.next = knodes_next,
	.stop = knodes_stop,
	.show = knodes_show,
};
DEFINE_SEQ_ATTRIBUTE(knodes);

/* -- Time, for tests that do not wait -------------------------------------------------- */

static int tick_set(void *data, u64 n)
{
	if (!n || n > 1000)
		return -EINVAL;
	while (n--)
		kloc_tick();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(tick_fops, NULL, tick_set, "%llu\n");

/* Reads when nothing moves. */
static int wait_get(void *data, u64 *n)
{
	*n = 0;
	return kloc_wait_quiet();
}
DEFINE_DEBUGFS_ATTRIBUTE(wait_fops, wait_get, NULL, "%llu\n");

static int __init kloc_debug_init(void)
{
	struct dentry *dir = debugfs_create_dir("kloc", NULL);

	debugfs_create_file("knodes", 0400, dir, NULL, &knodes_fops);
	debugfs_create_file("tick", 0200, dir, NULL, &tick_fops);
	debugfs_create_file("wait", 0400, dir, NULL, &wait_fops);
#ifdef CONFIG_KLOC_DEBUG
	debugfs_create_file("mutant", 0600, dir, NULL, &mutant_fops);
#endif
	return 0;
}
late_initcall(kloc_debug_init);
