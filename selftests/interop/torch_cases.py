#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What PyTorch does with device memory when no kernel is launched.  Prints TAP.

  torch_cases.py MODE [CASE...]

Each case_* is a case.  torch_guest.py runs this with PyTorch's own Python, in several modes.  Tensors
come to the device by copies: torch.zeros() and the like would launch kernels to fill them.
"""
import gc
import os
import sys
import time

import torch

MIB = 1 << 20
EXPANDABLE = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
ASYNC = "cudaMallocAsync" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")


def pattern(count, dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(count, generator=generator).to(dtype)
    return torch.randint(0, 100, (count,), generator=generator).to(dtype)


def case_device():
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    p = torch.cuda.get_device_properties(0)
    assert p.name == torch.cuda.get_device_name(0) and p.total_memory >= 256 * MIB, p
    assert torch.cuda.get_device_capability(0) == (p.major, p.minor)
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total == p.total_memory
    assert torch.cuda.can_device_access_peer(0, 1)


def case_copies():
    for dtype in (torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16,
                  torch.float64, torch.complex64):
        for count in (1, 1000, 3 * MIB // 2 + 1):
            a = pattern(count, dtype)
            b = a.to("cuda")
            assert b.is_cuda and b.device.index == 0
            assert torch.equal(b.to("cpu"), a)
    a = pattern(1000)
    b = a.cuda()
    assert a.tolist() == b.tolist()
    c = torch.empty_like(b)
    c[100:200].copy_(b[300:400])
    assert torch.equal(c[100:200].cpu(), a[300:400])
    assert b[7].item() == a[7].item()
    assert torch.equal(b.clone().cpu(), a)


def case_devices():
    a = pattern(MIB)
    b = a.to("cuda:0").to("cuda:1")
    assert b.device.index == 1 and torch.equal(b.cpu(), a)
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        c = torch.empty(MIB, device="cuda")
        c.copy_(a.to("cuda:0"), non_blocking=True)
        torch.cuda.synchronize()
        assert torch.equal(c.cpu(), a)
    assert torch.cuda.current_device() == 0


def case_pinned():
    a = pattern(MIB).pin_memory()
    assert a.is_pinned() and not pattern(10).is_pinned()
    assert torch.empty(100, pin_memory=True).is_pinned()
    b = a.to("cuda", non_blocking=True)
    back = torch.empty(MIB, pin_memory=True)
    back.copy_(b, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, a)
    # The C++ allocator reuses a block once the events of its copies are complete.
    for _ in range(20):
        t = torch.empty(MIB, pin_memory=True)
        t.copy_(a)
        t.to("cuda", non_blocking=True)
        del t


def case_registered():
    a = pattern(MIB)
    rt = torch.cuda.cudart()
    assert int(rt.cudaHostRegister(a.data_ptr(), a.nbytes, 0)) == 0
    assert a.is_pinned()
    b = a.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert int(rt.cudaHostUnregister(a.data_ptr())) == 0
    assert not a.is_pinned()
    assert torch.equal(b.cpu(), a)


def case_streams():
    s, t = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    a = pattern(4 * MIB).pin_memory()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(s):
        begin.record()
        b = a.to("cuda", non_blocking=True)
        end.record()
    t.wait_event(end)
    with torch.cuda.stream(t):
        c = b.clone()
        b.record_stream(t)
    c.record_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_stream(t)
    assert torch.equal(c.cpu(), a)
    s.synchronize()
    assert end.query() and begin.elapsed_time(end) >= 0
    assert s.query() and t.query()
    del b, c
    with torch.cuda.stream(torch.cuda.ExternalStream(s.cuda_stream)):
        assert torch.equal(a.to("cuda", non_blocking=True).cpu(), a)


def case_statistics():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    a = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == before + 32 * MIB
    assert torch.cuda.max_memory_allocated() >= before + 32 * MIB
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    free = torch.cuda.mem_get_info()[0]
    del a
    assert torch.cuda.memory_allocated() == before
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] >= free + 32 * MIB
    assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] >= 32 * MIB
    assert "allocated" in torch.cuda.memory_summary().lower()


def case_history():
    if ASYNC:
        return "cudaMallocAsync keeps no history"
    # Stacks of C++ would need addr2line.
    torch.cuda.memory._record_memory_history(stacks="python")
    a = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    assert any(s["address"] <= a.data_ptr() < s["address"] + s["total_size"]
               for s in snapshot["segments"])
    assert any(t["action"] == "alloc" and t["addr"] == a.data_ptr()
               for t in snapshot["device_traces"][0])
    return None


def case_growth():
    """Many sizes, freed in another order; what lies in each is what was put there."""
    live = {}
    for i in range(200):
        count = 1 + (i * 7919) % (MIB // 2)
        a = pattern(count, torch.uint8, i)
        live[i] = (a, a.to("cuda"))
        if i % 3 == 2:
            a, b = live.pop((i * 31) % (i + 1), (None, None))
            assert a is None or torch.equal(b.cpu(), a)
    for a, b in live.values():
        assert torch.equal(b.cpu(), a)


def case_large():
    """Tensors that grow by and by: with expandable segments they reuse one range."""
    for step in range(1, 10):
        a = torch.empty(step * 25 * MIB, dtype=torch.uint8, device="cuda")
        a[-4:].copy_(torch.tensor([1, 2, 3, step], dtype=torch.uint8))
        assert a[-4:].tolist() == [1, 2, 3, step]
        del a
    torch.cuda.empty_cache()


def case_out_of_memory():
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    keep = pattern(MIB)
    b = keep.to("cuda")
    for size in (total + MIB, 1 << 40):
        try:
            torch.empty(size, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as e:
            assert ("Allocation on device" if ASYNC else "CUDA out of memory") in str(e), e
        else:
            raise AssertionError("%d bytes were had" % size)
    # Fill the device piece by piece; afterwards all of it can be had again.
    for _ in range(2):
        pieces = []
        try:
            while True:
                pieces.append(torch.empty(total // 12, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            pass
        assert len(pieces) >= 8, len(pieces)
        del pieces
    assert torch.equal(b.cpu(), keep)
    del b
    torch.cuda.empty_cache()
    if not ASYNC:
        torch.cuda.set_per_process_memory_fraction(0.25)
        try:
            torch.empty(total // 2, dtype=torch.uint8, device="cuda")
            raise AssertionError("the fraction does not bind")
        except torch.OutOfMemoryError:
            pass
        torch.cuda.set_per_process_memory_fraction(1.0)
    torch.empty(total // 2, dtype=torch.uint8, device="cuda")


def case_memory_pool():
    if ASYNC or EXPANDABLE:
        return "MemPool is for the plain allocator"
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        a = pattern(MIB).to("cuda")
    assert torch.equal(a.cpu(), pattern(MIB))
    return None


def case_raw():
    p = torch.cuda.caching_allocator_alloc(MIB)
    torch.cuda.caching_allocator_delete(p)


def case_kernel():
    """A kernel is an error that can be told, and no crash; memory is usable afterwards."""
    a = pattern(1000).to("cuda")
    try:
        (a + 1).cpu()
    except RuntimeError as e:
        assert "CUDA error" in str(e), e
    else:
        raise AssertionError("a kernel ran")
    assert torch.equal(a.cpu(), pattern(1000))


def consume(work, done):
    """The second process: take tensors, look at them, answer, change them."""
    while True:
        item = work.get()
        if item is None:
            break
        name, tensor = item
        copy = tensor.cpu()
        tensor.copy_(torch.flip(copy, [0]))
        torch.cuda.synchronize()
        done.put((name, copy.sum().item(), tensor.device.index))
        del item, tensor
        gc.collect()
    torch.cuda.ipc_collect()
    done.put(("end", 0, 0))


def share(context):
    work, done = context.Queue(), context.Queue()
    process = context.Process(target=consume, args=(work, done))
    process.start()
    try:
        tensors = [pattern(1000), pattern(MIB), pattern(3 * MIB)]
        shared = [t.to("cuda:%d" % (i % 2)) for i, t in enumerate(tensors)]
        # A view into the middle of a block.
        tensors.append(tensors[1][5000:7000])
        shared.append(shared[1].clone()[5000:7000])
        for i, t in enumerate(shared):
            torch.cuda.synchronize(t.device)
            work.put((i, t))
            name, total, device = done.get(timeout=300)
            assert (name, device) == (i, t.device.index)
            assert abs(total - tensors[i].sum().item()) < 1e-3
            assert torch.equal(t.cpu(), torch.flip(tensors[i], [0]))
        work.put(None)
        assert done.get(timeout=300)[0] == "end"
        process.join(300)
        assert process.exitcode == 0
    finally:
        if process.is_alive():
            process.kill()
    del shared
    gc.collect()
    torch.cuda.ipc_collect()


def case_shared():
    if ASYNC:
        return "cudaMallocAsync does not share tensors"
    share(torch.multiprocessing.get_context("spawn"))
    return None


def wait_for_event(handle, answers):
    event = torch.cuda.Event.from_ipc_handle(torch.device("cuda", 0), handle)
    event.synchronize()
    answers.put(event.query())


def case_event_shared():
    context = torch.multiprocessing.get_context("spawn")
    answers = context.Queue()
    event = torch.cuda.Event(interprocess=True)
    pattern(MIB).to("cuda")
    event.record()
    process = context.Process(target=wait_for_event, args=(event.ipc_handle(), answers))
    process.start()
    assert answers.get(timeout=300)
    process.join(300)
    assert process.exitcode == 0


def case_modules():
    """A model's parameters go to a device, are saved, and are loaded onto the other device."""
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 10))
    want = {k: v.clone() for k, v in net.state_dict().items()}
    net.to("cuda")
    assert all(p.is_cuda for p in net.parameters())
    path = "/tmp/torch_cases.pt"
    torch.save(net.state_dict(), path)
    have = torch.load(path, map_location="cuda:1", weights_only=True)
    os.unlink(path)
    for k, v in have.items():
        assert v.device.index == 1 and torch.equal(v.cpu(), want[k])


def case_dlpack():
    a = pattern(MIB).to("cuda")
    b = torch.from_dlpack(a)
    assert b.data_ptr() == a.data_ptr() == a.__cuda_array_interface__["data"][0]
    assert torch.equal(b.cpu(), pattern(MIB))


# Cases that do the same in each mode run in the first one only: a second process takes minutes to start in
# a guest without KVM.
ONCE = ("event_shared", "modules", "device")


def main():
    cases = {n[5:]: f for n, f in sorted(globals().items()) if n.startswith("case_")}
    chosen = sys.argv[2:] or [
        n for n in cases if sys.argv[1] == "python" or n not in ONCE]
    for name in chosen:
        began, why, text = time.monotonic(), None, ""
        try:
            why = cases[name]()
        except Exception as e:      # a failure of any kind is the case's result
            text = "%s: %s" % (type(e).__name__, e)
            if not str(e):
                text += " line %d" % e.__traceback__.tb_next.tb_lineno
        good = not text
        print("%s - %s%s" % ("ok" if good else "not ok", name, " # SKIP " + why if why else ""))
        for line in text.splitlines()[:12]:
            print("# " + line)
        print("# %s: %.1f s" % (name, time.monotonic() - began), flush=True)
        gc.collect()
    print("# end", flush=True)


if __name__ == "__main__":
    main()
