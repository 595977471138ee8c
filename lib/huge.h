/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Mappings that huge pages fit into. A random read of a large cache waits for the page
 * tables, too. A huge page needs one entry for 2 MiB. The kernel enters a huge page as such
 * only where address and place in the file are multiples of its size. So the service and
 * each reader map their segments here.
 */
#ifndef LODIC_LIB_HUGE_H
#define LODIC_LIB_HUGE_H

#include <stdint.h>

/* On x86-64, and on arm64 with pages of 4 KiB. Elsewhere the kernel gives none so small. */
#define HUGE_PAGE_BYTES ((uint64_t)2 << 20)

/* Maps the first bytes of fd, shared. The address is a multiple of HUGE_PAGE_BYTES, unless
 * bytes are fewer. port_unmap() of bytes ends it. Protection and errors are those of port_map(). */
int huge_map(int fd, uint64_t bytes, int protection, void **ret_at);
/* The same for bytes from offset on, a multiple of a page, with flags of port_map(). Address and
 * offset then leave the same remainder. */
int huge_map_part(int fd, uint64_t offset, uint64_t bytes, int protection, int flags,
                  void **ret_at);

#endif
