/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How the rooms of a service come together. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_WIRE_H
#define LODIC_LIB_SERVICE_SUCCESSION_WIRE_H

struct service;
struct service_options;

/* A service of which only the options are there, and that knows its rooms. It stands here because
 * it needs no room's functions. service_shut(), which frees it, ends each room (make.h). NULL: no
 * memory. */
struct service *service_alloc(const struct service_options *options);
/* Tells each room of s where those are that it needs. Nothing else of s need be there. */
void service_wire(struct service *s);

#endif
