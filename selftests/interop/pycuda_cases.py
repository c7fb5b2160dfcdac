#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What PyCUDA does when no kernel is launched.  Prints TAP.

  pycuda_cases.py [CASE...]

Each case_* is a case.  programs_guest.py runs this with Debian's python3-pycuda.  PyCUDA's Python classes
call libcuda.so.1 one to one, so the cases compare results with what NumPy computes.
"""
import gc
import multiprocessing
import sys
import time

import numpy as np
import pycuda.driver as cuda
from pycuda import gpuarray, tools

MIB = 1 << 20


def pattern(shape, dtype=np.float32, seed=1):
    return np.random.default_rng(seed).integers(0, 250, shape).astype(dtype)


def refused(error, function, *arguments):
    """The exception of class @error that @function must raise."""
    try:
        function(*arguments)
    except error as e:
        return e
    raise AssertionError("%s was not refused" % function)


def case_devices():
    assert cuda.Device.count() == 2 and cuda.get_version() >= (12, 4)
    a, b = cuda.Device(0), cuda.Device(1)
    assert a != b and hash(a) == hash(cuda.Device(0)) and a.name()
    assert a.pci_bus_id() != b.pci_bus_id() and cuda.Device(b.pci_bus_id()) == b
    assert a.total_memory() == b.total_memory() == cuda.mem_get_info()[1]
    values = a.get_attributes()
    known = cuda.device_attribute
    assert values[known.UNIFIED_ADDRESSING] == 1 and values[known.CAN_MAP_HOST_MEMORY] == 1
    assert values[known.WARP_SIZE] == 32
    assert (values[known.COMPUTE_CAPABILITY_MAJOR],
            values[known.COMPUTE_CAPABILITY_MINOR]) == a.compute_capability()
    assert a.can_access_peer(b)
    refused(cuda.LogicError, cuda.Device, 2)


def case_contexts():
    outer = cuda.Context.get_current()
    inner = cuda.Device(1).make_context()
    try:
        assert cuda.Context.get_current() == inner and cuda.Context.get_device() == cuda.Device(1)
        a = pattern(1000)
        b = cuda.to_device(a)
        assert (cuda.from_device_like(b, a) == a).all()
    finally:
        cuda.Context.pop()
    assert cuda.Context.get_current() == outer
    # Freeing memory of a context that is not current makes it current.
    b.free()
    assert cuda.Context.get_current() == outer
    inner.detach()
    primary = cuda.Device(1).retain_primary_context()
    primary.push()
    assert cuda.Context.get_device() == cuda.Device(1)
    # PyCUDA pushes a context that is not current before it releases it, and does not pop it.
    primary.detach()
    assert cuda.Context.get_current() == outer


def case_copies():
    a = pattern(MIB // 4 + 3)
    g, h = cuda.mem_alloc(a.nbytes), cuda.mem_alloc(a.nbytes)
    cuda.memcpy_htod(g, a)
    cuda.memcpy_dtod(h, g, a.nbytes)
    b = np.zeros_like(a)
    cuda.memcpy_dtoh(b, h)
    assert (a == b).all()
    # Bytes next to the ones that change stay.
    cuda.memset_d8(int(h) + 5, 7, 11)
    cuda.memset_d32(int(h) + 64, 0x01020304, 3)
    cuda.memset_d16(int(h) + 102, 0x0506, 2)
    want = a.view(np.uint8).copy()
    want[5:16] = 7
    want[64:76] = [4, 3, 2, 1] * 3
    want[102:106] = [6, 5] * 2
    cuda.memcpy_dtoh(b, h)
    assert (b.view(np.uint8) == want).all()


def case_pitched():
    a = pattern((33, 70))
    g, pitch = cuda.mem_alloc_pitch(70 * 4, 33, 4)
    assert pitch >= 280 and pitch % 16 == 0
    cuda.memset_d8(g, 0xee, pitch * 33)
    copy = cuda.Memcpy2D()
    copy.set_src_host(a)
    copy.set_dst_device(g)
    copy.src_pitch, copy.dst_pitch, copy.width_in_bytes, copy.height = 280, pitch, 280, 33
    copy(aligned=True)
    b = np.zeros((33, pitch), np.uint8)
    cuda.memcpy_dtoh(b, g)
    assert (b[:, :280].copy().view(np.float32) == a).all() and (b[:, 280:] == 0xee).all()
    # A window of it.
    c = np.zeros((10, 20), np.float32)
    copy = cuda.Memcpy2D()
    copy.set_src_device(g)
    copy.set_dst_host(c)
    copy.src_pitch, copy.src_y, copy.src_x_in_bytes = pitch, 5, 40
    copy.dst_pitch, copy.width_in_bytes, copy.height = 80, 80, 10
    copy(aligned=False)
    assert (c == a[5:15, 10:30]).all()


def case_arrays():
    a = pattern((20, 30))
    array = cuda.matrix_to_array(a, "C")
    about = array.get_descriptor()
    assert (about.width, about.height, about.num_channels) == (30, 20, 1)
    b = np.zeros_like(a)
    copy = cuda.Memcpy2D()
    copy.set_src_array(array)
    copy.set_dst_host(b)
    copy.dst_pitch, copy.width_in_bytes, copy.height = 120, 120, 20
    copy(aligned=True)
    assert (a == b).all()
    a = pattern((4, 5, 6))
    about = cuda.ArrayDescriptor3D()
    about.width, about.height, about.depth = 6, 5, 4
    about.format, about.num_channels, about.flags = cuda.dtype_to_array_format(a.dtype), 1, 0
    array = cuda.Array(about)
    copy = cuda.Memcpy3D()
    copy.set_src_host(a)
    copy.set_dst_array(array)
    copy.width_in_bytes = copy.src_pitch = 24
    copy.src_height = copy.height = 5
    copy.depth = 4
    copy()
    b = np.zeros_like(a)
    copy = cuda.Memcpy3D()
    copy.set_src_array(array)
    copy.set_dst_host(b)
    copy.width_in_bytes = copy.dst_pitch = 24
    copy.dst_height = copy.height = 5
    copy.depth = 4
    copy()
    assert (a == b).all()
    array.free()


def case_pinned():
    a = cuda.pagelocked_empty((1000, 100), np.float32)
    a[:] = pattern(a.shape)
    stream = cuda.Stream()
    g = cuda.mem_alloc(a.nbytes)
    b = cuda.pagelocked_zeros_like(a)
    cuda.memcpy_htod_async(g, a, stream)
    cuda.memcpy_dtoh_async(b, g, stream)
    stream.synchronize()
    assert (a == b).all() and stream.is_done()
    flags = cuda.host_alloc_flags
    c = cuda.pagelocked_empty(5000, np.int32, mem_flags=flags.DEVICEMAP | flags.PORTABLE)
    c[:] = np.arange(5000)
    seen = np.zeros_like(c)
    cuda.memcpy_dtoh(seen, c.base.get_device_pointer())
    assert (seen == c).all()
    cuda.memset_d32(c.base.get_device_pointer(), 77, 10)
    cuda.Context.synchronize()
    assert (c[:10] == 77).all() and c[10] == 10


def case_registered():
    a = cuda.aligned_empty(3 * MIB, np.uint8)
    a[:] = pattern(a.shape, np.uint8)
    held = cuda.register_host_memory(a, cuda.mem_host_register_flags.DEVICEMAP)
    pointer = held.base.get_device_pointer()
    g = cuda.mem_alloc(a.nbytes)
    cuda.memcpy_dtod(g, pointer, a.nbytes)
    b = np.zeros_like(a)
    cuda.memcpy_dtoh(b, g)
    assert (a == b).all()
    refused(cuda.LogicError, cuda.register_host_memory, a)
    held.base.unregister()
    cuda.register_host_memory(a).base.unregister()


def case_managed():
    flags = cuda.mem_attach_flags
    a = cuda.managed_empty(MIB, np.int32, mem_flags=flags.GLOBAL)
    a[:] = np.arange(MIB)
    cuda.memset_d32(a.base.get_device_pointer(), 5, 100)
    cuda.Context.synchronize()
    assert (a[:100] == 5).all() and a[100] == 100 and a[-1] == MIB - 1
    stream = cuda.Stream()
    a.base.attach(flags.SINGLE, stream)
    a[0] = 1
    assert a[0] == 1


def case_events():
    stream, other = cuda.Stream(), cuda.Stream()
    a = cuda.pagelocked_empty(4 * MIB, np.uint8)
    a[:] = 9
    g, h = cuda.mem_alloc(a.nbytes), cuda.mem_alloc(a.nbytes)
    begin, end = cuda.Event(), cuda.Event()
    begin.record(stream)
    cuda.memcpy_htod_async(g, a, stream)
    end.record(stream)
    other.wait_for_event(end)
    cuda.memcpy_dtod_async(h, g, a.nbytes, other)
    other.synchronize()
    assert end.query() and begin.time_till(end) >= 0
    b = np.zeros_like(a)
    cuda.memcpy_dtoh(b, h)
    assert (b == 9).all()
    untimed = cuda.Event(cuda.event_flags.DISABLE_TIMING)
    untimed.record().synchronize()
    refused(cuda.LogicError, begin.time_till, untimed)


def case_peer():
    a = pattern(MIB)
    here = cuda.Context.get_current()
    g = cuda.to_device(a)
    there = cuda.Device(1).make_context()
    try:
        h = cuda.mem_alloc(a.nbytes)
        cuda.memcpy_peer(h, g, a.nbytes, there, here)
        assert (cuda.from_device_like(h, a) == a).all()
        there.enable_peer_access(here)
        refused(cuda.LogicError, there.enable_peer_access, here)
        there.disable_peer_access(here)
        h.free()
    finally:
        there.pop()
        there.detach()


def case_out_of_memory():
    free, total = cuda.mem_get_info()
    refused(cuda.MemoryError, cuda.mem_alloc, total + MIB)
    refused(cuda.MemoryError, cuda.mem_alloc, 1 << 45)
    assert cuda.mem_get_info()[0] == free
    pieces = []
    try:
        while True:
            pieces.append(cuda.mem_alloc(total // 16))
    except cuda.MemoryError:
        pass
    assert len(pieces) >= 12, len(pieces)
    pieces.clear()
    gc.collect()
    assert cuda.mem_get_info()[0] == free
    refused(cuda.LogicError, cuda.mem_alloc, 0)


def case_pools():
    pool = tools.DeviceMemoryPool()
    a = pattern(1000)
    for _ in range(5):
        g = pool.allocate(a.nbytes)
        cuda.memcpy_htod(int(g), a)
        assert (cuda.from_device_like(int(g), a) == a).all()
        g.free()
    assert pool.held_blocks == 1 and pool.active_blocks == 0
    # The pool gives what it holds back when the device is full.
    total = cuda.mem_get_info()[1]
    blocks = [pool.allocate(total // 8) for _ in range(6)]
    del blocks
    gc.collect()
    large = pool.allocate(total // 2)
    large.free()
    pool.free_held()
    host = tools.PageLockedMemoryPool()
    b = host.allocate((1000,), np.float32)
    b[:] = a
    assert (cuda.from_device_like(cuda.to_device(b), a) == a).all()
    del b
    host.free_held()


def case_gpuarrays():
    a = pattern((30, 40))
    g = gpuarray.to_gpu(a)
    assert (g.get() == a).all() and g.shape == a.shape
    assert (g[5:10].get() == a[5:10]).all()
    assert (g[3:9, 10:20].get() == a[3:9, 10:20]).all()
    assert (g.reshape(1200).get() == a.reshape(1200)).all()
    g[2:4].set(a[7:9])
    assert (g.get()[2:4] == a[7:9]).all() and (g.get()[4:] == a[4:]).all()
    b = cuda.pagelocked_empty(a.shape, a.dtype)
    g.get_async(ary=b)
    cuda.Context.synchronize()
    assert (b[4:] == a[4:]).all()


def case_modules():
    """Code for the device is refused, and the context works afterwards."""
    refused(cuda.Error, cuda.module_from_buffer, b".version 8.0\n.target sm_80\n.address_size 64\n")
    refused(cuda.Error, cuda.module_from_file, "/nonexistent")
    a = pattern(10)
    assert (cuda.from_device_like(cuda.to_device(a), a) == a).all()


def consume(memory, event, size, answers):
    """The second process: wait, read the memory, change it."""
    cuda.init()
    context = cuda.Device(0).make_context()
    try:
        cuda.Event.from_ipc_handle(event).synchronize()
        shared = cuda.IPCMemoryHandle(memory)
        a = np.zeros(size, np.uint8)
        cuda.memcpy_dtoh(a, int(shared))
        cuda.memset_d8(int(shared), 3, size // 2)
        cuda.Context.synchronize()
        shared.close()
        answers.put(int(a.sum()))
    finally:
        context.pop()
        context.detach()


def case_shared():
    context = multiprocessing.get_context("spawn")
    a = pattern(MIB, np.uint8)
    g = cuda.to_device(a)
    flags = cuda.event_flags
    event = cuda.Event(flags.INTERPROCESS | flags.DISABLE_TIMING)
    event.record()
    answers = context.Queue()
    process = context.Process(target=consume, args=(
        cuda.mem_get_ipc_handle(g), event.ipc_handle(), MIB, answers))
    process.start()
    try:
        assert answers.get(timeout=300) == int(a.sum())
        process.join(300)
        assert process.exitcode == 0
    finally:
        process.kill()
    b = cuda.from_device_like(g, a)
    assert (b[:MIB // 2] == 3).all() and (b[MIB // 2:] == a[MIB // 2:]).all()


def main():
    cuda.init()
    context = cuda.Device(0).make_context()
    cases = {n[5:]: f for n, f in sorted(globals().items()) if n.startswith("case_")}
    for name in sys.argv[1:] or cases:
        began, text = time.monotonic(), ""
        try:
            cases[name]()
        except Exception as e:      # a failure of any kind is the case's result
            trace = e.__traceback__.tb_next or e.__traceback__
            text = "%s line %d: %s" % (type(e).__name__, trace.tb_lineno, e)
        print("%sok - %s" % ("not " if text else "", name))
        for line in text.splitlines()[:12]:
            print("# " + line)
        print("# %s: %.1f s" % (name, time.monotonic() - began), flush=True)
        gc.collect()
    context.pop()
    context.detach()
    print("# end", flush=True)


if __name__ == "__main__":
    main()
