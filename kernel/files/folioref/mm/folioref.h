/* SPDX-License-Identifier: GPL-2.0 */
/* The schemes that mm/folioref.c chooses from. */
#ifndef _MM_FOLIOREF_H
#define _MM_FOLIOREF_H

#include <linux/folioref.h>

#endif /* _MM_FOLIOREF_H */
