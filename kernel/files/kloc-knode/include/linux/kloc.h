/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KLOC: whether a file is open, and where its page cache should be. See
 * Documentation/mm/kloc.rst. What the file systems' side calls is here; the rest is in mm/.
 */
#ifndef _LINUX_KLOC_H
#define _LINUX_KLOC_H

#include <linux/fs.h>
#include <linux/jump_label.h>

#ifdef CONFIG_KLOC
DECLARE_STATIC_KEY_FALSE(kloc_on);

void __kloc_open(struct file *file);
void __kloc_close(struct file *file);
void __kloc_unlink(struct inode *inode);
void __kloc_evict(struct inode *inode);

static inline void kloc_init(struct address_space *mapping)
{
	RCU_INIT_POINTER(mapping->i_knode, NULL);
}

/* An open that has succeeded. */
static inline void kloc_open(struct file *file)
{
	if (static_branch_unlikely(&kloc_on))
		__kloc_open(file);
}

/* Takes back what this file's open has counted. Without a key: kloc may be off by now. */
static inline void kloc_close(struct file *file)
{
	if (unlikely(file->f_mode & FMODE_KLOC))
		__kloc_close(file);
}

/* The inode's last name goes. */
static inline void kloc_unlink(struct inode *inode)
{
	if (unlikely(rcu_access_pointer(inode->i_data.i_knode)))
		__kloc_unlink(inode);
}

/* The inode leaves memory; it has no pages any more. */
static inline void kloc_evict(struct inode *inode)
{
	if (unlikely(rcu_access_pointer(inode->i_data.i_knode)))
		__kloc_evict(inode);
}
#else
static inline void kloc_init(struct address_space *mapping)
{
}

static inline void kloc_open(struct file *file)
{
}

static inline void kloc_close(struct file *file)
{
}

static inline void kloc_unlink(struct inode *inode)
{
}

static inline void kloc_evict(struct inode *inode)
{
}
#endif

#endif /* _LINUX_KLOC_H */
