"""Keys and certificates. They are made once per stack and live as secrets in Pulumi's state."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import secrets

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)
# Long-lived on purpose: the stack's CA signs for one private network and dies with the stack.
CA_DAYS = 3650
SERVER_DAYS = 825  # the longest that clients commonly accept for a server certificate


def ssh_key_pair(comment: str) -> dict[str, str]:
    """A new Ed25519 pair in OpenSSH's formats: `private`, `public`."""
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    line = f"{public.decode()} {comment}" if comment else public.decode()
    return {"private": private.decode(), "public": line}


def volume_key() -> dict[str, str]:
    """A new key of an encrypted volume: 256 bits, in letters and digits that can be typed."""
    return {"key": base64.b32encode(secrets.token_bytes(32)).decode().rstrip("=")}


def access_key() -> dict[str, str]:
    """A new S3 key pair, shaped like Amazon's: `access_key` (20), `secret_key` (40)."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    return {
        "access_key": "GF" + "".join(secrets.choice(alphabet) for _ in range(18)),
        "secret_key": secrets.token_urlsafe(30),
    }


def certificate_authority(stack: str) -> dict[str, str]:
    """A new CA for one stack: `ca_pem`, `ca_key`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"gpuferry {stack} CA")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + CA_DAYS * _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return {"ca_pem": _pem(certificate), "ca_key": _key_pem(key)}


def server_certificate(ca_pem: str, ca_key: str, addresses: list[str]) -> dict[str, str]:
    """A certificate for a server's IP addresses: `cert_pem`, `key_pem`."""
    ca = x509.load_pem_x509_certificate(ca_pem.encode())
    signer = serialization.load_pem_private_key(ca_key.encode(), password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise TypeError("the stack's CA key is not an elliptic-curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, addresses[0])]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + SERVER_DAYS * _DAY)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return {"cert_pem": _pem(certificate), "key_pem": _key_pem(key)}


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
