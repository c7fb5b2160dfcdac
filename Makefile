# SPDX-License-Identifier: GPL-2.0
# gpumem: kernel module, library, programs, tests.  "make help" tells what there is.

VERSION := 0.1.0

MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# What the user gave on the command line must not reach kbuild by itself: O and CC mean something
# else there.  $(pass) hands on what kbuild and we understand alike.
MAKEOVERRIDES :=
given = $(foreach v,$(1),$(if $(findstring command line,$(origin $v)),$v="$($v)"))
pass = $(call given,V W C CF CHECK ARCH CROSS_COMPILE LLVM GPUMEM_KCOV GPUMEM_DELAY)

comma := ,
top := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
O ?= build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
out := $(abspath $(O))

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
UDEVDIR ?= $(if $(filter /usr,$(PREFIX)),/usr/lib/udev,/etc/udev)
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
INSTALL ?= install

# $(call say,WHAT,FILE) names one step, unless V=1 shows the command itself.
ifeq ($(V),1)
Q :=
say :=
else
Q := @
say = @printf '  %-8s%s\n' '$(1)' '$(patsubst $(top)/%,%,$(2))';
endif

.PHONY: all
all: modules lib tools

# ---- kernel module

running := /lib/modules/$(shell uname -r)/build
# Without headers for the running kernel, the test machine's default kernel is the one.
KDIR ?= $(eval KDIR := $(if $(wildcard $(running)/.),$(running),$(shell \
	selftests/vm/kernel --kdir)))$(KDIR)
kdir = $(eval kdir := $(or $(abspath $(KDIR)),$(error no kernel to build for: give KDIR=)))$(kdir)
release = $(eval release := $(or $(shell cat $(kdir)/include/config/kernel.release),$(error \
	$(kdir) is no kernel build tree)))$(release)
# Trees of newer releases want a compiler, and have tools, that this machine may not have; "kernel
# --make" is make where these are.
want_cc = $(shell sed -n 's/^CC *=.*\(gcc-[0-9]*\)$$/\1/p' $(kdir)/.kernelvariables 2>/dev/null)
kmake = $(eval kmake := $(if $(and $(want_cc),$(if $(shell command -v $(want_cc)),,x))$(shell \
	$(kdir)/scripts/mod/modpost 2>&1 </dev/null | grep GLIBC_),$(top)/selftests/vm/kernel --make))$(kmake)
# .built bears the time at which the last successful build began; the test runner looks at it.
# What it notes of the kernel, .built-for, is no longer true then.
# kbuild writes beside the sources it is shown: they are links in a directory of this kernel's own.
stage = $(out)/$(release)

.PHONY: modules
modules:
	@[ -e kmod/gpumem_drv.c ] || { echo "kmod/ holds no sources" >&2; exit 1; }
	@mkdir -p $(stage)/kmod
	@find $(stage) -maxdepth 2 -type l ! -exec test -e {} \; -delete
	@ln -sfn $(top)/uapi $(stage)/uapi
	@for f in Kbuild Makefile $(wildcard kmod/*.[ch]); do \
		[ $(stage)/$$f -ef $$f ] || ln -sf $(top)/$$f $(stage)/$$f; done
	$(Q)flock $(stage)/.lock sh -ec 'touch $(stage)/.begun; rm -f $(stage)/.built-for; \
		$(or $(kmake),$(MAKE)) $(if $(V),,--no-print-directory) -C $(kdir) M=$(stage) $(pass) \
		GPUMEM_VERSION=$(VERSION) modules; \
		mv $(stage)/.begun $(stage)/.built'

# ---- packages: testing needs more than a compiler, and says so before anything is built

ifneq ($(filter check check-matrix check-interop check-clients check-mpi-cuda kselftest mutants stress fuzz coverage bench bench-%,$(MAKECMDGOALS)),)
ifneq ($(shell tools/install-deps $(if $(filter check-matrix check-interop check-mpi-cuda,$(MAKECMDGOALS)),--matrix) \
	$(if $(filter check-interop,$(MAKECMDGOALS)),--interop) \
	$(if $(filter check-clients,$(MAKECMDGOALS)),--clients) \
	$(if $(filter bench bench-%,$(MAKECMDGOALS)),--bench) >&2 || \
	echo failed),)
$(error packages are missing: see above)
endif
endif

# ---- userspace: flags

CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
# gcc advises -O1 for the sanitizers.
CFLAGS ?= $(if $(SAN),-O1,-O2) -g
san := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
warn := -Wall -Wextra -Werror $(if $(W),-Wshadow -Wno-error)
cflags = -std=gnu11 $(CFLAGS) $(warn) $(san) -I$(top)/libgpumem/include -I$(top)/libgpumem \
	-I$(top)/uapi -D_GNU_SOURCE= -DGPUMEM_VERSION=\"$(VERSION)\" $(CPPFLAGS) -MMD -MP
ldflags = $(LDFLAGS) $(san)
# COV=1 makes the library count its lines.
lib_cov := $(if $(COV),--coverage -fprofile-update=atomic)

# Objects depend on this file; it changes when the compiler or its flags do.
flags := $(out)/obj/flags
.PHONY: FORCE
FORCE:
$(flags): FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(cflags) $(ldflags) $(lib_cov)' | cmp -s - $@ || \
		echo '$(CC) $(cflags) $(ldflags) $(lib_cov)' >$@

# ---- library: one driver, its other names, and the runtime API on top

# libgpumem-driver.so.1 holds the driver's state and all of its functions. libgpumem.so.1,
# libcuda.so.1 and libnvidia-ml.so.1 are filters of it, libgpumem/abi/filter/filter.h: whichever of them
# a process loads, it has that one driver. compat/cuda12 has the same as a driver of CUDA 12.9.
lib_src := $(sort $(wildcard libgpumem/*/*.c))
lib_obj := $(lib_src:%.c=$(out)/obj/%.o)
rt_obj := $(filter $(out)/obj/libgpumem/runtime/%,$(lib_obj))
gen = $(out)/obj/libgpumem/runtime/cuda_rt_gen$(1).o
stands_for = $(out)/obj/libgpumem/abi/release$(1).o
video_obj := $(filter $(out)/obj/libgpumem/video/%,$(lib_obj))
file_obj := $(filter $(out)/obj/libgpumem/file/%,$(lib_obj))
check_obj := $(filter $(out)/obj/libgpumem/check/%,$(lib_obj))
record_obj := $(filter $(out)/obj/libgpumem/record/%,$(lib_obj))
record_front = $(out)/obj/libgpumem/record/front_$(1).o
driver_obj := $(filter-out $(rt_obj) $(video_obj) $(file_obj) $(check_obj) $(record_obj) $(call stands_for,%),$(lib_obj))
driver := libgpumem-driver.so.1
drivers := $(out)/lib/$(driver) $(out)/compat/cuda12/$(driver)
libs := $(out)/lib/libgpumem.so.1
filters := $(foreach d,compat compat/cuda12,$(out)/$d/libcuda.so.1 $(out)/$d/libnvidia-ml.so.1)
cudarts := $(out)/compat/libcudart.so.12 $(out)/compat/libcudart.so.13
# The video libraries: no codecs, no state of the driver.
videos := $(out)/compat/libnvcuvid.so.1 $(out)/compat/libnvidia-encode.so.1
# The cuFile API.
cufile := $(out)/compat/libcufile.so.0
# The checker, which the driver loads, and the library of gcc's that finds lines for it.
checker := $(out)/lib/libgpumem-check.so.1
gcc_has = $(filter /%,$(shell $(if $(shell command -v gcc),gcc,$(CC)) -print-file-name=$(1)))
backtrace := $(call gcc_has,libbacktrace.a)
# The recorder: the driver loads the first, LD_PRELOAD the second, which stands in front of any libcuda.so.1.
recorders := $(out)/lib/libgpumem-record.so.1 $(out)/lib/libgpumem-record-preload.so.1
static_cudarts := $(out)/compat/libcudart_static.a $(out)/compat/cuda12/libcudart_static.a
links := $(out)/lib/libgpumem.so $(cufile:%.0=%) $(videos:%.1=%) $(filters:%.1=%) $(out)/compat/libcudart.so \
	$(out)/compat/cuda12/libcudart.so.12 $(out)/compat/cuda12/libcudart.so $(static_cudarts)

# What tells pkg-config and CMake where the libraries are, and the version of CUDA's API in them.
cuda_version := $(shell awk '$$2 == "CUDA_VERSION" { print int($$3 / 1000) "." int($$3 % 1000 / 10) }' \
	libgpumem/include/cuda_base.h)
for_builds := $(patsubst %,$(out)/%,gpumem.pc cuda.pc cudart.pc cufile.pc cmake/CUDAToolkitConfig.cmake \
	cmake/CUDAToolkitConfigVersion.cmake)

.PHONY: lib
lib: $(drivers) $(checker) $(recorders) $(libs) $(filters) $(cudarts) $(videos) $(cufile) $(links) $(for_builds)

$(lib_obj): $(out)/obj/%.o: %.c $(flags)
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(cflags) $(lib_cov) -fPIC -fvisibility=hidden -c -o $@ $<

# $(call shared,MAP) links the objects among the prerequisites. A library that was loaded stays:
# programs keep addresses of its functions, and its state is the process's.
shared = $(CC) -shared -o $@ $(filter %.o,$^) $(ldflags) $(lib_cov) -Wl,-soname,$(@F) \
	-Wl,--version-script=$(1) -Wl,-z,nodelete $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -pthread
map = $(filter %.map,$^)

# With COV=1 each library with code has its line counts written when a program asks.
counted = sed 's/global:/&$(if $(COV), $(1);)/' $(map) >$@.map
cov_dump = $(if $(COV),-fPIC -DGPUMEM_COV_DUMP=$(1) selftests/cover/dump.c)

$(out)/lib/$(driver): libgpumem/abi/libgpumem-driver.map $(call stands_for,13)
$(out)/compat/cuda12/$(driver): libgpumem/abi/libgpumem-driver12.map $(call stands_for,12)
$(drivers): $(driver_obj)
	$(call say,LD,$@)mkdir -p $(@D) && $(call counted,gpumem_cov_dump) && \
		$(call shared,$@.map $(call cov_dump,gpumem_cov_dump))

# The names of the driver's functions in a version script, as definitions that the loader skips.
filter_obj = $(out)/obj/libgpumem/abi/filter/$(1).o
$(call filter_obj,%): libgpumem/abi/%.map libgpumem/abi/filter/filter.h $(flags)
	$(call say,FILTER,$<)mkdir -p $(@D) && { \
		sed -n 's/^\t\(\(cu[A-Z]\|gpumem_\|nvml\)[A-Za-z0-9_]*\);$$/FILTERED(\1)/p' $<; \
		$(if $(COV),echo 'FILTERED(gpumem_cov_dump)';) } | \
		$(CC) $(cflags) -MF $(@:.o=.d) -MT $@ -fPIC -fvisibility=hidden -x c \
		-include libgpumem/abi/filter/filter.h -c -o $@ -

# $(call filter_of,PATH): a filter finds the driver library of its own build, whatever LD_LIBRARY_PATH
# says, unless the process has one.
filter_of = -Wl,--filter=$(driver) -Wl,--disable-new-dtags -Wl,-rpath,'$(1)'

$(libs): libgpumem/abi/libgpumem.map $(call filter_obj,libgpumem) $(filter-out $(call gen,12),$(rt_obj))
	$(call say,LD,$@)mkdir -p $(@D) && \
		$(call counted,gpumem_cov_dump; gpumem_cov_dump_runtime) && \
		$(call shared,$@.map $(call cov_dump,gpumem_cov_dump_runtime)) \
		$(call filter_of,$$ORIGIN)

$(out)/compat/libcuda.so.1: libgpumem/abi/libcuda.map $(call filter_obj,libcuda)
$(out)/compat/cuda12/libcuda.so.1: libgpumem/abi/libcuda12.map $(call filter_obj,libcuda12)
$(filter %/libnvidia-ml.so.1,$(filters)): libgpumem/abi/libnvidia-ml.map $(call filter_obj,libnvidia-ml)
$(filters):
	$(call say,LD,$@)mkdir -p $(@D) && $(call shared,$(map)) \
		$(call filter_of,$(if $(findstring cuda12,$(@D)),$$ORIGIN,$$ORIGIN/..:$$ORIGIN/../lib))

# Whatever libcuda.so.1 the process has serves them; else they find ours beside them. They use no
# function that a driver of their generation lacks.
$(out)/compat/libcudart.so.12: libgpumem/abi/libcudart12.map $(filter-out $(call gen,13),$(rt_obj)) \
	$(out)/compat/cuda12/libcuda.so.1
$(out)/compat/libcudart.so.13: libgpumem/abi/libcudart13.map $(filter-out $(call gen,12),$(rt_obj)) \
	$(out)/compat/libcuda.so.1
$(cudarts):
	$(call say,LD,$@)$(call shared,$(map)) $(filter %/libcuda.so.1,$^) -Wl,-rpath,'$$ORIGIN'

$(out)/compat/libnvcuvid.so.1: $(out)/obj/libgpumem/video/nvcuvid.o
$(out)/compat/libnvidia-encode.so.1: $(out)/obj/libgpumem/video/nvencode.o
$(videos): libgpumem/abi/video.map
	$(call say,LD,$@)mkdir -p $(@D) && $(call shared,$(map))

$(check_obj): private CPPFLAGS += $(if $(backtrace),-DHAVE_BACKTRACE -idirafter $(call gcc_has,include))
$(checker): libgpumem/abi/check.map $(check_obj)
	$(call say,LD,$@)mkdir -p $(@D) && $(call shared,$(map)) $(backtrace) -ljansson

$(word 1,$(recorders)): libgpumem/abi/record.map $(filter-out $(call record_front,preload),$(record_obj))
$(word 2,$(recorders)): libgpumem/abi/record-preload.map $(filter-out $(call record_front,tap),$(record_obj))
$(recorders):
	$(call say,LD,$@)mkdir -p $(@D) && $(call shared,$(map))

# As the runtime API: whatever libcuda.so.1 the process has serves it.
$(cufile): libgpumem/abi/cufile.map $(file_obj) $(out)/compat/libcuda.so.1
	$(call say,LD,$@)$(call shared,$(map)) $(filter %/libcuda.so.1,$^) -luring -Wl,-rpath,'$$ORIGIN'

$(out)/lib/libgpumem.so $(videos:%.1=%) $(filters:%.1=%): %: %.1
	@ln -sfn $(@F).1 $@

$(cufile:%.0=%): $(cufile)
	@ln -sfn $(<F) $@

$(out)/compat/libcudart.so: $(cudarts)
	@ln -sfn libcudart.so.13 $@

$(out)/compat/cuda12/libcudart.so.12 $(out)/compat/cuda12/libcudart.so: $(out)/compat/libcudart.so.12
	@mkdir -p $(@D) && ln -sfn ../libcudart.so.12 $@

# nvcc and many projects link the static runtime. A linker script gives them the shared one of the same folder.
$(static_cudarts): Makefile
	@mkdir -p $(@D) && printf '%s\n' '/* GNU ld script: there is no static runtime. */' 'INPUT ( libcudart.so )' >$@

# $(call pc,NAME,DESCRIPTION,VERSION,LIBS): the text of a pkg-config file.
pc = printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$(INCLUDEDIR)' '' 'Name: $(1)' \
	'Description: $(2)' 'Version: $(3)' 'Libs: $(4)' \
	'Cflags: -I$${includedir}/gpumem -I$${includedir}'

$(out)/gpumem.pc: Makefile FORCE
	@mkdir -p $(@D)
	@$(call pc,gpumem,CUDA memory management on Linux,$(VERSION),-L$${libdir} -lgpumem) >$@

$(out)/cuda.pc: Makefile FORCE
	@mkdir -p $(@D)
	@$(call pc,cuda,CUDA driver API by gpumem,$(cuda_version),-L$${libdir}/gpumem -lcuda) >$@

$(out)/cudart.pc: Makefile FORCE
	@mkdir -p $(@D)
	@$(call pc,cudart,CUDA runtime API by gpumem,$(cuda_version),-L$${libdir}/gpumem -lcudart) >$@

$(out)/cufile.pc: Makefile FORCE
	@mkdir -p $(@D)
	@$(call pc,cufile,cuFile API by gpumem,$(cuda_version),-L$${libdir}/gpumem -lcufile -lcuda) >$@

# find_package(CUDAToolkit) in config mode. Paths are relative to the file.
$(out)/cmake/%.cmake: tools/cmake/%.cmake.in Makefile FORCE
	@mkdir -p $(@D)
	@sed -e 's|@VERSION@|$(cuda_version)|' -e "s|@INCLUDES@|$$(realpath -m \
		--relative-to='$(LIBDIR)/gpumem/cmake' '$(INCLUDEDIR)/gpumem')|" -e "s|@PREFIX@|$$(realpath -m \
		--relative-to='$(LIBDIR)/gpumem/cmake' '$(PREFIX)')|" $< >$@

# ---- programs: tools/NAME.c, tools/NAME/*.c; tools/demo makes gpumem-demo

name_demo := gpumem-demo
name_bench := gpumem-bench
LDLIBS_gpumem-demo := -lpng -lz -lrdmacm -libverbs
LDLIBS_gpumem-bench := -libverbs
LDLIBS_gpumem := -lnl-genl-3 -lnl-3 -ljansson
CPPFLAGS_gpumem := -isystem /usr/include/libnl3
prog = $(or $(name_$(notdir $(1))),$(notdir $(1)))
one := $(wildcard tools/*.c)
# tools/replay is no command of its own: "gpumem replay" is.
dirs := $(filter-out tools/replay,$(sort $(patsubst %/,%,$(dir $(wildcard tools/*/*.c)))))
progs := $(patsubst %.c,$(out)/bin/%,$(notdir $(one))) $(foreach d,$(dirs),$(out)/bin/$(call prog,$(d)))

.PHONY: tools
tools: $(progs) $(out)/libexec/gpumem/gpumem-vm $(out)/libexec/gpumem/gpumem-replay

# "gpumem vm" finds this program in libexec/gpumem, here as in an installation.
$(out)/libexec/gpumem/gpumem-vm: tools/vm/gpumem-vm
	@mkdir -p $(@D) && ln -sfn $(top)/$< $@

# It loads a driver at run time: no library of ours is linked.
replay_obj := $(patsubst %.c,$(out)/obj/%.o,$(wildcard tools/replay/*.c))
$(replay_obj): $(out)/obj/%.o: %.c $(flags)
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(cflags) -I$(<D) -c -o $@ $<
$(out)/libexec/gpumem/gpumem-replay: $(replay_obj) $(out)/obj/libgpumem/record/parameter.o
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) -o $@ $^ $(ldflags) $(lib_cov) -ljansson -lm -pthread \
		-Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/../../lib'

# $(call program,NAME,SOURCES)
define program
$(out)/bin/$(1): $(2:%.c=$(out)/obj/%.o) | $(libs) $(libs:%.1=%) $(out)/lib/$(driver)
	$$(call say,LD,$$@)mkdir -p $$(@D) && $$(CC) -o $$@ $$(filter %.o,$$^) $$(ldflags) \
		-L$(out)/lib -lgpumem $$(LDLIBS_$(1)) $$(lib_cov) -lm -pthread -Wl,-rpath,'$$$$ORIGIN/../lib'
$(2:%.c=$(out)/obj/%.o): $(out)/obj/%.o: %.c $(flags)
	$$(call say,CC,$$<)mkdir -p $$(@D) && $$(CC) $$(cflags) $$(CPPFLAGS_$(1)) -I$$(<D) -c -o $$@ $$<
endef
$(foreach s,$(one),$(eval $(call program,$(basename $(notdir $(s))),$(s))))
$(foreach d,$(dirs),$(eval $(call program,$(call prog,$(d)),$(wildcard $(d)/*.c))))
# "gpumem fault" reads rules as the library does.
$(out)/bin/gpumem: $(out)/obj/libgpumem/core/fault_rule.o $(out)/obj/libgpumem/core/error.o

-include $(wildcard $(out)/obj/*/*.d $(out)/obj/*/*/*.d)

# ---- tests

# NATIVE=1 inserts the module into the running kernel; otherwise a virtual machine boots one.
VM_KERNEL ?= 6.12
INSMOD ?= devices=2 vram=256M
CHECK_TIMEOUT ?= 4200

.PHONY: selftests
selftests: lib
	$(Q)$(MAKE) --no-print-directory -C selftests OUTPUT=$(out)/selftests LIB=$(out)/lib CC='$(CC)' \
		SAN='$(SAN)' CFLAGS='$(CFLAGS) $(if $(COV),-DGPUMEM_COV)' $(pass)

# Files that have the version, each with the line.
versioned = 'dkms.conf:PACKAGE_VERSION="$(VERSION)"' 'debian/changelog:gpumem ($(VERSION)) .*' \
	'Documentation/changes.rst:$(VERSION)\( (.*)\)\?' 'tools/packages/rpm/gpumem.spec:Version: *$(VERSION)' \
	'tools/packages/arch/PKGBUILD:pkgver=$(VERSION)'

.PHONY: check-version
check-version:
	@for v in $(versioned); do grep -qx -e "$${v#*:}" "$${v%%:*}" || { \
		echo "$${v%%:*}: not version $(VERSION)" >&2; exit 1; }; done

check_env = NATIVE='$(NATIVE)' VM_KERNEL='$(VM_KERNEL)' INSMOD='$(INSMOD)' CC='$(CC)' \
	TIMEOUT='$(CHECK_TIMEOUT)' BUILD='$(out)' GPUMEM_BUILD='$(out)' \
	GPUMEM_MODULES='$(if $(SAN),$(top)/build,$(out))'

.PHONY: check
check: check-version lib tools selftests
	@+$(check_env) selftests/vm/check

# What counts lines: module, library and tests of their own in cov/.
counting = $(MAKE) --no-print-directory O=$(out)/cov COV=1 CFLAGS='-O1 -g' CC='$(CC)' \
	lib tools selftests

.PHONY: check-matrix
check-matrix: lib tools selftests
	+$(Q)$(counting)
	@+$(check_env) selftests/vm/check --matrix -- $(TESTS)

# Programs that are not ours, on libcuda.so.1: FFmpeg, PyTorch, GStreamer, liboffload, libgomp's tests.
.PHONY: check-interop
check-interop: lib tools selftests
	@+$(check_env) selftests/vm/check --interop

# Clients from sources that SRC has; nothing is downloaded.
.PHONY: check-clients
check-clients: lib
	@$(if $(SRC),,echo "check-clients: give SRC=directory, see Documentation/clients.rst" >&2; exit 2)
	@+$(check_env) selftests/interop/sources '$(SRC)' $(if $(ONLY),--only '$(ONLY)')

# The part of check-interop with UCX and OpenMPI, built with CUDA: the first time they are built, for some minutes.
.PHONY: check-mpi-cuda
check-mpi-cuda: lib
	@+$(check_env) selftests/interop/mpi --cuda $(RUNS)

# gpumem-dkms in a root of Debian 12, beside headers of 6.1 and 6.12; some minutes, as root.
.PHONY: check-dkms
check-dkms:
	@selftests/packages/dkms

# Charges of device memory, on a kernel that has the dmem cgroup controller.
.PHONY: check-dmem
check-dmem: lib tools selftests
	@+$(check_env) VM_KERNEL=debug-7.2 selftests/vm/check --only kselftest -- t_dmem

# The module for the newest kernel of each series whose headers Debian has.
.PHONY: check-kernels
check-kernels:
	@BUILD='$(out)' selftests/packages/kernels $(SERIES) $(SRC)

# The Debian packages, built, installed, upgraded and purged in roots of Debian 12, 13 and testing, or in those that
# RELEASES names; as root.
.PHONY: check-packages
check-packages: check-version
	@selftests/packages/debs $(RELEASES)

.PHONY: kselftest
kselftest: lib tools selftests
	@+$(check_env) selftests/vm/check --only kselftest -- $(TESTS)

# The tests against models, at length.
STRESS_STEPS ?= 1000000
STRESS := t_vm:model t_pin:random t_stream:model t_model:streams t_faults:random_entries \
	t_cuda_model:against_a_model t_cuda_property:random t_cuda_pool_order:never_overwritten \
	t_cuda_stress:random t_pool_cache:race t_cuda_array_model:against_a_model

.PHONY: stress
stress: lib tools selftests
	@+$(check_env) TIMEOUT=100000 GPUMEM_TIMEOUT=100000 GPUMEM_STEPS=$(STRESS_STEPS) \
		selftests/vm/check --only kselftest -- $(or $(TESTS),$(STRESS))

# Ten minutes; a module of its own in kcov/.  KEEP=1 renews the corpus.
.PHONY: fuzz
fuzz: selftests
	@+$(call given,KEEP LEAST GPUMEM_SEED SECONDS_OF_IT VM_KERNEL) selftests/fuzz/run $(out)

# Fails when less than LEAST % of kmod/ is covered.
.PHONY: coverage
coverage:
	+$(Q)$(counting)
	@+$(call given,LEAST) VM_KERNEL='$(VM_KERNEL)' selftests/cover/run $(out)/cov $(TESTS)

# Faults put into the sources, each of which the tests must notice: selftests/mutants/mutate.
.PHONY: mutants
mutants: lib selftests
	@+$(check_env) selftests/mutants/mutate run $(if $(KERNEL),--kernel $(KERNEL)) $(MUTANTS)

.PHONY: demo demo-cluster
demo:
	@+$(check_env) tools/demo/run
demo-cluster:
	@+$(check_env) tools/demo/cluster

# Exit status 2 from make; "NOT COMPARED" or "FAILED" above it tells which.
.PHONY: bench bench-baseline bench-compare bench-cuda bench-timed
bench bench-baseline bench-compare bench-cuda bench-timed: lib tools
	@$(if $(filter bench-compare,$@),$(if $(BASE),,echo "bench-compare: give BASE=revision" >&2; exit 2))
	@$(check_env) BENCH='$(BENCH)' tools/bench/run \
		$(if $(filter bench,$@),check,$(@:bench-%=%) $(if $(filter bench-compare,$@),'$(BASE)'))

# checkpatch over the kernel side; make C=1 W=1 modules is the other half.
.PHONY: checkpatch
checkpatch:
	@perl "$$(selftests/vm/kernel --kselftest)/checkpatch.pl" --no-tree --strict --terse --quiet \
		--ignore FILE_PATH_CHANGES,SPLIT_STRING -f \
		$(wildcard kmod/*.[ch] uapi/linux/*.h) selftests/vm/splats.c

# ---- documents: build/htmldocs/index.html.  Every warning is an error.

.PHONY: htmldocs
htmldocs:
	@command -v sphinx-build >/dev/null && command -v dot >/dev/null || { \
		echo "htmldocs: as root: apt-get install python3-sphinx graphviz" >&2; exit 1; }
	$(call say,SPHINX,$(out)/htmldocs)mkdir -p $(out) && PYTHONDONTWRITEBYTECODE=1 sphinx-build -q -W \
		--keep-going -b html -d $(out)/doctrees Documentation $(out)/htmldocs

# One manual page for each gpumem_* function, made of the comments in the header.
$(out)/man/.made: Documentation/man/mkman Documentation/man/libgpumem.3 \
		libgpumem/include/gpumem.h libgpumem/include/cufile_stats.h
	$(call say,MAN,$(out)/man)rm -rf $(@D) && mkdir -p $(@D) && Documentation/man/mkman $(@D) && touch $@

.PHONY: man
man: $(out)/man/.made

# ---- installation

# What gpumem-vm needs of the virtual machine of the tests.
vmlib := $(addprefix selftests/vm/vmlib/,$(addsuffix .py,__init__ apt cache chroot cluster guest initrd kernels \
	machine qemu runner splat tool))

# BUILT=1 installs the libraries and programs that are built, as they are.
.PHONY: install
install: $(if $(BUILT),,lib tools) man $(for_builds)
	$(INSTALL) -d $(addprefix $(DESTDIR),$(LIBDIR)/pkgconfig $(LIBDIR)/gpumem/cuda12 $(LIBDIR)/gpumem/cmake \
		$(INCLUDEDIR)/gpumem \
		$(INCLUDEDIR)/linux $(PREFIX)/bin $(UDEVDIR)/rules.d $(addprefix $(PREFIX)/share/,gpumem \
		bash-completion/completions fish/vendor_completions.d) $(ZSHDIR))
	$(INSTALL) -m 644 $(libs) $(out)/lib/$(driver) $(checker) $(recorders) $(DESTDIR)$(LIBDIR)
	$(INSTALL) -m 644 $(filter $(out)/compat/lib%,$(filters)) $(cudarts) $(videos) \
		$(cufile) $(DESTDIR)$(LIBDIR)/gpumem
	$(INSTALL) -m 644 $(filter $(out)/compat/cuda12/%,$(drivers) $(filters)) \
		$(DESTDIR)$(LIBDIR)/gpumem/cuda12
	$(foreach l,$(links),cp -d $l $(DESTDIR)$(LIBDIR)/$(patsubst compat/%,gpumem/%,$(patsubst lib/%,%,$(l:$(out)/%=%))) &&) :
	$(INSTALL) -m 644 $(filter %.pc,$(for_builds)) $(DESTDIR)$(LIBDIR)/pkgconfig
	$(INSTALL) -m 644 $(filter %.cmake,$(for_builds)) $(DESTDIR)$(LIBDIR)/gpumem/cmake
	$(INSTALL) -m 644 $(wildcard libgpumem/include/*.h) $(DESTDIR)$(INCLUDEDIR)/gpumem
	$(INSTALL) -m 644 $(wildcard uapi/linux/*.h) $(DESTDIR)$(INCLUDEDIR)/linux
	$(INSTALL) -m 644 tools/udev/70-gpumem.rules $(DESTDIR)$(UDEVDIR)/rules.d
	$(if $(progs),$(INSTALL) $(progs) $(DESTDIR)$(PREFIX)/bin)
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/libexec/gpumem/vmlib
	$(INSTALL) tools/vm/gpumem-vm $(out)/libexec/gpumem/gpumem-replay $(DESTDIR)$(PREFIX)/libexec/gpumem
	$(INSTALL) -m 644 $(vmlib) $(DESTDIR)$(PREFIX)/libexec/gpumem/vmlib
	$(INSTALL) -m 644 tools/dashboard/gpumem.json $(DESTDIR)$(PREFIX)/share/gpumem
	$(INSTALL) -m 644 tools/completion/gpumem.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/gpumem
	$(INSTALL) -m 644 tools/completion/_gpumem $(DESTDIR)$(ZSHDIR)
	$(INSTALL) -m 644 tools/completion/gpumem.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	for m in Documentation/man/*.[1-9] $(out)/man/*.[1-9]; do \
		$(INSTALL) -D -m 644 $$m $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/$${m##*/} || exit 1; done
	$(if $(DESTDIR),,-ldconfig)

INSTALL_MOD_PATH ?= $(DESTDIR)
.PHONY: modules_install
modules_install: modules
	$(Q)$(MAKE) $(if $(V),,--no-print-directory) -C $(kdir) M=$(stage) $(pass) \
		INSTALL_MOD_PATH='$(INSTALL_MOD_PATH)' INSTALL_MOD_DIR=updates modules_install

# ---- releases: the sources of the last commit, the same bytes each time

.PHONY: dist
dist: check-version
	@git update-index -q --refresh; git diff-index --quiet HEAD || { \
		echo "dist: there are changes that are not committed" >&2; exit 1; }
	$(call say,DIST,$(out)/gpumem-$(VERSION).tar.gz)mkdir -p $(out) && git -c tar.umask=0022 archive \
		--prefix=gpumem-$(VERSION)/ -o $(out)/gpumem-$(VERSION).tar HEAD && gzip -9nf $(out)/gpumem-$(VERSION).tar

# ---- the rest

.PHONY: clean
clean:
	rm -rf $(out)

.PHONY: help
help:
	@printf '%s\n' \
	'make                  module, library and programs, below build/' \
	'make modules          build/RELEASE/gpumem.ko for the running kernel, else for the test machine' \
	'make lib              build/lib/libgpumem.so.1; libcuda, libcudart, libnvidia-ml in build/compat/' \
	'make tools            build/bin/' \
	'make selftests        build/selftests/' \
	'make check            build all; test the host side, then the kernel in a virtual machine' \
	'make kselftest        the kernel tests alone; TESTS="NAME[:CASE]..." picks some' \
	'make check-matrix     the module and its tests on the kernels that check leaves out' \
	'make check-interop    other programs on our libcuda.so.1: libgomp, PyTorch and others' \
	'make check-mpi-cuda   UCX and OpenMPI, built with CUDA from their sources, on two machines; RUNS= picks' \
	'make check-dkms       gpumem-dkms beside kernels that are old and new, in a root of Debian 12' \
	'make check-kernels    the module for each series of kernels that Debian has; SERIES=7.2 picks; SRC=./DIR: others' \
	'make check-dmem       device memory in dmem cgroups, on a kernel that is built for it' \
	'make check-packages   the Debian packages: build, lintian, install, upgrade, purge; RELEASES=bookworm picks' \
	'make stress           the tests against models, with a million steps each (STRESS_STEPS=)' \
	'make fuzz             ten minutes of random programs on the debug kernel; blocks reached' \
	'make coverage         lines of kmod/ and libgpumem/ that the kernel tests cover' \
	'make mutants          faults put into the sources: do the tests notice?  MUTANTS="ID..." picks' \
	'make checkpatch       the style of kmod/ and uapi/' \
	'make demo             show it at work' \
	'make demo-cluster     the same with two machines and RDMA' \
	'make man              manual pages of the gpumem_* functions: build/man/' \
	'make htmldocs         these documents as HTML pages: build/htmldocs/index.html' \
	'make bench            gpumem-bench, compared with tools/bench/baseline.tsv; BENCH="NAME..."' \
	'make bench-timed      the timed benches in a virtual machine; BENCH="NAME..." picks some' \
	'make bench-baseline   write tools/bench/baseline.tsv' \
	'make bench-compare    BASE=REVISION: what gpumem-bench costs there and here' \
	"make bench-cuda       the same program on NVIDIA's libcuda.so.1, where there is one, and on ours" \
	'make install          library, headers, programs, manual pages, udev rule: DESTDIR= PREFIX= LIBDIR=' \
	'make modules_install  gpumem.ko, as kbuild does: INSTALL_MOD_PATH= (or DESTDIR=)' \
	'make dist             build/gpumem-VERSION.tar.gz, the sources of the last commit' \
	'make clean            remove build/' \
	'' \
	'  V=1          show the commands           W=1   more warnings' \
	'  KDIR=DIR     kernel build tree           C=1   sparse on the module' \
	'  O=DIR        output directory (build)    CC=   compiler of library and programs' \
	'  SAN=LIST     sanitizers: address,undefined or thread, in build/san-LIST' \
	'  VM_KERNEL=   kernel of the virtual machine (selftests/vm/kernel --list)' \
	'  NATIVE=1     check and kselftest insert the module into the running kernel (needs root)' \
	'  INSMOD=      parameters of the module in check (devices=2 vram=256M)'
