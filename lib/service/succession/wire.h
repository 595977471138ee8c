/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How the rooms of a service come together. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_WIRE_H
#define LODIC_LIB_SERVICE_SUCCESSION_WIRE_H

struct service;
struct service_options;

/* A service of which only the options are there. service_shut() frees it (make.h). NULL: no
 * memory. */
struct service *service_alloc(const struct service_options *options);
/* Tells each room of s where those are that it needs. Nothing else of s need be there. */
void service_wire(struct service *s);

#endif
