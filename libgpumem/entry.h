/* SPDX-License-Identifier: MIT */
/*
 * Entries of functions that programs overwrite.
 *
 * Programs that watch allocations overwrite the first five bytes of a function by a jump to one of
 * theirs, and run the displaced instruction elsewhere. So these functions begin with a five-byte
 * instruction that does not depend on its place: they are written as a load of a constant and a
 * jump to the body. selftests/host/entry_check.sh looks at the result.
 */
#ifndef GPUMEM_ENTRY_H
#define GPUMEM_ENTRY_H

#if defined(__x86_64__)
#define ENTRY(name, body)						\
	__asm__(".pushsection .text\n\t"				\
		".p2align 4\n\t"					\
		".globl " #name "\n\t"					\
		".type " #name ", @function\n"				\
		#name ":\n\t"						\
		".cfi_startproc\n\t"					\
		"movl $0, %eax\n\t"					\
		"jmp " #body "\n\t"					\
		".cfi_endproc\n\t"					\
		".size " #name ", . - " #name "\n\t"			\
		".popsection")
#else
#define ENTRY(name, body)	\
	__asm__(".globl " #name "\n\t.set " #name ", " #body)
#endif

#define BODY	__attribute__((visibility("hidden"), used, noinline))

#endif /* GPUMEM_ENTRY_H */
