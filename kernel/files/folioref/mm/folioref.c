// SPDX-License-Identifier: GPL-2.0
/*
 * Which scheme counts the references of readers, and from when to when.
 *
 * The boot parameter folioref= chooses the scheme, once. vm.folioref switches it on and
 * off. While it is off, filemap_read() is what it is without CONFIG_FOLIOREF. Its other
 * instance runs while a scheme counts, and finishes what it has begun after that. So a
 * scheme must be able to take back references at any time, also after its stop().
 */
#include <linux/folioref.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sysctl.h>

#include "folioref.h"

/* Readers use the instance that asks the scheme. */
DEFINE_STATIC_KEY_FALSE(folioref_counts);

bool __folioref_try_get(struct folioref_batch *refs, unsigned int i,
			struct address_space *mapping, pgoff_t index,
			struct folio *folio)
{
	return folio_try_get(folio);
}

/* Only a scheme sets a bit, and it has a put() of its own. */
void __folioref_put(struct folioref_batch *refs, unsigned int i, struct folio *folio)
{
	WARN_ON_ONCE(1);
}

DEFINE_STATIC_CALL(folioref_try_get, __folioref_try_get);
DEFINE_STATIC_CALL(folioref_put, __folioref_put);

#ifdef CONFIG_FOLIOREF_DEBUG
/*
 * The bound of what counting can cost less: the first reader takes a reference that is
 * never dropped, and the others take none. A bit for each page frame says that it is
 * pinned so. Such a folio is never freed, so the bit is never wrong.
 */
static unsigned long *folioref_pinned;

static bool folioref_null_try_get(struct folioref_batch *refs, unsigned int i,
				  struct address_space *mapping, pgoff_t index,
				  struct folio *folio)
{
	/* Acquire, partner: the release in test_and_set_bit() after the pin. */
	if (!test_bit_acquire(folio_pfn(folio), folioref_pinned)) {
		if (!folio_try_get(folio))
			return false;
		/* The frame may have another folio by now: the caller looks, we cannot. */
		if (folio_test_uptodate(folio) && READ_ONCE(folio->mapping) == mapping) {
			folio_get(folio);
			if (test_and_set_bit(folio_pfn(folio), folioref_pinned))
				folio_put(folio);
		}
		return true;
	}
	refs->counted |= BIT(i);
	return true;
}

static void folioref_null_put(struct folioref_batch *refs, unsigned int i,
			      struct folio *folio)
{
}

static int folioref_null_start(void)
{
	if (!folioref_pinned)
		folioref_pinned = kvcalloc(BITS_TO_LONGS(max_pfn), sizeof(long), GFP_KERNEL);
	return folioref_pinned ? 0 : -ENOMEM;
}

static const struct folioref_scheme folioref_null = {
	.name		= "null",
	.try_get	= folioref_null_try_get,
	.put		= folioref_null_put,
	.start		= folioref_null_start,
};
#endif

/* The first is the one for vm.folioref=1 when none was chosen at boot. */
static const struct folioref_scheme * const folioref_schemes[] = {
#ifdef CONFIG_FOLIOREF_DEBUG
	&folioref_null,
#endif
};

static DEFINE_MUTEX(folioref_lock);
/* NULL: vanilla at boot, and never switched on. Then it stays what it is. */
static const struct folioref_scheme *folioref_scheme;

static int folioref_start(void)
{
	int err;

	if (static_key_enabled(&folioref_counts))
		return 0;
	if (!folioref_scheme) {
		if (!ARRAY_SIZE(folioref_schemes))
			return -EOPNOTSUPP;
		folioref_scheme = folioref_schemes[0];
	}
	err = folioref_scheme->start();
	if (err)
		return err;
	static_call_update(folioref_put, folioref_scheme->put);
	static_call_update(folioref_try_get, folioref_scheme->try_get);
	static_branch_enable(&folioref_counts);
	return 0;
}

/*
 * A reader that is in its call goes on with plain references. Those that it has from
 * the scheme it gives back there, so folioref_put stays.
 */
static void folioref_stop(void)
{
	if (static_key_enabled(&folioref_counts)) {
		static_branch_disable(&folioref_counts);
		static_call_update(folioref_try_get, __folioref_try_get);
		/* Readers call try_get under RCU: now none is in the scheme's. */
		synchronize_rcu();
	}
	/* Asked again, it may have something left to do. */
	if (folioref_scheme && folioref_scheme->stop)
		folioref_scheme->stop();
}

static int folioref_sysctl(const struct ctl_table *table, int write, void *buffer,
			   size_t *lenp, loff_t *ppos)
{
	int on = static_key_enabled(&folioref_counts);
	struct ctl_table local = {
		.data = &on,
		.maxlen = sizeof(on),
		.mode = table->mode,
		.extra1 = SYSCTL_ZERO,
		.extra2 = SYSCTL_ONE,
	};
	int err = proc_dointvec_minmax(&local, write, buffer, lenp, ppos);

	if (err || !write)
		return err;
	mutex_lock(&folioref_lock);
	if (on)
		err = folioref_start();
	else
		folioref_stop();
	mutex_unlock(&folioref_lock);
	return err;
}

static struct ctl_table folioref_sysctls[] = {
	{
		.procname	= "folioref",
		.mode		= 0644,
		.proc_handler	= folioref_sysctl,
	},
};

static int __init folioref_param(char *arg)
{
	int i;

	if (!arg)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(folioref_schemes); i++)
		if (!strcmp(arg, folioref_schemes[i]->name))
			folioref_scheme = folioref_schemes[i];
	if (!folioref_scheme && strcmp(arg, "vanilla"))
		pr_warn("folioref: this kernel has no scheme '%s'\n", arg);
	return 0;
}
early_param("folioref", folioref_param);

static int __init folioref_init(void)
{
	int err;

	register_sysctl("vm", folioref_sysctls);
	if (!folioref_scheme)
		return 0;
	mutex_lock(&folioref_lock);
	err = folioref_start();
	mutex_unlock(&folioref_lock);
	if (err)
		pr_warn("folioref: %s does not start: %d\n", folioref_scheme->name, err);
	else
		pr_info("folioref: %s\n", folioref_scheme->name);
	return 0;
}
late_initcall(folioref_init);
