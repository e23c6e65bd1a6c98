"""Runs on the source machine with its own python3 (3.6 or newer), standard library only.

Sent over stdin behind a line `ARGUMENTS = {...}`. Prints one JSON object a sample, each complete,
so that whatever was read last before an interruption is the result so far. Lowers its priority.
"""

import ctypes
import json
import os
import platform
import signal
import stat
import subprocess
import sys
import time

ARGUMENTS = globals().get("ARGUMENTS") or {}
LIBRARIES = (
    "torch", "tensorflow", "jax", "numpy", "transformers", "accelerate", "deepspeed", "lightning",
    "vllm", "sglang", "diffusers", "triton", "cupy", "bitsandbytes", "peft", "torchvision", "timm",
)  # fmt: skip
EDGES = (4096, 65536, 1 << 20, 16 << 20, 256 << 20)
NAMES = ("below 4 KiB", "to 64 KiB", "to 1 MiB", "to 16 MiB", "to 256 MiB", "larger")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def lower_priority():
    """Nice 19 and the idle class of disk access; whoever computes comes first."""
    try:
        os.nice(19)
    except OSError:
        pass
    numbers = {"x86_64": 251, "aarch64": 30, "ppc64le": 273}
    number = numbers.get(platform.machine())
    if number:
        try:
            ctypes.CDLL(None).syscall(number, 1, 0, 3 << 13)  # ioprio_set(process, self, idle)
        except (OSError, AttributeError):
            pass


def read(path):
    """A small file's text, empty when it is not there."""
    try:
        with open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def tree(pid):
    """A process and its descendants, from one pass over /proc."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = read("/proc/%s/stat" % name).rpartition(")")[2].split()
            if len(fields) > 1:
                children.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        if os.path.exists("/proc/%d" % one):
            found.append(one)
            queue += children.get(one, [])
    return found


class Nvml(object):
    """The part of NVML that is needed; `absent` says why there is none."""

    class Memory(ctypes.Structure):
        _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

    class Use(ctypes.Structure):
        _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]

    class Process(ctypes.Structure):
        _fields_ = [
            ("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint),
            ("ci", ctypes.c_uint),
        ]  # fmt: skip

    def __init__(self):
        self.absent, self.handles, self.names, self.totals, self.driver = "", [], [], [], ""
        try:
            self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            self.absent = "no NVIDIA driver library"
            return
        code = self.lib.nvmlInit_v2()
        if code:
            self.absent = "NVML does not start (error %d)" % code
            return
        count = ctypes.c_uint()
        self.lib.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if self.lib.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
                continue
            name = ctypes.create_string_buffer(96)
            self.lib.nvmlDeviceGetName(handle, name, 96)
            self.handles.append(handle)
            self.names.append(name.value.decode("utf-8", "replace"))
            self.totals.append(self.memory(handle, "total"))
        text = ctypes.create_string_buffer(96)
        self.lib.nvmlSystemGetDriverVersion(text, 96)
        self.driver = text.value.decode("utf-8", "replace")
        if not self.handles:
            self.absent = "no GPU"

    def memory(self, handle, field="used"):
        found = self.Memory()
        code = self.lib.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(found))
        return None if code else getattr(found, field)

    def utilization(self, handle):
        found = self.Use()
        code = self.lib.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(found))
        return None if code else found.gpu

    def used_by(self, handle, pids):
        """Memory of these processes; None when the driver does not tell."""
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3",
                     "nvmlDeviceGetComputeRunningProcesses_v2"):  # fmt: skip
            try:
                function = getattr(self.lib, name)
            except AttributeError:
                continue
            count = ctypes.c_uint(128)
            found = (self.Process * 128)()
            if function(handle, ctypes.byref(count), found):
                continue
            mine = [p.used for p in found[: count.value] if p.pid in pids]
            unknown = (1 << 64) - 1  # NVML_VALUE_NOT_AVAILABLE
            return None if unknown in mine else sum(mine)
        return None


class Counters(object):
    """CPU, memory, disk and network, of the machine or of a tree of processes."""

    def __init__(self, pid):
        self.pid, self.last, self.at = pid, {}, None
        # Processes come and go: what ended ones have counted must not make the sum fall.
        self.seen = {}

    def now(self):
        values = {}
        net = [0, 0]
        for line in read("/proc/net/dev").splitlines()[2:]:
            name, _, rest = line.partition(":")
            fields = rest.split()
            if name.strip() != "lo" and len(fields) > 8:
                net[0] += int(fields[0])
                net[1] += int(fields[8])
        values["net_in"], values["net_out"] = net
        if self.pid:
            pids = tree(self.pid)
            resident = 0
            for pid in pids:
                fields = read("/proc/%d/stat" % pid).rpartition(")")[2].split()
                if len(fields) < 22:
                    continue
                io = dict(
                    line.split(": ", 1)
                    for line in read("/proc/%d/io" % pid).splitlines()
                    if ": " in line
                )
                self.seen[pid, fields[19]] = (
                    (int(fields[11]) + int(fields[12])) / float(TICKS),
                    int(io.get("read_bytes", 0)), int(io.get("write_bytes", 0)),
                )  # fmt: skip
                resident += int(fields[21]) * PAGE
            for at, name in enumerate(("cpu", "disk_read", "disk_write")):
                values[name] = sum(counted[at] for counted in self.seen.values())
            return values, resident, pids
        fields = [int(x) for x in read("/proc/stat").split("\n", 1)[0].split()[1:]]
        # user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
        values["cpu"] = (sum(fields[:8]) - fields[3] - fields[4]) / float(TICKS)
        disks = set(os.listdir("/sys/block")) if os.path.isdir("/sys/block") else set()
        values["disk_read"] = values["disk_write"] = 0
        for line in read("/proc/diskstats").splitlines():
            fields = line.split()
            if (
                len(fields) > 9
                and fields[2] in disks
                and not fields[2].startswith(("loop", "ram", "dm-", "md"))
            ):
                values["disk_read"] += int(fields[5]) * 512
                values["disk_write"] += int(fields[9]) * 512
        memory = {}
        for line in read("/proc/meminfo").splitlines():
            name, _, rest = line.partition(":")
            memory[name] = int(rest.split()[0]) * 1024 if rest.split() else 0
        return values, memory.get("MemTotal", 0) - memory.get("MemAvailable", 0), None

    def rates(self):
        """({name: per second}, memory, pids); rates are empty the first time."""
        values, memory, pids = self.now()
        at = time.monotonic()
        rates = {}
        if self.at is not None and at > self.at:
            for name, value in values.items():
                rates[name] = max(0.0, (value - self.last.get(name, value)) / (at - self.at))
        self.last, self.at = values, at
        return rates, memory, pids


def walk(folder):
    """Sizes of regular files below a folder; links are not followed, hard links count once."""
    seen, queue = set(), [folder]
    while queue:
        try:
            entries = os.scandir(queue.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
                        continue
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if not stat.S_ISREG(found.st_mode):
                    continue
                if found.st_nlink > 1:
                    if (found.st_dev, found.st_ino) in seen:
                        continue
                    seen.add((found.st_dev, found.st_ino))
                yield found.st_size


class Files(object):
    """Counts files little by little: never more than a fifth of the time."""

    def __init__(self, folder):
        self.count = self.bytes = 0
        self.histogram = [0] * len(NAMES)
        self.complete = folder is None
        self.sizes = iter(()) if folder is None else walk(folder)

    def go_on(self, seconds):
        until = time.monotonic() + seconds
        while not self.complete and time.monotonic() < until:
            size = next(self.sizes, None)
            if size is None:
                self.complete = True
                return
            self.count += 1
            self.bytes += size
            self.histogram[sum(size >= edge for edge in EDGES)] += 1


def versions(pid):
    """Interpreter and libraries of the job, else of this python3."""
    python = sys.executable or "python3"
    if pid:
        words = [w for w in read("/proc/%d/cmdline" % pid).split("\0") if w]
        if not words or "python" not in os.path.basename(words[0]):
            return {"program": words[0] if words else ""}
        python = words[0] if os.path.isabs(words[0]) else os.path.realpath("/proc/%d/exe" % pid)
    code = (
        "import sys, json\ntry:\n from importlib.metadata import version\nexcept ImportError:\n"
        " version = None\nfound = {'python': sys.version.split()[0]}\nfor name in %r:\n try:\n"
        "  found[name] = version(name)\n except Exception:\n  pass\nprint(json.dumps(found))"
        % (LIBRARIES,)
    )
    try:
        out = subprocess.check_output([python, "-c", code], stderr=subprocess.DEVNULL, timeout=20)
        return json.loads(out.decode())
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}


def summary(values):
    """Mean, 95th percentile and peak; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    return {
        "mean": sum(values) / float(len(values)),
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "peak": ordered[-1],
    }


def main():
    """Sample until the time is over, the job has ended, or somebody stops it."""
    lower_priority()
    pid, every = ARGUMENTS.get("pid"), float(ARGUMENTS.get("every", 5))
    if pid and not os.path.exists("/proc/%d" % pid):
        print(json.dumps({"error": "there is no process %d" % pid}), flush=True)
        return 2
    if ARGUMENTS.get("data") and not os.path.isdir(ARGUMENTS["data"]):
        print(json.dumps({"error": "there is no folder %s" % ARGUMENTS["data"]}), flush=True)
        return 2
    stopped = []
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), lambda number, _: stopped.append(number))
    nvml, counters, files = Nvml(), Counters(pid), Files(ARGUMENTS.get("data"))
    fixed = {
        "host": platform.node(), "machine": platform.machine(), "cpus": os.cpu_count(),
        "kernel": platform.release(), "versions": versions(pid), "driver": nvml.driver,
        "gpu_absent": nvml.absent,
    }  # fmt: skip
    series, ram, gpus = {}, [], [{"util": [], "memory": []} for _ in nvml.handles]
    started, number = time.monotonic(), 0
    end = started + float(ARGUMENTS.get("seconds", 60))
    while True:
        rates, memory, pids = counters.rates()
        ram.append(memory)
        for name, value in rates.items():
            series.setdefault(name, []).append(value)
        for handle, seen in zip(nvml.handles, gpus):
            used = nvml.used_by(handle, pids) if pids is not None else nvml.memory(handle)
            utilization = nvml.utilization(handle)
            if used is not None:
                seen["memory"].append(used)
            if utilization is not None:
                seen["util"].append(utilization)
        number += 1
        files.go_on(every / 5)
        ended = bool(pid) and not pids
        over = bool(stopped) or ended or time.monotonic() >= end
        print(json.dumps(dict(
            fixed, samples=number, seconds=time.monotonic() - started, ended=ended,
            interrupted=bool(stopped), done=over,
            rates={name: summary(values) for name, values in series.items()}, ram=summary(ram),
            gpus=[
                {"name": n, "total": t, "util": summary(s["util"]), "memory": summary(s["memory"])}
                for n, t, s in zip(nvml.names, nvml.totals, gpus)
            ],
            files={"count": files.count, "bytes": files.bytes, "complete": files.complete,
                   "histogram": dict(zip(NAMES, files.histogram))},
        )), flush=True)  # fmt: skip
        if over:
            return 0
        wake = min(time.monotonic() + every, max(end, time.monotonic() + 0.05))
        while time.monotonic() < wake and not stopped:
            if not files.complete:
                files.go_on(min(every / 5, 0.2))
            time.sleep(min(0.2, max(0.0, wake - time.monotonic())))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(0)
