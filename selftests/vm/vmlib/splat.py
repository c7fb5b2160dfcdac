# SPDX-License-Identifier: GPL-2.0
"""Finding the kernel's complaints in its log.

A complaint ("splat") is a block of lines: it opens at a line that SPLAT matches, reaches back to
the banner above it, and ends at its end marker or where the next complaint opens.  A block is
forgiven as a whole when one of the caller's expressions matches in its text.

Three kinds are no complaints.  The kernel says, with a stack trace, that there was no memory for the
stack of a new thread: a fault injected by t_fail_nth or t_cuda_fail_nth brings that about when the
kernel has no old stack at hand.  It says the same of the cache that the module makes when it is
loaded, which t_insmod refuses.  QEMU without KVM may deliver a stale debug exception to the boot CPU
while the kernel patches its own text, before any process exists.
"""
import re

SPLAT = re.compile(r"""
    \bBUG:\  | \bWARNING:\  | \bOops:\  | Oops\ -\  | general\ protection\ fault | kernel\ BUG\ at
  | kernel\ NULL\ pointer | Unable\ to\ handle\ kernel | invalid\ opcode: | stack\ segment:
  | KASAN: | KCSAN: | KFENCE:.*\ in\  | KMSAN: | UBSAN:\ .*\ in\  | refcount_t:\ 
  | ODEBUG:\ (?!.*enabled) | DMA-API:\ .*\ device\ driver | kmemleak:.*new\ suspected
  | DMA-API:.*\ disabling | kmemleak:.*\ disabled
  | possible\ (recursive|circular)\ locking | lock\ held\ when\ returning
  | inconsistent\ lock\ state | possible\ irq\ lock\ inversion | suspicious\ RCU\ usage
  | sleeping\ function\ called\ from | INFO:\ task\ .*\ blocked\ for\ more
  | INFO:\ trying\ to\ register\ non-static\ key | INFO:\ rcu.*(stall|detected)
  | rcu:\ INFO:.*(stall|detected) | soft\ lockup | hard\ LOCKUP | workqueue\ lockup
  | Kernel\ panic | unregister_netdevice:\ waiting | (list_add|list_del)\ corruption
  | Bad\ page\ state | Bad\ page\ map | Bad\ rss-counter | bad:\ scheduling
  | scheduling\ while\ atomic | held\ lock\ freed | Invalid\ wait\ context | stack-protector:
  | page_table_check.*BUG | usercopy:\ Kernel\ memory | Slab\ .*:\ Objects\ remaining
  | Objects\ remaining\ in\ .*on\ __kmem_cache_shutdown | double\ fault
  | vm:\ module\ .*\ in\ use | schedule_timeout:\ wrong\ timeout
  | ^(\[[^]]*\]\ )?\ ?Call\ Trace:
""", re.X)

BANNER = re.compile(r"-+\[ cut here \]-+|={20,}|^(\[[^]]*\] )?\**$")
END = re.compile(r"---\[ end (trace|Kernel panic)|^(\[[^]]*\] )?(=){20,}\s*$")
TRACE = re.compile(r"^(\[[^]]*\] )?\s*Call Trace:")
# Lines that match SPLAT and belong to the complaint above them.
MORE = re.compile(r"Call Trace:|Oops: |Oops - |invalid opcode:|Kernel panic - not syncing: Fatal")
TRACE_END = re.compile(r"</TASK>|</IRQ>")
LONGEST = 120
# At boot: the banner, the trap handler that warns, and the task that ran.
STALE_TRAP = re.compile(r"WARNING: CPU: 0 PID: 0 at arch/x86/kernel/traps\.c:\d+ exc_debug_kernel\+")
BOOT_TASK = re.compile(r"CPU: 0 UID: 0 PID: 0 Comm: swapper/0 Not tainted ")
# run_kselftest.sh has the same expression.
INJECTED = re.compile(r"t_(cuda_)?fail_nth: vmalloc error: size \d+, "
                      r"|kmem_cache_create.*\(gpumem_cache_item\) failed with error -(12|22)$")
# The byte before the one at RIP.
CODE = re.compile(r"Code: .*\b([0-9a-f]{2}) <[0-9a-f]{2}>")
NEW_THREAD = re.compile(r"copy_process\+|gpumem_cache_init\+")


def text_lines(log):
    """The lines of the raw console @log (bytes)."""
    return [re.sub(r"\x1b\[[0-9;]*m", "", line.decode(errors="replace").rstrip("\r"))
            for line in log.split(b"\n")]


def injected(lines, i):
    """Index behind the trace of what a test refused on purpose; 0: @i is no such."""
    if INJECTED.search(lines[i]):
        for j in range(i + 1, min(i + LONGEST, len(lines))):
            if TRACE_END.search(lines[j]):
                mine = (any(NEW_THREAD.search(line) for line in lines[i:j])
                        and sum(bool(SPLAT.search(line)) for line in lines[i:j]) == 1)
                return j + 1 if mine else 0
    return 0


def stale_trap(block):
    """Is this QEMU's stale debug exception at boot?"""
    return (any(STALE_TRAP.search(line) for line in block)
            and any(BOOT_TASK.search(line) for line in block)
            and sum(bool(SPLAT.search(line)) for line in block if not TRACE.search(line)) == 1)


def find(lines, forgive=()):
    """The complaints in @lines that no expression of @forgive excuses: (first, last) pairs."""
    blocks, i = [], 0
    while i < len(lines):
        behind = injected(lines, i)
        if behind:
            i = behind
            continue
        if not SPLAT.search(lines[i]):
            i += 1
            continue
        first = i
        floor = blocks[-1][1] + 1 if blocks else 0
        while first > floor and i - first < 6 and not BANNER.search(lines[first]):
            first -= 1
        framed = bool(BANNER.search(lines[first]))
        if not framed:
            first = i
        last, traced, j = i, False, i + 1
        while j < len(lines) and j - i < LONGEST:
            if END.search(lines[j]):
                last = j
                break
            if TRACE.search(lines[j]) or TRACE_END.search(lines[j]):
                last, traced = j, True
            elif "cut here" in lines[j] or "vm: " in lines[j]:
                break
            elif SPLAT.search(lines[j]):
                if traced or not (framed or MORE.search(lines[j])):
                    break
                last = j
            j += 1
        blocks.append((first, last))
        i = last + 1
    return [b for b in blocks
            if not any(re.search(e, "\n".join(lines[b[0]:b[1] + 1]), re.M) for e in forgive)
            and not stale_trap(lines[b[0]:b[1] + 1])]


def stale_breakpoint(lines):
    """Is the first complaint about a breakpoint that the guest's memory does not have?

    QEMU without KVM runs one CPU's old translation of an instruction that another CPU patches, once
    in some hundred boots or suspends.  The kernel then finds no owner of the breakpoint.  The byte
    before the one at RIP tells: it is not 0xcc any more.
    """
    blocks = find(lines)
    first = lines[blocks[0][0]:blocks[0][1] + 1] if blocks else []
    code = next((m for m in map(CODE.search, first) if m), None)
    return bool(code) and code.group(1) != "cc" and any("Oops: int3" in x for x in first)


def show(lines, blocks, context=3, most=60):
    """Text for people: each block of @blocks with some lines before and after it."""
    out = []
    for first, last in blocks[:5]:
        rows = list(range(max(0, first - context), min(len(lines), last + 1 + context)))
        for n in rows[:most]:
            out.append(("> " if first <= n <= last else "  ") + lines[n])
        if len(rows) > most:
            out.append("  ... %d more lines" % (len(rows) - most))
        out.append("")
    if len(blocks) > 5:
        out.append("... and %d more splats" % (len(blocks) - 5))
    return "\n".join(out).rstrip() + "\n"
