/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM lodic

#if !defined(_TRACE_LODIC_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_LODIC_H

#include <linux/mm_types.h>
#include <linux/tracepoint.h>

TRACE_EVENT(lodic_ref,
	    TP_PROTO(struct folio *folio, unsigned long addr),
	    TP_ARGS(folio, addr),
	    TP_STRUCT__entry(__field(unsigned long, pfn)
			     __field(unsigned long, addr)
	    ),
	    TP_fast_assign(__entry->pfn = folio_pfn(folio);
			   __entry->addr = addr;
	    ),
	    TP_printk("pfn=0x%lx addr=0x%lx", __entry->pfn, __entry->addr)
);

TRACE_EVENT(lodic_unref,
	    TP_PROTO(struct folio *folio, bool local),
	    TP_ARGS(folio, local),
	    TP_STRUCT__entry(__field(unsigned long, pfn)
			     __field(bool, local)
	    ),
	    TP_fast_assign(__entry->pfn = folio_pfn(folio);
			   __entry->local = local;
	    ),
	    TP_printk("pfn=0x%lx %s", __entry->pfn,
		      __entry->local ? "local" : "global")
);

TRACE_EVENT(lodic_fold,
	    TP_PROTO(struct folio *folio, unsigned int count),
	    TP_ARGS(folio, count),
	    TP_STRUCT__entry(__field(unsigned long, pfn)
			     __field(unsigned int, count)
	    ),
	    TP_fast_assign(__entry->pfn = folio_pfn(folio);
			   __entry->count = count;
	    ),
	    TP_printk("pfn=0x%lx count=%u", __entry->pfn, __entry->count)
);

#endif /* _TRACE_LODIC_H */

#include <trace/define_trace.h>
