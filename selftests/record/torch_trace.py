#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What PyTorch did when golden/h200-580/traces/torch*.trace.xz were recorded on an H200:

  GPUMEM_RECORD=torch.trace LD_PRELOAD=.../libgpumem-record-preload.so.1 torch_trace.py
  PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync ... torch_trace.py

Memory of many sizes in three streams, pinned copies, events, and expandable segments; no kernels but those of copies.
"""
import torch

DEVICE = torch.device("cuda")
STREAMS = [torch.cuda.Stream() for _ in range(3)]
events = []

for i in range(200):
    stream = STREAMS[i % 3]
    with torch.cuda.stream(stream):
        n = 1 << (10 + i % 14)
        a = torch.empty(n, dtype=torch.uint8, device=DEVICE)
        p = torch.empty(n, dtype=torch.uint8, pin_memory=True)
        a.copy_(p, non_blocking=True)
        event = torch.cuda.Event()
        event.record(stream)
        events.append(event)
        if i:
            stream.wait_event(events[-2])
        b = a.clone()
        q = b.to("cpu")
    if i % 50 == 49:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
torch.cuda.memory._set_allocator_settings("expandable_segments:True")
for i in range(50):
    x = torch.empty((i + 1) << 20, dtype=torch.uint8, device=DEVICE)
    del x
torch.cuda.synchronize()
torch.cuda.empty_cache()
print("done")
