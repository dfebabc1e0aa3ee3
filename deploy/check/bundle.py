#!/usr/bin/env python3
"""The config.json of a container as strict as Kubernetes' "restricted" asks: nobody's user, no capability, nothing to write to.

    deploy/check/bundle.py ROOTFS PROFILE [ERRNO] -- ARGS...

PROFILE is in the form of Docker and containers-common; ERRNO is what a call that it denies gives, in the place of the profile's own.
"""
import json
import sys

end = sys.argv.index("--")
rootfs, profile_file, *errno = sys.argv[1:end]
args = sys.argv[end + 1 :]
with open(profile_file, encoding="utf-8") as file:
    profile = json.load(file)


def applies(rule):
    """For this architecture, and for a process without capabilities."""
    wants, wants_not = rule.get("includes") or {}, rule.get("excludes") or {}
    arch = "amd64"
    if wants.get("caps") or (wants.get("arches") and arch not in wants["arches"]):
        return False
    return arch not in (wants_not.get("arches") or [])


syscalls = []
for rule in profile["syscalls"]:
    if not applies(rule) or rule["action"] != "SCMP_ACT_ALLOW":
        continue
    kept = {"names": rule.get("names") or [rule["name"]], "action": rule["action"]}
    if rule.get("args"):
        kept["args"] = [{key: part[key] for key in ("index", "value", "valueTwo", "op") if key in part} for part in rule["args"]]
    syscalls.append(kept)

print(
    json.dumps(
        {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 65532, "gid": 65532},
                "args": args,
                "env": ["PATH=/"],
                "cwd": "/",
                "capabilities": {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")},
                "noNewPrivileges": True,
            },
            "root": {"path": rootfs, "readonly": True},
            "hostname": "doorbell",
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
            ],
            "linux": {
                # The network is the host's: this is about system calls.
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
                "seccomp": {
                    "defaultAction": profile["defaultAction"],
                    "defaultErrnoRet": int(errno[0]) if errno else profile.get("defaultErrnoRet", 1),
                    "architectures": ["SCMP_ARCH_X86_64"],
                    "syscalls": syscalls,
                },
            },
        },
        indent=1,
    )
)
