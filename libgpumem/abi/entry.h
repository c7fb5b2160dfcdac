/* SPDX-License-Identifier: MIT */
/*
 * Entries of functions that programs overwrite.
 *
 * Programs that watch allocations overwrite the beginning of a function with a jump to a function of
 * theirs, and run the displaced instructions elsewhere: five bytes for a jump to a place within 2 GiB,
 * twelve for any other. Such a program gives up all its hooks when it does not understand one of
 * the displaced instructions. So every function that allocates, frees, maps or registers memory
 * begins with three five-byte instructions that do not depend on their place, loads of a constant,
 * and a jump to the body. selftests/host/entry_check.sh derives the list of these functions from
 * the lists of symbols, and looks at the result.
 *
 * Functions that exist only to fail share one body, which takes the function's number.
 */
#ifndef GPUMEM_ENTRY_H
#define GPUMEM_ENTRY_H

#if defined(__x86_64__)
#define ENTRY_LOADING(name, body, load)					\
	__asm__(".pushsection .text\n\t"				\
		".p2align 4\n\t"					\
		".globl " #name "\n\t"					\
		".type " #name ", @function\n"				\
		#name ":\n\t"						\
		".cfi_startproc\n\t"					\
		load "\n\t" load "\n\t" load "\n\t"			\
		"jmp " #body "\n\t"					\
		".cfi_endproc\n\t"					\
		".size " #name ", . - " #name "\n\t"			\
		".popsection")
#define ENTRY(name, body)	ENTRY_LOADING(name, body, "movl $0, %eax")
/* @body is a function of one unsigned int. */
#define ENTRY_NUMBERED(name, body, number)	\
	ENTRY_LOADING(name, body, "movl $" #number ", %edi")
#else
#define ENTRY(name, body)	\
	__asm__(".globl " #name "\n\t.set " #name ", " #body)
#define ENTRY_NUMBERED(name, body, number)				\
	BODY unsigned int body ## _ ## name(void)			\
	{								\
		return body(number);					\
	}								\
	ENTRY(name, body ## _ ## name)
#endif

#define BODY	__attribute__((visibility("hidden"), used, noinline))

#endif /* GPUMEM_ENTRY_H */
