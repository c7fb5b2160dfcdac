# SPDX-License-Identifier: GPL-2.0
"""The scripts that run inside the guest.

INIT is pid 1 from the initial root; it makes the root that the command sees and goes on as
STAGE2.  Pid 1 itself must change root: kernel threads share its root, and the kernel starts
modprobe from there.  ttyS0 is the kernel's console, ttyS1 carries the command's output, ttyS2
carries words for the runner: "rc N", "time-out", "module M".

With several guests, the kernel's command line has the guest's rank and conf the addresses.  Then
ttyS2 carries words to the guest, too: the guest says "set" and waits for a word before the command, and
waits for another one before it powers off (cluster.py).
"""

# What COMMAND sees of the other guests.
RANK_ENV = ("GPUMEM_RANK", "GPUMEM_GUESTS", "GPUMEM_ADDRESS", "GPUMEM_PEERS")

# The two file systems that can share a directory, with their mount options.
SHARES = {"9p": "trans=virtio,version=9p2000.L,msize=512000,access=any,cache=", "virtiofs": ""}

INIT = r"""#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /mnt
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
. /vm/conf
die() {
	echo "vm: $*" >/dev/console
	echo "fail $*" >/dev/ttyS2
	sleep 1
	echo o >/proc/sysrq-trigger
	sleep 60
}
# Mount /tmp: empty, but for the directories and files of $KEEP, which are bound from the root's.
scratch_tmp() {
	if [ "$KEEP" = /tmp ]; then
		mount --bind $R/tmp $R/tmp || die "no /tmp"
		return
	fi
	mkdir -p /mnt/tmp
	mount -t tmpfs -o mode=1777 tmp /mnt/tmp
	echo "$KEEP" | while IFS= read -r p; do
		[ "$p" ] && [ -e "$R$p" ] || continue
		if [ -d "$R$p" ]; then
			mkdir -p "/mnt$p"
		else
			mkdir -p "/mnt${p%/*}"
			: >"/mnt$p"
		fi
		mount --bind "$R$p" "/mnt$p" || die "no $p"
	done
	mount --move /mnt/tmp $R/tmp || die "no /tmp"
}
stty -F /dev/ttyS1 raw -echo
stty -F /dev/ttyS2 raw -echo
for m in $MODS; do insmod /vm/mods/$m || die "insmod $m failed"; done
R=/
if [ "$HOSTROOT" ]; then
	R=/mnt/root
	mkdir -p /mnt/lo /mnt/rw $R
	mount -t $SHARE -o ro${SHAREOPT:+,${SHAREOPT}loose} hostroot /mnt/lo || die "no root over $SHARE"
	mount -t tmpfs -o mode=755,size=90% rw /mnt/rw
	mkdir /mnt/rw/up /mnt/rw/wk
	mkdir -p /mnt/modules
	mount --bind "/mnt/lo$MODULES" /mnt/modules || die "no $MODULES"
	layers=lowerdir=/mnt/lo,upperdir=/mnt/rw/up,workdir=/mnt/rw/wk
	mount -t overlay -o $layers ov $R || die "no overlay"
	# To change a file or a link is to copy it up.  The host is asked about other links each time.
	for f in $R/*; do [ ! -L $f ] || chown -h 0:0 $f; done
	[ ! -e /vm/near ] || (cd $R && xargs -0 chmod u+r </vm/near && xargs -0 -r chown -h 0:0 </vm/links)
	for d in proc sys dev; do
		mkdir -p $R/$d
		mount --move /$d $R/$d || mount --bind /$d $R/$d
	done
	mkdir -p $R/run $R/tmp $R/lib/modules/$KVER
	mount -t tmpfs -o mode=755 run $R/run
	scratch_tmp
	mount --move /mnt/modules $R/lib/modules/$KVER
	if [ "$OUT" ]; then
		mkdir -p "$R$OUT"
		mount -t $SHARE -o rw${SHAREOPT:+,${SHAREOPT}none} out "$R$OUT" || die "no $OUT over $SHARE"
	fi
	cp -r /vm /bin/busybox $R/run
	mv $R/run/busybox $R/run/vm
else
	mkdir -p /root /run /tmp
	scratch_tmp
	mount -t tmpfs -o mode=755 run /run
	cp -r /vm /run
	cp /bin/busybox /run/vm
fi
mkdir -p $R/dev/shm $R/dev/pts $R/run/lock
mount -t tmpfs -o mode=1777 shm $R/dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 pts $R/dev/pts
mount -t debugfs debugfs $R/sys/kernel/debug 2>/dev/null
mount -t tracefs tracefs $R/sys/kernel/tracing 2>/dev/null
mount -t configfs configfs $R/sys/kernel/config 2>/dev/null
mount -t cgroup2 cgroup2 $R/sys/fs/cgroup 2>/dev/null
[ -e $R/dev/fd ] || ln -s /proc/self/fd $R/dev/fd
ip link set lo up 2>/dev/null || ifconfig lo 127.0.0.1 up 2>/dev/null
hostname gpumem-vm
if [ "$ADDRESSES" ]; then
	GPUMEM_GUESTS=0 GPUMEM_PEERS=
	for a in $ADDRESSES; do
		echo "$a guest$GPUMEM_GUESTS" >>$R/etc/hosts
		if [ $GPUMEM_GUESTS = $GPUMEM_RANK ]; then
			GPUMEM_ADDRESS=$a
		else
			GPUMEM_PEERS="$GPUMEM_PEERS${GPUMEM_PEERS:+ }$a"
		fi
		GPUMEM_GUESTS=$((GPUMEM_GUESTS + 1))
	done
	export GPUMEM_RANK GPUMEM_GUESTS GPUMEM_ADDRESS GPUMEM_PEERS
	hostname guest$GPUMEM_RANK
	# Addresses are usable at once: no other machine can have them.
	echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
	ip addr add $GPUMEM_ADDRESS/24 dev eth0 && ip link set eth0 up || die "no network"
fi
[ $R = / ] && exec /bin/sh /run/vm/stage2
# From here on it is the host's shell and programs: busybox's would prefer its own.
exec switch_root $R /bin/sh /run/vm/stage2
"""

STAGE2 = r"""
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
B=/run/vm/busybox
. /run/vm/conf
say() { echo "$*" >/dev/ttyS2; }
off() { sync; sleep 0.1; echo o >/proc/sysrq-trigger; $B poweroff -f; while :; do sleep 1; done; }
read up _ </proc/uptime
echo "vm: ready at $up" >/dev/kmsg
say ready
sleep $SETTLE
if [ "$INSMOD" ]; then
	for m in $NEEDS; do modprobe $m || say "warn modprobe $m failed"; done
	if ! insmod /run/vm/gpumem.ko $PARAMS 2>/run/vm/err; then
		read -r e </run/vm/err
		say "fail insmod gpumem.ko $PARAMS: ${e##*: }"
		off
	fi
	n=0
	until ls /dev/gpumem* >/dev/null 2>&1; do
		n=$((n + 1))
		if [ $n -gt 50 ]; then
			say "fail gpumem.ko is loaded and makes no /dev/gpumem*"
			off
		fi
		sleep 0.1
	done
	for d in /dev/gpumem*; do [ -c $d ] && chmod 0666 $d; done
fi
for m in $LOAD; do
	modprobe $m || { say "fail modprobe $m"; off; }
done
if [ "$ADDRESSES" ]; then
	# Keep it open: what arrives while it is closed is lost.
	exec 3<>/dev/ttyS2
	say set
	read -r word <&3
fi
if [ "$TIMEOUT" ]; then
	(
		sleep $TIMEOUT
		say time-out
		echo "vm: time-out" >/dev/kmsg
		echo w >/proc/sysrq-trigger
		sleep 1
		off
	) 3<&- &
	watch=$!
fi
setsid /bin/sh /run/vm/command </dev/null >/dev/ttyS1 2>&1 3<&- &
wait $!
rc=$?
read up _ </proc/uptime
echo "vm: exit $rc at $up" >/dev/kmsg
if [ "$INSMOD" ] && [ -d /sys/module/gpumem ]; then
	n=0
	until rmmod gpumem 2>/run/vm/err; do
		n=$((n + 1))
		if [ $n -ge 10 ]; then
			read -r e </run/vm/err
			users=$(cat /sys/module/gpumem/refcnt 2>/dev/null)
			say "inuse rmmod gpumem after the command: ${e##*: } (users: $users)"
			break
		fi
		sleep 0.2
	done
fi
if [ "$LEAKSCAN" ] && [ -w /sys/kernel/debug/kmemleak ]; then
	# An object counts as lost when two scans in a row do not find it.
	echo scan >/sys/kernel/debug/kmemleak
	sleep 5
	echo scan >/sys/kernel/debug/kmemleak
	cat /sys/kernel/debug/kmemleak >/dev/console
fi
if [ "$ADDRESSES" ]; then
	# The time is the command's; the others may need longer.
	[ ! "$watch" ] || kill $watch
	say "rc $rc"
	read -r word <&3
	off
fi
say "rc $rc"
off
"""
