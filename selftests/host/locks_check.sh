#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Check that every lock that kmod/ declares has its line in the order of Documentation/locking.rst,
# in the comment at the top of gpumem_lock.h, in enum gpumem_lock_kind and in gpumem_lockdep.c, and
# these four have one order.
#
# A lock in struct gpumem_X is called X->NAME, a static one by its name.
#
# usage: locks_check.sh [DIR]	DIR has kmod/ and Documentation/ (default: this checkout)
set -u
top=${1:-$(cd "$(dirname "$0")/../.." && pwd)}
kmod=$top/kmod
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/../common/verdict.sh"
details=$work/log

# same A B WHAT: two lists are equal, and not empty.
same()
{
	{ [ -s "$work/$1" ] || echo "$1 is empty"; diff "$work/$1" "$work/$2"; } >"$work/log" 2>&1
	[ ! -s "$work/log" ]
	verdict $? "$3"
}

# The names of the locks that the files declare.
declared()
{
	awk '
	FNR == 1 { type = "" }
	/^struct gpumem_[a-z_]+ \{/ { type = $2; sub(/^gpumem_/, "", type) }
	/^\}/ { type = "" }
	/^[^*]*(DEFINE_(MUTEX|SPINLOCK|RWLOCK|SEQLOCK|RAW_SPINLOCK|WW_MUTEX|SRCU|STATIC_SRCU)|DECLARE_RWSEM|DEFINE_STATIC_PERCPU_RWSEM)\(/ {
		name = $0
		sub(/^[^(]*\(/, "", name)
		sub(/[,)].*/, "", name)
		print name
		next
	}
	/^[ \t]*(static )?(struct (mutex|rw_semaphore|ww_mutex|rt_mutex|percpu_rw_semaphore|semaphore|srcu_struct)|spinlock_t|raw_spinlock_t|rwlock_t|seqlock_t|seqcount_[a-z_]*t|local_lock_t) [a-z_0-9]+[^;()]*;/ {
		name = $0
		sub(/^[ \t]*(static )?(struct )?[a-z_]+ /, "", name)
		sub(/[^a-z_0-9].*/, "", name)
		print type != "" ? type "->" name : name
	}' "$@"
}

# The lines of a list of locks, without those of the kernel, which are in square brackets.
ours()
{
	sed -n 's/^\([a-z_][a-z_]*\(->[a-z_]*\)\{0,1\}\)[[:space:]].*/\1/p'
}

declared "$kmod"/*.[ch] | sort >"$work/declared"
sed -n '/^Outer to inner\./,/^The order of/ s/^    //p' "$top/Documentation/locking.rst" |
	ours >"$work/locking.rst"
sed -n '/^ \* Lock order, outer to inner/,/^ \*\// s/^ \*\t//p' "$kmod/gpumem_lock.h" |
	ours >"$work/gpumem_lock.h"
sed -n 's|^\tGPUMEM_LOCK_[A-Z_]*,\t*/\* \(.*\) \*/$|\1|p' "$kmod/gpumem_lock.h" >"$work/enum"
sed -n 's/^\t\[GPUMEM_LOCK_[A-Z_]*\] = "gpumem \(.*\)",$/\1/p' "$kmod/gpumem_lockdep.c" \
	>"$work/gpumem_lockdep.c"
for list in locking.rst gpumem_lock.h enum gpumem_lockdep.c; do
	sort "$work/$list" >"$work/$list.sorted"
	same declared "$list.sorted" "$list names every lock of kmod/, and no other"
done
for list in gpumem_lock.h enum gpumem_lockdep.c; do
	same locking.rst "$list" "$list has the order of locking.rst"
done

# The kinds of the enum and of the names come in one order, and each has its locks.
sed -n '/^enum gpumem_lock_kind {/,/^}/ s/^\t\(GPUMEM_LOCK_[A-Z_]*\),\t.*/\1/p' \
	"$kmod/gpumem_lock.h" >"$work/kinds"
sed -n 's/^\t\[\(GPUMEM_LOCK_[A-Z_]*\)\] = .*/\1/p' "$kmod/gpumem_lockdep.c" >"$work/names"
same kinds names "the kinds are named in their order"
cat "$kmod"/*.c | tr -d '\n' | tr -s '\t ' ' ' | grep -o 'gpumem_lockdep_class([^;]*;' |
	sed -n 's/.*, *\(GPUMEM_LOCK_[A-Z_]*\));/\1/p' | sort -u >"$work/classes"
sort "$work/kinds" >"$work/kinds.sorted"
same kinds.sorted classes "each kind is the class of a lock"

# Test this check: it must find a lock that has no line.
if [ $# = 0 ]; then
	mkdir -p "$work/copy/kmod" "$work/copy/Documentation"
	cp "$kmod"/*.[ch] "$work/copy/kmod"
	cp "$top/Documentation/locking.rst" "$work/copy/Documentation"
	printf 'static DEFINE_MUTEX(gpumem_forgotten);\nstruct gpumem_thing {\n\tspinlock_t lock;\n};\n' \
		>>"$work/copy/kmod/gpumem_bo.c"
	"$0" "$work/copy" >"$work/log"
	grep -q '^# .*gpumem_forgotten' "$work/log" && grep -q '^# .*thing->lock' "$work/log"
	verdict $? "a lock that is missing is found"
fi
finish
