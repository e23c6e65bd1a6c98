"""Small validated types that the spec is made of."""

from __future__ import annotations

import base64
import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, StringConstraints

from gpuferry.shared import shared

# A hostname label (RFC 1123): it becomes the server's hostname and part of resource names.
NAME_RULE = "lower-case letters, digits and '-', 1 to 40 characters, starting with a letter"
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?")
_RESERVED = ("all", "localhost", "servers", "ungrouped")

# Amazon S3 "Bucket naming rules"; versitygw refuses the same names.
BUCKET_RULE = (
    "3 to 63 lower-case letters, digits, '-' and '.', starting and ending with a letter or digit, "
    "not shaped like an IP address"
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_BUCKET_RESERVED = re.compile(
    r"\.\.|^xn--|^sthree-|^amzn-s3-demo-|-s3alias$|--ol-s3$|^\d+(\.\d+){3}$"
)

# Also a file name, a path of Pulumi's configuration and a credential's name.
_NAMING = "lower-case letters, digits, '-' and '_', 1 to 63 characters, first a letter"
_SECRET_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

_VOLUME_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_SYSTEM_FOLDERS = [
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib64",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "tmp",
    "usr",
]

_BRANCH = re.compile(r"[1-9]\d\d(\.\d{1,3}(\.\d{1,3})?)?")
_CUDA = re.compile(r"[1-9]\d\.\d{1,2}")
_MIG = re.compile(r"\dg\.\d+gb(\+(me|gfx))?")

# useradd's default NAME_REGEX on Debian.
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_KEY_TYPES = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)


def _server_name(text: str) -> str:
    if text in _RESERVED:
        raise ValueError(f"{text!r} has a meaning of its own in Ansible; choose another name")
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not a usable name; accepted: {NAME_RULE}")
    return text


def _home_path(text: str) -> str:
    # Commands run in different folders, so a relative path would mean different files.
    if not text.startswith(("/", "~/")):
        raise ValueError(f"{text!r} is a relative path; write it from / or from ~/")
    return text


def _bucket_name(text: str) -> str:
    if not _BUCKET.fullmatch(text) or _BUCKET_RESERVED.search(text):
        raise ValueError(f"{text!r} is not a bucket name; accepted: {BUCKET_RULE}")
    return text


def _user_name(text: str) -> str:
    if not _USER.fullmatch(text) or text == "root":
        raise ValueError(
            f"{text!r} is not a user name; accepted: lower-case letters, digits, '_' and '-', "
            "not starting with a digit, and not root"
        )
    return text


def _cidr(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=True))
    except ValueError as error:
        try:
            hint = f"; did you mean {ipaddress.ip_network(text, strict=False)}?"
        except ValueError:
            hint = "; accepted: an IPv4 or IPv6 network such as 203.0.113.0/24 or 2001:db8::/32"
        raise ValueError(f"{text!r} is not a network ({error}){hint}") from None


def _volume_path(text: str) -> str:
    parts = text.split("/")[1:]
    bad = not text.startswith("/") or not all(_VOLUME_PART.fullmatch(part) for part in parts)
    if bad or parts[0] in _SYSTEM_FOLDERS:
        raise ValueError(
            f"{text!r} cannot be a volume's path; accepted: an absolute path of letters, digits, "
            f"'.', '_' and '-', outside {', '.join(f'/{name}' for name in _SYSTEM_FOLDERS)}"
        )
    return text


def _disk_path(text: str) -> str:
    if text and not re.fullmatch(r"/dev/disk/by-id/[A-Za-z0-9:._+-]+", text):
        raise ValueError(
            f"{text!r} is not a stable name of a disk; accepted: /dev/disk/by-id/…, since names "
            "such as /dev/sdb change from boot to boot"
        )
    return text


def secret_name(text: str) -> str:
    """The text, where it can name a secret; ValueError otherwise."""
    if not _SECRET_NAME.fullmatch(text):
        # Not repeated: it may be the value, in the wrong place.
        raise ValueError(f"that is not a secret's name; accepted: {_NAMING}")
    return text


def _reboot_window(text: str) -> str:
    if text and shared("update_state").parse_window(text) is None:
        raise ValueError(
            f"{text!r} is no window; accepted: such as 'Sun 03:00-05:00', 'Sat,Sun 22:00-02:00' or "
            "'03:00-05:00', in the servers' own time (UTC)"
        )
    return text


def _public_key(text: str) -> str:
    parts = text.split()
    problem = "accepted: one line such as 'ssh-ed25519 AAAA… comment'"
    if len(parts) < 2 or parts[0] not in _KEY_TYPES or len(text.splitlines()) != 1:
        raise ValueError(f"{text[:24]!r}… is not an OpenSSH public key; {problem}")
    try:
        blob = base64.b64decode(parts[1], validate=True)
    except ValueError:
        raise ValueError(f"the key {text[:24]!r}… is damaged (not base64); {problem}") from None
    length = int.from_bytes(blob[:4], "big")
    if blob[4 : 4 + length].decode("ascii", "replace") != parts[0]:
        raise ValueError(f"the key {text[:24]!r}… is damaged (type does not match); {problem}")
    return text.strip()


def _version_text(value: object) -> object:
    # YAML reads 12.10 as the number 12.1, and 570.10 as 570.1: a number may have lost a digit.
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} may have lost a digit; write the version in quotes")
    return str(value)


def _driver_branch(text: str) -> str:
    if not _BRANCH.fullmatch(text):
        raise ValueError(
            f"{text!r} is no driver branch; accepted: three digits such as '580', or an exact "
            "version such as '580.126.09'"
        )
    return text


def _cuda_version(text: str) -> str:
    # Only stack files that name CUDA pay for loading the rules.
    from gpuferry.driver.cuda_versions import published, standing

    if not _CUDA.fullmatch(text) or standing(text) == "never":
        raise ValueError(f"{text!r} is no CUDA version; accepted: {published()}")
    return text


def _mig_profile(text: str) -> str:
    if not _MIG.fullmatch(text):
        raise ValueError(f"{text!r} is no MIG profile; accepted: such as '1g.10gb' or '3g.40gb'")
    return text


def _host_key(text: str) -> str:
    key = _public_key(text)
    if not key.startswith("ssh-ed25519 "):
        raise ValueError(
            "only an ed25519 host key can be pinned; get it on the server's console with "
            "`cat /etc/ssh/ssh_host_ed25519_key.pub`"
        )
    return " ".join(key.split()[:2])


ServerName = Annotated[str, AfterValidator(_server_name)]
BucketName = Annotated[str, AfterValidator(_bucket_name)]
UserName = Annotated[str, AfterValidator(_user_name)]
SecretName = Annotated[str, AfterValidator(secret_name)]
VolumePath = Annotated[str, AfterValidator(_volume_path)]
DiskPath = Annotated[str, AfterValidator(_disk_path)]
HomePath = Annotated[str, AfterValidator(_home_path)]
DriverBranch = Annotated[str, BeforeValidator(_version_text), AfterValidator(_driver_branch)]
MigProfileName = Annotated[str, AfterValidator(_mig_profile)]
CudaVersion = Annotated[str, BeforeValidator(_version_text), AfterValidator(_cuda_version)]
RebootWindow = Annotated[str, AfterValidator(_reboot_window)]
Cidr = Annotated[str, AfterValidator(_cidr)]
PublicKey = Annotated[str, AfterValidator(_public_key)]
HostKey = Annotated[str, AfterValidator(_host_key)]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]
