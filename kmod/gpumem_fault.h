/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Page faults of processes in managed memory.  Offered by gpumem_fault.c.
 */
#ifndef GPUMEM_FAULT_H
#define GPUMEM_FAULT_H

struct file;
struct vm_area_struct;

/* gpumem_fault.c */
int gpumem_fault_mmap(struct file *file, struct vm_area_struct *vma);
void gpumem_fault_track(struct file *file);

#endif /* GPUMEM_FAULT_H */
