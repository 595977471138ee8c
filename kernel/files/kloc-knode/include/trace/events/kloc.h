/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kloc

#if !defined(_TRACE_KLOC_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KLOC_H

/* mm/kloc.h comes before this file: it has the enumerations. */

#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/tracepoint.h>

#define kloc_show_input(i)							\
	__print_symbolic(i, { KLOC_IN_NEW, "new" }, { KLOC_IN_OPEN, "open" },	\
			 { KLOC_IN_CLOSE, "close" }, { KLOC_IN_USE, "use" },	\
			 { KLOC_IN_UNLINK, "unlink" }, { KLOC_IN_MOVED, "moved" }, \
			 { KLOC_IN_TICK, "tick" }, { KLOC_IN_END, "end" })

#define kloc_show_decision(d)							\
	__print_symbolic(d, { KLOC_DO_ACTIVATE, "activate" },			\
			 { KLOC_DO_DEACTIVATE, "deactivate" },			\
			 { KLOC_DO_DEMOTE, "demote" }, { KLOC_DO_PROMOTE, "promote" }, \
			 { KLOC_DO_PLACE, "place" }, { KLOC_DO_KEEP, "keep" },	\
			 { KLOC_DO_RETAIN, "retain" },				\
			 { KLOC_DO_FORGIVE, "forgive" }, { KLOC_DO_END, "end" })

#define kloc_show_why(w)							\
	__print_symbolic(w, { KLOC_BY_POLICY, "policy" }, { KLOC_BY_STATE, "state" }, \
			 { KLOC_BY_AGE, "age" }, { KLOC_BY_USE, "use" },	\
			 { KLOC_BY_NEED, "need" }, { KLOC_BY_LIMIT, "limit" },	\
			 { KLOC_FULL, "full" }, { KLOC_BY_COUNTER, "counter" }, \
			 { KLOC_WAS_BUSY, "busy" })

TRACE_EVENT(kloc_rules,
	    TP_PROTO(const char *policy, bool on, const struct life_rules *r, u32 now),
	    TP_ARGS(policy, on, r, now),
	    TP_STRUCT__entry(__string(policy, policy)
			     __field(bool, on)
			     __field(bool, promote)
			     __field(u32, age_limit)
			     __field(u32, ping_pong)
			     __field(u32, forgive)
			     __field(u32, now)
	    ),
	    TP_fast_assign(__assign_str(policy);
			   __entry->on = on;
			   __entry->promote = r->promote_whole;
			   __entry->age_limit = r->age_limit;
			   __entry->ping_pong = r->ping_pong;
			   __entry->forgive = r->forgive;
			   __entry->now = now;
	    ),
	    TP_printk("policy=%s on=%d promote=%d age_limit=%u ping_pong=%u forgive=%u now=%u",
		      __get_str(policy), __entry->on, __entry->promote, __entry->age_limit,
		      __entry->ping_pong, __entry->forgive, __entry->now)
);

/* What came from outside. inode is NULL for a tick. */
TRACE_EVENT(kloc_input,
	    TP_PROTO(unsigned int input, struct inode *inode, u32 knode, unsigned long n,
		     u32 now),
	    TP_ARGS(input, inode, knode, n, now),
	    TP_STRUCT__entry(__field(int, input)
			     __field(dev_t, dev)
			     __field(u64, ino)
			     __field(unsigned long, n)
			     __field(u32, knode)
			     __field(u32, now)
	    ),
	    TP_fast_assign(__entry->input = input;
			   __entry->dev = inode ? inode->i_sb->s_dev : 0;
			   __entry->ino = inode ? inode->i_ino : 0;
			   __entry->n = n;
			   __entry->knode = knode;
			   __entry->now = now;
	    ),
	    TP_printk("input=%s dev=%u:%u ino=%llu knode=%u n=%lu now=%u",
		      kloc_show_input(__entry->input), MAJOR(__entry->dev), MINOR(__entry->dev),
		      __entry->ino, __entry->knode, __entry->n, __entry->now)
);

/* What was made of it. fast and slow: the pages that may be there. */
TRACE_EVENT(kloc_decision,
	    TP_PROTO(unsigned int what, struct inode *inode, u32 knode, u32 why,
		     unsigned long fast, unsigned long slow, u32 now),
	    TP_ARGS(what, inode, knode, why, fast, slow, now),
	    TP_STRUCT__entry(__field(int, what)
			     __field(dev_t, dev)
			     __field(u64, ino)
			     __field(unsigned long, fast)
			     __field(unsigned long, slow)
			     __field(u32, knode)
			     __field(u32, why)
			     __field(u32, now)
	    ),
	    TP_fast_assign(__entry->what = what;
			   __entry->dev = inode->i_sb->s_dev;
			   __entry->ino = inode->i_ino;
			   __entry->fast = fast;
			   __entry->slow = slow;
			   __entry->knode = knode;
			   __entry->why = why;
			   __entry->now = now;
	    ),
	    TP_printk("what=%s dev=%u:%u ino=%llu knode=%u why=%s fast=%lu slow=%lu now=%u",
		      kloc_show_decision(__entry->what), MAJOR(__entry->dev),
		      MINOR(__entry->dev), __entry->ino, __entry->knode,
		      kloc_show_why(__entry->why), __entry->fast, __entry->slow, __entry->now)
);

#endif /* _TRACE_KLOC_H */

#include <trace/define_trace.h>
